"""Executions on a terminal: a row of the list, the tree of one, its facts, and the line for a poll."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.table import Column
from longwatch.cli.render.text import clean
from longwatch.cli.render.times import ago_text, clock_text, duration_text, start_text
from longwatch.executions.due import phase_of
from longwatch.executions.explain import Fact, next_poll_text, waiting_for
from longwatch.executions.model import Execution, Mode, Terms
from longwatch.executions.progress import first_warnings, progress_of, verdict_text, warnings_text
from longwatch.executions.views import ExecutionLine, ExecutionView, JobView, ServerView, WaveView
from longwatch.model.run import Status

if TYPE_CHECKING:
    from longwatch.executions.cadence.cadence import LearnedCadence
    from longwatch.executions.poller import PollReport

MAX_REASONS = 1_000  # characters of one line of `watch`

COLUMNS = (
    Column("", 10, 1),
    Column("EXECUTION", 9, 11, elastic=True),
    Column("STATUS", 8, 9),
    Column("MODE", 2, 8),
    Column("PLAN", 3, 8, elastic=True),
    Column("PHASE", 5, 11),
    Column("DONE", 6, 5, right=True),
    Column("STARTED", 1, 8),
    Column("DURATION", 4, 8, right=True),
    Column("NOTES", 7, 10, elastic=True),
)


def list_row(
    execution: Execution, now_ms: int, cadence: LearnedCadence | None, *, with_plan: bool = False
) -> list[Segment]:
    """One row of the list. The notes are failures, warnings and conditions."""
    line = ExecutionLine.of(execution, now_ms=now_ms, cadence=cadence)
    symbol, style = STATUS_LOOKS[execution.status]
    return [
        Segment(symbol, style),
        Segment(clean(execution.label if with_plan else execution.execution_id), "strong"),
        Segment(clean(execution.other_status or execution.status.value), style),
        Segment(execution.mode.value),
        Segment(clean(execution.name or execution.plan_id)),
        Segment(line.phase or ""),
        Segment(f"{line.servers_done}/{line.servers}"),
        Segment(start_text(execution.started_at, now_ms=now_ms)),
        Segment(duration_text((line.ended_at or now_ms) - execution.started_at)),
        Segment(", ".join(_notes(line)), "dim"),
    ]


def _notes(line: ExecutionLine) -> Iterator[str]:
    if line.servers_failed:
        yield f"{line.servers_failed} failed"
    if line.warning_count:
        yield warnings_text(line.warning_count)
    yield from (condition.name for condition in line.conditions)


def wave_lines(view: ExecutionView, *, now_ms: int) -> Iterator[StyledLine]:
    """The execution as a small tree: stages, and under each its items with what went wrong."""
    symbol, style = STATUS_LOOKS[Status(view.status)]
    title = f"{view.execution_id}  {view.mode} of {view.plan_id}"
    warnings = f" with {warnings_text(view.warning_count)}" if view.warning_count else ""
    yield [
        Segment(symbol, style),
        Segment(f" {clean(title)}  ", "strong"),
        Segment(f"{view.status}{warnings}", style),
        Segment(f"  {view.progress_text}", "dim"),
    ]
    if view.eta is not None:
        yield [Segment(f"  {view.eta.text}", "dim")]
    if view.waiting_for is not None:
        yield [Segment("  waiting for ", "dim"), Segment(clean(view.waiting_for))]
    terms = Mode(view.mode).terms
    for stage in view.waves:
        yield _stage_line(stage)
        for item in stage.servers:
            yield from _item_lines(item, terms, now_ms=now_ms)
    for warning in view.verdict.warnings if view.verdict else ():
        yield [Segment("  warning: ", "warn"), Segment(clean(warning))]


def _stage_line(stage: WaveView) -> StyledLine:
    symbol, style = STATUS_LOOKS[Status(stage.status)]
    jobs = ", ".join(f"{job.job_id} {_state(job, 'no response yet')}" for job in stage.jobs) or "no job yet"
    return [Segment(f"  {symbol}", style), Segment(f" {clean(stage.name)}  "), Segment(clean(jobs), "dim")]


def _item_lines(item: ServerView, terms: Terms, *, now_ms: int) -> Iterator[StyledLine]:
    since = "" if item.since is None else f"  {ago_text(item.since, now_ms=now_ms)}"
    name, state = clean(item.server_id), terms.state_text(_state(item, "not listed yet"))
    yield [Segment(f"      {name}  "), Segment(state), Segment(since, "dim")]
    reason = item.failure_reason or item.reason
    if reason:
        yield [Segment(f"        {clean(reason)}", "bad" if item.failure_reason else "dim")]
    for step in item.actions:
        text = f"        {clean(step.name)}  {step.state}"
        why = f": {clean(step.reason)}" if step.reason else ""
        yield [Segment(text + why, "bad" if step.state == "failed" else "dim")]


def _state(thing: JobView | ServerView, otherwise: str) -> str:
    """The state of a job or an item; `otherwise` where no response has reported it."""
    unseen = thing.state == "pending" and thing.since is None and thing.word is None
    return otherwise if unseen else thing.state


def fact_lines(execution: Execution, facts: Iterable[Fact]) -> Iterator[StyledLine]:
    """One fact a line."""
    symbol, style = STATUS_LOOKS[execution.status]
    yield [
        Segment(symbol, style),
        Segment(f" {clean(execution.label)}  ", "strong"),
        Segment(execution.status.value, style),
    ]
    for fact in facts:
        when = "" if fact.at is None else f"  {clock_text(fact.at)}"
        yield [Segment(f"  {fact.about:13} ", "dim"), Segment(clean(fact.text)), Segment(when, "dim")]


def polled_line(polled: PollReport, *, now_ms: int) -> str | None:
    """The line for a poll; None if nothing is new."""
    from longwatch.executions.poller import Result

    execution = polled.execution
    if polled.result is Result.RECHECKED:
        return None
    if execution.closed and execution.verdict is not None:
        verdict = execution.verdict
        reasons = "; ".join([*([verdict.message] if verdict.message else []), *first_warnings(verdict)])
        if len(reasons) > MAX_REASONS:  # `explain` lists all of them
            reasons = f"{reasons[: MAX_REASONS - 1]}…"
        text = verdict_text(verdict) + (f": {reasons}" if reasons else "")
    elif polled.appended:
        text = _standing(execution, now_ms)
    else:
        return None
    return f"{clock_text(now_ms)} {clean(execution.label)} {clean(text)}"


def open_line(execution: Execution, *, now_ms: int) -> str:
    """An open execution before it is polled: what it waits for, and when the next poll is."""
    text = f"{_standing(execution, now_ms)}; next poll {next_poll_text(execution, now_ms)}"
    return f"{clock_text(now_ms)} {clean(execution.label)} {clean(text)}"


def _standing(execution: Execution, now_ms: int) -> str:
    """Its phase and progress, once a response has reported them, and what it waits for."""
    waits = f"waiting for {waiting_for(execution, now_ms) or 'its verdict'}"
    if execution.last_answer_at is None:
        return waits
    return f"{phase_of(execution)}, {progress_of(execution).text()}, {waits}"
