"""Results as text for models: compact lines, recorded text on one line each, and a bounded size.

Recorded text cannot imitate the lines around it: previews are one line, and values are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from typing import Any

from longwatch.clock import iso_from_ms
from longwatch.executions.explain import length_text
from longwatch.journal.comparison import DiffRowView
from longwatch.journal.views import EventView
from longwatch.model.preview import one_line
from longwatch.server.mcp.results import (
    CallBrief,
    CallReport,
    CallRow,
    Differences,
    EventsFound,
    EventsRead,
    Explanation,
    NoteRecorded,
    OwnRun,
    RunBrief,
    RunReport,
    RunsFound,
    TokensView,
    ToolResult,
    Verified,
    WaitOutcome,
)

MAX_TEXT = 150_000  # characters of a text; results are bounded before, so few texts are cut
MAX_LINE = 400  # characters of a recorded text on a line of its own
MAX_LISTED = 20


def text_of(result: ToolResult) -> str:
    """The text of a result: the notice, its lines, and what was left out."""
    lines = [result.notice, "", *lines_of(result)]
    lines += ["", *(f"[left out] {each}" for each in result.left_out)] if result.left_out else []
    text = "\n".join(lines)
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[left out] The text is cut here: request less, such as a lower `limit`."


@singledispatch
def lines_of(result: ToolResult) -> Iterator[str]:
    """The lines of a result, without those that every result has."""
    raise TypeError(f"no text for {type(result).__name__}")


@lines_of.register
def _(result: RunsFound) -> Iterator[str]:
    if not result.runs:
        yield "No matching runs." if result.cursor is None else "No matching runs on this page."
    for run in result.runs:
        yield run_line(run)
    for group in result.failures:
        where = f" in {_plain(group.call)}" if group.call else ""
        named = ", ".join(map(_id, group.run_ids[:MAX_LISTED]))
        yield f"{len(group.run_ids)} runs failed alike{where}: {_plain(group.error)} ({named})"
    if result.cursor is not None:
        yield f"cursor: {result.cursor}"


@lines_of.register
def _(result: EventsFound) -> Iterator[str]:
    if not result.hits:
        yield "No matching events." if result.cursor is None else "No matching events on this page."
    for hit in result.hits:
        excerpt = _plain("".join(f"**{part.text}**" if part.is_match else part.text for part in hit.excerpt))
        call = f" call {_id(hit.call_id)}" if hit.call_id else ""
        agent = f" agent {_plain(hit.agent_name)}" if hit.agent_name else ""
        run = f"run {_id(hit.run_id)} ({hit.run_status})"
        yield f"{_at(hit.occurred_at)} {run} {_id(hit.type)}{agent}{call}: {excerpt}"
    if result.cursor is not None:
        yield f"cursor: {result.cursor}"


@lines_of.register
def _(result: RunReport) -> Iterator[str]:
    yield run_line(result.run)
    if result.run.attempts > 1:
        yield f"attempt {result.attempt} of {result.run.attempts}"
    if result.error and result.error != result.run.error:
        yield f"error: {_json(result.error)}"
    yield "events: " + ", ".join(f"{_id(kind)} {count:,}" for kind, count in result.counts.items())
    if result.call is not None:
        yield from _call_lines(result.call)
    elif result.calls:
        yield "calls (! is on the failing path):"
        yield from map(_row_line, result.calls)


def _call_lines(report: CallReport) -> Iterator[str]:
    yield f"call {_call_text(report.call)}"
    for name in ("parameters", "input", "output", "traceback"):
        value = getattr(report, name)
        if value is not None:
            yield f"{name}: {_json(value)}"
    if report.parent is not None:
        yield f"called by {_call_text(report.parent)}"
    if len(report.attempts) > 1:
        yield "attempts of the same call:"
        yield from (f"  {_call_text(each)}" for each in report.attempts)
    if report.children:
        yield "calls in it:"
        yield from (f"  {_call_text(each)}" for each in report.children)


@lines_of.register
def _(result: Explanation) -> Iterator[str]:
    yield run_line(result.run)
    for fact in result.facts:
        at = f" (at {_at(fact.at)})" if fact.at is not None else ""
        yield f"- {fact.about}: {fact.text}{at}"
    if result.failing_path:
        yield "failing path, from the top:"
        yield from (f"  {_call_text(each)}" for each in result.failing_path)


@lines_of.register
def _(result: Differences) -> Iterator[str]:
    view = result.comparison
    for name, run in (("a", view.a), ("b", view.b)):
        length = _duration(run.duration_ms) if run.duration_ms is not None else "unknown time"
        error = f"; error: {_plain(run.error)}" if run.error else ""
        named = f"{run.status} {_id(run.run_id)} {_plain(run.name or run.kind)}"
        yield f"{name}: {named}, {length}, {run.events:,} events{error}"
    structure = "differs" if view.differs_in_structure else "is the same"
    yield f"{view.differing:,} calls differ; the structure {structure}"
    for number, row in enumerate(view.rows):
        mark = ">" if number == view.first_difference else " "
        yield f"{mark} {'  ' * row.depth}{_diff_text(row)}"


def _diff_text(row: DiffRowView) -> str:
    sign = "-" if row.b is None else "+" if row.a is None else "~" if row.differences else "="
    parts = []
    for name, call in (("a", row.a), ("b", row.b)):
        if call is not None:
            facts = [call.status, _duration(call.duration_ms), _plain(call.error or "")]
            facts += [_plain(call.input_preview or ""), _plain(call.output_preview or "")]
            parts.append(f"{name}: {' '.join(filter(None, facts))}")
    differs = f" [{', '.join(row.differences)}]" if row.differences else ""
    return (
        f"{sign} {row.kind} {_plain(row.name)}{differs} {' | '.join(parts) if sign != '=' else ''}".rstrip()
    )


@lines_of.register
def _(result: Verified) -> Iterator[str]:
    view = result.verification
    yield f"{view.answer}: run {_id(view.run_id)}"
    if view.deleted is not None:
        stone = view.deleted
        yield f"deleted at {_at(stone.deleted_at)} by {_plain(stone.by)}; it had {stone.events:,} events"
    for each in view.producers:
        facts = [
            f"{name} {_ranges(found)}"
            for name in ("missing", "altered", "unreadable")
            if (found := getattr(each, name))
        ]
        stated = f" of {each.stated:,} stated" if each.stated is not None else ", not closed"
        found = f"{each.answer}, {each.events:,} events{stated}"
        yield f"producer {_plain(each.producer)}: {'; '.join([found, *facts])}"
    if view.uncounted:
        yield f"{view.uncounted:,} fewer events than the journal counted"
    if view.unnumbered:
        yield f"{view.unnumbered:,} events of other producers have no numbers and cannot be verified"


@lines_of.register
def _(result: WaitOutcome) -> Iterator[str]:
    yield f"{result.reason} after {result.waited_seconds:g} s: {_plain(result.message)}"
    if result.run is not None:
        yield run_line(result.run)


@lines_of.register
def _(result: EventsRead) -> Iterator[str]:
    yield f"run {_id(result.run_id)}: {len(result.events)} events"
    yield from map(_event_line, result.events)
    yield f"cursor: {result.cursor}"


def _event_line(event: EventView) -> str:
    agent = f" agent {_plain(event.agent_name)}" if event.agent_name else ""
    call = f" call {_id(event.call_id)}" if event.call_id else ""
    return f"{_at(event.occurred_at)} {_id(event.type)}{agent}{call} {_json(event.payload)}"


@lines_of.register
def _(result: NoteRecorded) -> Iterator[str]:
    yield f"The note is recorded as event {result.event_id} of run {_id(result.run_id)}."


@lines_of.register
def _(result: OwnRun) -> Iterator[str]:
    yield run_line(result.run)
    yield f"named by {result.named_by}"
    if result.ms_to_deadline is None:
        yield "deadline: none is known"
    else:
        left = result.ms_to_deadline
        text = f"{_duration(left)} left" if left > 0 else f"passed {_duration(-left)} ago"
        yield f"deadline: {text} ({_at(result.deadline_at or 0)}, of run {_id(result.deadline_of or '')})"
    yield f"tokens: {tokens_text(result.tokens)}"
    if not result.waiting:
        yield "waiting: for nothing"
    for call in result.last_failures:
        yield f"failed at {_at(call.at)}: {call.kind} {call.name}: {call.error}"
    if not result.last_failures:
        yield "failures: none"


def run_line(run: RunBrief) -> str:
    """A run on one line, and a line for each wait and condition."""
    facts = [f"{run.status} {_id(run.run_id)}", f"{_id(run.kind)}{f' {run.name}' if run.name else ''}"]
    facts.append(f"started {_at(run.started_at)}")
    if run.duration_ms is not None:
        facts.append(f"{'ran' if run.ended_at is not None else 'running for'} {_duration(run.duration_ms)}")
    facts.append(f"{run.events:,} events")
    if run.failed_calls:
        facts.append(f"{run.failed_calls:,} failed {'call' if run.failed_calls == 1 else 'calls'}")
    if run.tokens is not None:
        facts.append(tokens_text(run.tokens))
    if run.tags:
        facts.append(f"tags {', '.join(run.tags)}")
    if run.parent_run_id:
        facts.append(f"part of {_id(run.parent_run_id)}")
    if run.error:
        call = run.failure.call if run.failure else None
        facts.append(f"error{f' in {_plain(call)}' if call else ''}: {run.error}")
    lines = ["; ".join(facts)]
    for condition in run.conditions:
        lines.append(f"  {condition.name}: {_plain(condition.message)}")
    return "\n".join(lines)


def tokens_text(tokens: TokensView | None) -> str:
    """The tokens with their coverage: `1,200 input and 300 output tokens in 4 of 5 model calls`."""
    if tokens is None:
        return "no model call is recorded"
    calls = f"{tokens.calls_with_tokens:,} of {tokens.model_calls:,} model calls"
    cost = f", ${tokens.cost:.4f} for {tokens.priced_calls:,} of them" if tokens.cost is not None else ""
    return f"{tokens.input_tokens:,} input and {tokens.output_tokens:,} output tokens in {calls}{cost}"


def _row_line(row: CallRow) -> str:
    mark = "!" if row.leads_to_failure else " "
    below = f" +{row.below:,} calls inside" if row.below else ""
    if row.row == "call":
        text = _call_text(row.call)
    else:
        what = (
            f"{row.call.kind} {row.call.name} × {row.count:,}"
            if row.row == "repeated"
            else f"{row.count:,} more calls"
        )
        text = f"{what}{f', {row.failed:,} failed' if row.failed else ''}"
    return f"{mark} {'  ' * row.depth}{text}{below}"


def _call_text(call: CallBrief) -> str:
    length = f" {_duration(call.duration_ms)}" if call.duration_ms is not None else ""
    problem = f" error: {call.error}" if call.error else ""
    preview = f" {_plain(call.preview)}" if call.preview and not call.error else ""
    return f"{call.status} {call.kind} {call.name}{length} [{_id(call.call_id)}]{problem}{preview}"


def _ranges(ranges: Iterable[Sequence[int]]) -> str:
    return ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in ranges)


def _plain(text: str) -> str:
    return one_line(text, MAX_LINE)


def _id(text: str) -> str:
    """An ID as it is, or as JSON if it could break the line."""
    return text if text.isprintable() else _json(text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _at(ms: int) -> str:
    try:
        return iso_from_ms(ms)
    except ValueError:  # not a time of a calendar, from another producer
        return f"{ms} ms"


def _duration(ms: float | None) -> str:
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 1 else "<1 ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else length_text(round(ms))
