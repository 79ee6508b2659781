"""The first lines about a run: its status, times, counts and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.text import clean, columns_of, fit
from longwatch.cli.render.times import ago_text, between_text, day_text, duration_text, ran_text
from longwatch.cli.render.usage import usage_text, waited_text, waiting_text
from longwatch.executions.progress import warnings_text
from longwatch.journal.usage_views import usage_by_agent
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Condition, Run, Status, conditions
from longwatch.model.usage import Usage

MOST_AGENTS = 5  # with a line of their own

COMPACT_ROWS = 24  # a lower screen shows only the duration and what needs attention

_LABEL_COLUMNS = 10
_MOST_FACT_LINES = 4  # on a screen
_COMPACT_FACTS = frozenset({"attempt", "duration", "ran"})
_USAGE_OF_AGENTS = ""  # the label of these lines, which continue the usage
# What the header of a screen leaves out until it fits its share; the calls below matter more.
_LEAST_IMPORTANT = (_USAGE_OF_AGENTS, "producers", "kind", "ended", "events", "session", "user", "usage")
_SHARE = 0.4  # of the lines of a screen


def header(
    run: Run,
    *,
    now_ms: int,
    width: int | None,
    zone: tzinfo | None = None,
    attempt: tuple[int, int] | None = None,
    observed: Sequence[Condition] = (),
    prices: Prices = NO_PRICES,
    rows: int | None = None,
    agents: Mapping[str, Usage] | None = None,
) -> list[StyledLine]:
    """The lines above the tree. `attempt` is the number of the attempt and the count of all.

    `agents` is the usage of each agent, if the run lacks its calls.

    With the `rows` of a screen, long facts are cut, and those that matter least are left out.
    """
    summary = run.summary
    symbol, style = STATUS_LOOKS[summary.status]
    name = f"  {clean(summary.name)}" if summary.name else ""
    warnings = f" with {warnings_text(summary.warning_count)}" if summary.warning_count else ""
    title = f"{symbol} {summary.status.value}{warnings}"
    room = (width or 10_000) - columns_of(title) - 2
    run_id = fit(clean(summary.run_id), room)
    lines: list[StyledLine] = [
        [
            Segment(title, style),
            Segment(f"  {run_id}", "strong"),
            Segment(fit(name, room - columns_of(run_id))),
        ]
    ]
    facts = [*_attempt_facts(attempt), *_facts(run, now_ms, zone, observed, prices, agents)]
    if rows is not None and rows < COMPACT_ROWS:
        facts = [fact for fact in facts if fact[0] in _COMPACT_FACTS or fact[2] in ("warn", "bad")]
    columns = max([_LABEL_COLUMNS, *(len(label) + 1 for label, _, _ in facts)])
    wrapped = [
        (label, _wrapped(text, (width or 10_000) - columns, rows), style) for label, text, style in facts
    ]
    for label, parts, style in wrapped if rows is None else _fitting(wrapped, rows * _SHARE - len(lines)):
        for number, part in enumerate(parts):
            lines.append(
                [Segment((label if number == 0 else "").ljust(columns), "dim"), Segment(part, style)]
            )
    return lines


def _wrapped(text: str, columns: int, rows: int | None) -> list[str]:
    """The lines of a fact; on a screen the last of them is cut."""
    parts = [part for line in text.split("\n") for part in wrap_text(line, columns)]
    most = len(parts) if rows is None else min(_MOST_FACT_LINES, max(1, rows // 8))
    return parts if len(parts) <= most else [*parts[: most - 1], fit(" ".join(parts[most - 1 :]), columns)]


def _fitting(
    facts: Sequence[tuple[str, list[str], str]], most: float
) -> Sequence[tuple[str, list[str], str]]:
    """As many facts as fit into so many lines, in their order."""
    for least in _LEAST_IMPORTANT:
        if sum(len(parts) for _, parts, _ in facts) <= most:
            break
        facts = [fact for fact in facts if fact[0] != least]
    return facts


def _attempt_facts(attempt: tuple[int, int] | None) -> Iterator[tuple[str, str, str]]:
    if attempt is not None and attempt[1] > 1:
        number, count = attempt
        others = "" if number == count else f"; the last one is --attempt {count}"
        yield "attempt", f"{number} of {count}{others}", ""


def _facts(
    run: Run,
    now_ms: int,
    zone: tzinfo | None,
    observed: Sequence[Condition],
    prices: Prices,
    agents: Mapping[str, Usage] | None,
) -> Iterator[tuple[str, str, str]]:
    summary = run.summary
    yield "kind", clean(summary.kind), ""
    if summary.parent_run_id:
        yield "part of", clean(summary.parent_run_id), ""
    labels = {
        "tags": ", ".join(sorted(summary.tags)),
        "user": summary.labels.user,
        "session": summary.labels.session,
    }
    for label, text in labels.items():
        if text:
            yield label, clean(text), ""
    started = day_text(summary.started_at, now_ms=now_ms, zone=zone)
    yield "started", f"{started} ({ago_text(summary.started_at, now_ms=now_ms)})", ""
    yield from _times(run, now_ms, zone)
    counts = sorted(run.counts.items(), key=lambda pair: (-pair[1], pair[0]))
    kinds = ", ".join(f"{clean(kind)}\u00a0{count:,}" for kind, count in counts)
    if counts:
        yield "events", f"{sum(run.counts.values()):,}: {kinds}", ""
    if summary.totals.usage:
        yield "usage", usage_text(summary.totals.usage, prices), ""
        used = usage_by_agent(run.calls.values()) if agents is None else agents
        yield from _usage_of_agents(used, prices)
    waited = waited_text(summary, now_ms=now_ms)
    if waited is not None:
        yield "waited", clean(waited), ""
    if run.producers:
        closed = sum(tally.count is not None for tally in run.producers.values())
        yield "producers", f"{len(run.producers)} ({closed} closed)", ""
    for wait in summary.waiting:
        yield "waiting", clean(waiting_text(wait, now_ms=now_ms).removeprefix("waiting ")), "warn"
    for condition in conditions(run, now_ms, observed=observed):
        if condition.name != "waiting":
            yield condition.name, clean(condition.message), "warn"
    if summary.error:
        yield "error", "\n".join(map(clean, summary.error.splitlines())), "bad"


def _usage_of_agents(used: Mapping[str, Usage], prices: Prices) -> Iterator[tuple[str, str, str]]:
    """A line for each agent that called models, the one with most tokens first, if there are several."""
    agents = sorted(used.items(), key=lambda pair: -pair[1].total_tokens)
    if len(agents) > 1:
        for name, usage in agents[:MOST_AGENTS]:
            yield _USAGE_OF_AGENTS, f"{clean(name)}: {usage_text(usage, prices)}", "dim"
    if len(agents) > MOST_AGENTS:
        yield _USAGE_OF_AGENTS, f"and {len(agents) - MOST_AGENTS:,} more agents", "dim"


def _times(run: Run, now_ms: int, zone: tzinfo | None) -> Iterator[tuple[str, str, str]]:
    """The end and the duration, or the intervals in which they lie."""
    summary = run.summary
    if summary.ended_between is not None and summary.duration_between is not None:
        label = "died" if summary.status is Status.DIED else "ended"
        yield label, between_text(*summary.ended_between, now_ms=now_ms, zone=zone), ""
        yield "ran", ran_text(*summary.duration_between), ""
        return
    if summary.ended_at is not None:
        yield "ended", day_text(summary.ended_at, now_ms=now_ms, zone=zone), ""
    length = duration_text(summary.duration_ms(now_ms) or 0)
    yield "duration", length if summary.ending is not None else f"{length} so far", ""


def wrap_text(text: str, columns: int) -> Iterator[str]:
    """The text in lines of at most this many columns, broken between words where possible."""
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if columns_of(joined) <= columns:
            line = joined
            continue
        if line:
            yield line
        line = word
        while columns_of(line) > columns:
            cut = max(1, len(fit(line, columns)) - 1)
            yield line[:cut]
            line = line[cut:]
    if line:
        yield line
