"""Two runs as text: their sums, then their calls side by side."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.render.times import duration_text, ran_text
from longwatch.cli.render.usage import cost_text
from longwatch.journal.comparison import ComparedCallView, ComparedRunView, ComparisonView, DiffRowView
from longwatch.model.run import Status

INDENT = 2
MAX_INDENT = 12  # levels
COLUMNS = (
    Column("", 12, 1),  # the arrow at the first difference
    Column("", 11, 1),
    Column("CALL", 10, 16, elastic=True),
    Column("A", 9, 6, right=True),
    Column("B", 9, 6, right=True),
    Column("A TOKENS", 4, 8, right=True),  # omitted without a model call
    Column("B TOKENS", 4, 8, right=True),
    Column("DIFFERENCES", 6, 12, elastic=True),
)
TOKEN_COLUMNS = frozenset({"A TOKENS", "B TOKENS"})


def comparison_lines(view: ComparisonView, *, width: int | None) -> Iterator[StyledLine]:
    """The view of `longwatch diff`."""
    yield from _run_lines(view)
    yield [Segment("")]
    if not view.rows:
        text = summary_text(view) if view.left_out else "Neither run has calls."
        yield [Segment(text, "dim")]
        return
    rows = [_row(row, is_first=number == view.first_difference) for number, row in enumerate(view.rows)]
    shown = [
        index
        for index, column in enumerate(COLUMNS)
        if column.title not in TOKEN_COLUMNS or any(row[5].text or row[6].text for row in rows)
    ]
    yield from table(
        [COLUMNS[index] for index in shown], [[row[index] for index in shown] for row in rows], width=width
    )
    yield [Segment("")]
    yield [Segment(summary_text(view), "" if view.differing else "good")]


def summary_text(view: ComparisonView) -> str:
    """`2 of 14 calls differ.` The page has the same text."""
    total = len(view.rows) + view.left_out
    if not view.differing:
        return f"{count_text(total, 'call')}, all alike except for their times."
    return f"{view.differing:,} of {count_text(total, 'call')} differ."


def _run_lines(view: ComparisonView) -> Iterator[StyledLine]:
    sides = (("A", view.a), ("B", view.b))
    names = max(len(clean(run.run_id)) for _, run in sides)
    for letter, run in sides:
        symbol, style = STATUS_LOOKS[Status(run.status)]
        yield [
            Segment(f"{letter}  ", "dim"),
            Segment(f"{symbol} {run.status}".ljust(11), style),
            Segment(f"  {clean(run.run_id).ljust(names)}", "strong"),
            Segment(f"  {_facts(run)}"),
        ]
        if run.error:
            yield [Segment("   "), Segment(clean(run.error.splitlines()[0]), "bad")]


def _facts(run: ComparedRunView) -> str:
    between = run.duration_between
    duration = ran_text(between[0] or 0, between[1]) if between else duration_text(run.duration_ms or 0)
    parts = [duration, count_text(run.events, "event")]
    if (usage := run.usage) is not None:
        lacks = "+" if usage.calls_with_tokens < usage.model_calls else ""
        parts.append(f"{usage.input_tokens + usage.output_tokens:,}{lacks} tokens")
        if usage.cost is not None:
            of = "" if usage.priced_calls == usage.model_calls else f" for {usage.priced_calls:,} of"
            all_calls = count_text(usage.model_calls, "call")
            parts.append(f"{cost_text(Decimal(str(usage.cost)))}{of or ' for'} {all_calls}")
    return ", ".join(parts)


def _row(row: DiffRowView, *, is_first: bool) -> list[Segment]:
    sign, style = _sign(row)
    indent = " " * (INDENT * min(row.depth, MAX_INDENT))
    agent = f" of {row.agent_name}" if row.agent_name and row.agent_name != row.name else ""
    return [
        Segment("▸" if is_first else " ", "warn"),
        Segment(sign, style),
        Segment(f"{indent}{clean(row.name + agent)}", style),
        Segment(_time(row.a)),
        Segment(_time(row.b)),
        Segment(_tokens(row.a), "dim"),
        Segment(_tokens(row.b), "dim"),
        Segment(clean(_difference_text(row)), style),
    ]


def _sign(row: DiffRowView) -> tuple[str, str]:
    if row.b is None:
        return "-", "bad"
    if row.a is None:
        return "+", "good"
    return ("~", "warn") if row.differences else (" ", "")


def _time(call: ComparedCallView | None) -> str:
    if call is None:
        return "–"
    return call.status if call.duration_ms is None else duration_text(call.duration_ms)


def _tokens(call: ComparedCallView | None) -> str:
    return "" if call is None or call.tokens is None else f"{call.tokens:,}"


def _difference_text(row: DiffRowView) -> str:
    if row.a is None or row.b is None:
        only = row.a or row.b
        assert only is not None
        return f"only in {'A' if row.a else 'B'}" + (f": {only.error}" if only.error else "")
    a, b = row.a, row.b
    texts = {
        "status": f"{a.status} → {b.status}",
        "error": _change_text("error", a.error, b.error),
        "arguments": _change_text("arguments", a.input_preview, b.input_preview),
        "result": _change_text("result", a.output_preview, b.output_preview),
    }
    return ", ".join(texts[each] for each in row.differences)


def _change_text(what: str, before: str | None, after: str | None) -> str:
    """`arguments: ACME → INIT`, if the previews show the difference."""
    return what if before == after else f"{what}: {before or '–'} → {after or '–'}"
