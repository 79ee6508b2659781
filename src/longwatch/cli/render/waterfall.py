"""The waterfall of a run: its calls as an outline, each with a bar that shows when it happened."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from longwatch.cli.render.bars import Scale
from longwatch.cli.render.event_line import LONGEST_TEXT
from longwatch.cli.render.styles import STATUS_LOOKS, Look, Segment, StyledLine, call_look
from longwatch.cli.render.text import clean, columns_of, count_text, fit, pad
from longwatch.cli.render.times import duration_text
from longwatch.cli.render.usage import cost_text
from longwatch.model.call_outline import CallSpan, Outline, OutlineRow, RowKind, outline
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.call_tree import CallTree
from longwatch.model.calls import ABANDONED
from longwatch.model.preview import one_line
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Call, Run, RunSummary, Status
from longwatch.model.run_outline import error_of_call, lines_of, run_outline

FREE_COLUMNS = 100  # when the output is not a terminal
NARROW_COLUMNS = 60
MODEL_SYMBOL = "✦ "  # before the name of a model, which without colour looks like that of a tool

_LEAST_AXIS_LINES = 6  # a lower screen shows another call instead of the axis
_DURATION_COLUMNS = 10  # as in `3 min 05 s`; more if a call of the run took longer
_LEAST_NAME, _MOST_NAME = 12, 60
_LEAST_PREVIEW = 8  # columns; a shorter one shows nothing
_KIND_STYLES: Mapping[str, str] = {"tool": "", "model": "model"}


@dataclass(frozen=True, slots=True)
class ColumnWidths:
    """How the width is shared: name, duration, bar, with one column between them."""

    name: int
    duration: int
    bar: int

    @classmethod
    def for_width(
        cls, width: int, longest_name: int, longest_label: int = 0, duration: int = _DURATION_COLUMNS
    ) -> ColumnWidths:
        """Names get what they need, with previews up to two fifths of the width; bars at least a quarter."""
        room = width - duration - 2
        wanted = max(longest_name, min(longest_label, width * 2 // 5), _LEAST_NAME)
        name = min(wanted, _MOST_NAME, room - width // 4)
        return cls(name=name, duration=duration, bar=room - name)


def waterfall(
    run: Run,
    *,
    now_ms: int,
    width: int | None,
    options: OutlineOptions | None = None,
    log_scale: bool = False,
    prices: Prices = NO_PRICES,
    outlined: Callable[[OutlineOptions], Outline] | None = None,
) -> tuple[list[StyledLine], Outline]:
    """The lines of the tree, and the outline, which states what they leave out.

    `outlined` returns the outline if the run lacks its calls.
    """
    options = options or OutlineOptions()
    if options.lines is not None:
        options = replace(options, lines=options.lines - 1)  # for the axis
    found = outlined(options) if outlined is not None else run_outline(run, options)
    drawing = _Drawing(run.summary, now_ms, width or FREE_COLUMNS, prices)
    return drawing.lines(found, log_scale=log_scale), found


def live_waterfall(
    run: Run, *, now_ms: int, width: int, height: int, prices: Prices = NO_PRICES
) -> list[StyledLine]:
    """The tree of an open run in at most `height` lines: open calls show their duration so far.

    Calls that are open, then those that ended last, have lines of their own.
    """
    tree = CallTree.of(run.calls.values())
    drawing = _Drawing(run.summary, now_ms, width, prices)
    has_axis = height >= _LEAST_AXIS_LINES
    room = max(1, height - has_axis)
    found = outline(tree, OutlineOptions(lines=room), height=lines_of)
    if not found.folded:
        return drawing.lines(found)[0 if has_axis else 1 :]
    newest = _liveliest(tree, max(1, room * 2 // 3), lines_of)
    found = outline(tree, OutlineOptions(lines=room), always=newest, height=lines_of)
    lines = drawing.lines(found)
    if len(lines) - 1 > room:  # the callers do not fit
        shown = {tree.calls[index].call_id for index in newest}
        rows = [row for row in found.rows if row.kind is RowKind.CALL and row.first.call_id in shown]
        lines = drawing.lines(replace(found, rows=rows))[: room + 1]
    return lines[0 if has_axis else 1 :]


def _liveliest(tree: CallTree, room: int, height: Callable[[Call], int]) -> list[int]:
    """Open calls, the newest first, then those that ended last; as many as fit with their callers."""
    ranked = heapq.nlargest(room, range(len(tree.calls)), key=lambda index: _liveliness(tree.calls[index]))
    chosen: list[int] = ranked[:1]
    lines = {index: height(tree.calls[index]) for at in chosen for index in (at, *tree.above(at))}
    for index in ranked[1:]:
        more = {each: height(tree.calls[each]) for each in (index, *tree.above(index))}
        if sum((lines | more).values()) <= room:
            lines |= more
            chosen.append(index)
    return chosen


def _liveliness(call: Call) -> tuple[bool, int]:
    return (True, call.started_at) if call.end is None else (False, call.end.at)


class _Drawing:
    """Draws rows of the outline of a run."""

    def __init__(self, run: RunSummary, now_ms: int, columns: int, prices: Prices) -> None:
        self._run = run
        self._has_ended = run.ending is not None
        self._now_ms = now_ms
        # When calls without an end are taken to end.
        self._open_until = run.last_event_at if self._has_ended else max(run.last_event_at, now_ms)
        self._columns = columns
        self._prices = prices

    def lines(self, found: Outline, *, log_scale: bool = False) -> list[StyledLine]:
        """The axis, then each row; none without rows."""
        rows = found.rows
        if not rows or found.span is None:
            return []
        names = [self._name(row) for row in rows]
        lengths = [
            columns_of(_rails(row, self._columns) + name + _suffix(row)) + 2
            for row, name in zip(rows, names, strict=True)
        ]
        labels = [
            length + columns_of(f"  {preview}")
            for length, row in zip(lengths, rows, strict=True)
            if (preview := self._preview(row))
        ]
        durations = [columns_of(self._duration(row, "")[0]) for row in rows]
        layout = ColumnWidths.for_width(
            self._columns, max(lengths), max(labels, default=0), max(_DURATION_COLUMNS, *durations)
        )
        scale = self._scale(rows, found.span, layout.bar, log_scale=log_scale)
        lines: list[StyledLine] = [_axis(layout, scale)]
        for row, name in zip(rows, names, strict=True):
            lines.append(self._row_line(row, name, layout, scale))
            if row.lines > 1:
                lines.append(_error_line(row, error_of_call(row.first) or "", self._columns))
        return lines

    def _name(self, row: OutlineRow) -> str:
        count = row.count
        if row.kind is RowKind.CALL:
            return _call_name(row.first, self._prices)
        if row.kind is RowKind.OTHERS:
            name = f"{count_text(count, 'more call')}"
        elif row.kind is RowKind.CHAIN:
            name = f"{count:,} more levels"
        else:
            symbol = MODEL_SYMBOL if row.first.kind == "model" else ""
            name = f"{symbol}{clean(row.first.name)} × {count:,}"
        facts = [name]
        if row.failed:
            facts.append(f"{row.failed:,} failed")
        if row.span.unfinished:
            facts.append(f"{row.span.unfinished:,} {ABANDONED if self._has_ended else 'open'}")
        if row.kind is RowKind.REPEATED and row.p50_ms is not None:
            facts.append(f"p50 {duration_text(row.p50_ms)}")
        return ", ".join(facts)

    def _preview(self, row: OutlineRow) -> str:
        """What distinguishes a call; its error has a line of its own."""
        if row.kind is not RowKind.CALL:
            return ""
        call = row.first
        return clean((call.input_preview or "") if error_of_call(call) else call.preview)

    def _row_line(self, row: OutlineRow, name: str, layout: ColumnWidths, scale: Scale) -> StyledLine:
        rails = _rails(row, self._columns)
        symbol, style = self._look(row)
        label, suffix = _fitted_label(row, name, layout.name - columns_of(rails) - 2)
        free = layout.name - columns_of(rails) - 2 - columns_of(label + suffix)
        preview = pad(fit(f"  {self._preview(row)}", free) if free >= _LEAST_PREVIEW else "", free)
        duration, duration_style = self._duration(row, style)
        draw = scale.bar if row.kind is RowKind.CALL else scale.span
        name_style = _KIND_STYLES.get(row.first.kind, "strong") if row.kind is RowKind.CALL else ""
        return [
            Segment(rails, "dim"),
            Segment(f"{symbol} ", style),
            Segment(label, name_style),
            Segment(suffix, "dim"),
            Segment(preview, "dim"),
            Segment(f" {pad(duration, layout.duration, right=True)} ", duration_style),
            Segment(draw(row.span.start, row.span.until(self._open_until)), style),
        ]

    def _look(self, row: OutlineRow) -> Look:
        """Of several calls: failed if all failed, else open if one is, else partial if one failed."""
        if row.kind is RowKind.CALL:
            return call_look(row.first.status_in(run_has_ended=self._has_ended))
        if row.failed == row.count:
            return call_look("failed")
        if row.span.unfinished:
            return call_look(ABANDONED if self._has_ended else "started")
        return STATUS_LOOKS[Status.PARTIAL] if row.failed else call_look("completed")

    def _duration(self, row: OutlineRow, style: str) -> tuple[str, str]:
        """The duration of a call, so far if it is open; of several calls the time from first to last."""
        call = row.first
        if row.kind is not RowKind.CALL:
            return duration_text(max(0, self._length_ms(row))), "dim"
        if call.duration_ms is not None:
            return duration_text(call.duration_ms), "dim"
        if call.end is not None:
            return "…", "dim"
        if self._has_ended:
            return ABANDONED, "dim"
        return duration_text(max(0, self._now_ms - call.started_at)), style

    def _scale(self, rows: Sequence[OutlineRow], span: CallSpan, columns: int, *, log_scale: bool) -> Scale:
        start = min(self._run.started_at, span.start)
        end = max(self._run.last_event_at, span.until(self._open_until))
        longest = max(map(self._length_ms, rows))
        return Scale(start, end, columns, is_logarithmic=log_scale, longest_ms=longest)

    def _length_ms(self, row: OutlineRow) -> float:
        return row.span.until(self._open_until) - row.span.start


def _axis(layout: ColumnWidths, scale: Scale) -> StyledLine:
    length = duration_text(scale.length_ms)
    label = f"log {length}" if scale.is_logarithmic else length
    before = layout.name + layout.duration + 2
    if columns_of(label) + 2 > layout.bar:  # a narrow scale has no room for its beginning
        return [Segment(pad(label, before + layout.bar, right=True), "dim")]
    return [Segment(" " * before), Segment(f"0{pad(label, layout.bar - 1, right=True)}", "dim")]


def _error_line(row: OutlineRow, problem: str, columns: int) -> StyledLine:
    below = "│" if row.has_rows_below else " "
    rails = _rails(row, columns, continued=True)
    room = max(8, columns - columns_of(rails) - 2)
    return [
        Segment(f"{rails}{below} ", "dim"),
        Segment(fit(clean(one_line(problem, LONGEST_TEXT)), room), "bad"),
    ]


def _call_name(call: Call, prices: Prices) -> str:
    """The name; of a model also its tokens, their cost and the time to the first one."""
    name, facts = clean(call.name), call.model
    if call.kind != "model" or facts is None:
        return name
    parts, used, counted = [f"{MODEL_SYMBOL}{name}"], facts.usage, facts.tokens()
    if used is not None and used.total_tokens is not None:
        parts.append(count_text(used.total_tokens, "token"))
    cost = prices.cost(*counted) if counted is not None else None
    if cost is not None:
        parts.append(cost_text(cost))
    if facts.time_to_first_token_ms is not None:
        parts.append(f"first after {duration_text(facts.time_to_first_token_ms)}")
    return ", ".join(parts)


def _fitted_label(row: OutlineRow, name: str, columns: int) -> tuple[str, str]:
    """Cut the name rather than the number of the try and the count of the calls below."""
    suffix = _suffix(row)
    if columns_of(suffix) > columns // 2 and columns_of(name + suffix) > columns:
        tried = f" #{row.attempt}" if row.attempt is not None else ""
        suffix = f"{tried} +{row.below:,}" if row.below else tried
    return fit(name, columns - columns_of(suffix)), suffix


def _suffix(row: OutlineRow) -> str:
    """` (try 2)`, and the calls that have no row: ` +212 calls, 9 failed`."""
    tried = f" (try {row.attempt})" if row.attempt is not None else ""
    if not row.below:
        return tried
    failed = f", {row.failed_below:,} failed" if row.failed_below else ""
    return f"{tried} +{count_text(row.below, 'call')}{failed}"


def _rails(row: OutlineRow, columns: int, *, continued: bool = False) -> str:
    """The lines that lead to a call from those above it; a very deep one shows its level instead."""
    step = 2 if columns < NARROW_COLUMNS else 3
    if row.depth * step > columns // 4:
        level = f"{row.depth}› "
        return " " * len(level) if continued else level
    if not row.rails:
        return ""
    space = " " * (step - 1)
    upper = "".join(("│" if more else " ") + space for more in row.rails[1:])
    if continued:
        return upper + (" " if row.is_last else "│") + space
    return upper + ("└" if row.is_last else "├") + "─" * (step - 2) + " "
