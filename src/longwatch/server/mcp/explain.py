"""The tool that explains why a run is what it is: how it ended or why it is open, and what led to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longwatch.clock import iso_from_ms
from longwatch.errors import LongwatchError
from longwatch.executions.explain import length_text
from longwatch.executions.views import ExecutionDetails, FactView
from longwatch.model.call_paths import failing_path
from longwatch.model.call_tree import CallTree
from longwatch.model.failures import failure_of
from longwatch.model.json_schema import STRICT
from longwatch.model.preview import one_line
from longwatch.model.run import Condition, Ending, Run, RunSummary, Status, conditions
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.results import MAX_ERROR, MAX_NAME, CallBrief, Explanation
from longwatch.server.mcp.runs import RunName, call_brief, folded

MAX_FACTS = 40
MAX_FACT = 500  # characters
MAX_PATH = 20  # calls
MAX_OPEN_CALLS = 5


@dataclass(frozen=True, kw_only=True)
class ExplainRun:
    """Arguments of `explain_run`."""

    __pydantic_config__ = STRICT

    run: RunName


async def explain_run(box: ToolBox, given: ExplainRun) -> Explanation:
    """Why a run is what it is. An execution is explained by its verdict, or by what it waits for."""
    found = await box.find(given.run)
    run, _ = await folded(box, found)
    observed = (await box.context.observe(found)).conditions
    now = box.context.clock.now_ms()
    facts = [*await _of_execution(box, found), *facts_of(run, now, observed)]
    path = _failing_path(run)
    left_out = []
    if len(facts) > MAX_FACTS:
        left_out.append(f"{len(facts) - MAX_FACTS} more facts: `longwatch executions explain` has all.")
    if len(path) > MAX_PATH:
        left_out.append(f"{len(path) - MAX_PATH} callers of the failing path: call show_run with `errors`.")
    if path:
        left_out.append("The arguments and the traceback of a call: call show_run with `call`.")
    return Explanation(
        run=await box.brief(found),
        facts=[_bounded(fact) for fact in facts[:MAX_FACTS]],
        failing_path=path[-MAX_PATH:],
        left_out=left_out,
    )


async def _of_execution(box: ToolBox, run: RunSummary) -> Sequence[FactView]:
    """The facts about an execution, if the run is one whose record can be read."""
    if run.kind != "execution":
        return ()
    executions = box.context.executions
    try:
        execution = await box.context.call(executions.get, run.run_id)
        cadence = await box.context.call(executions.lessons_for, [execution])
    except LongwatchError as error:
        return [
            FactView(about="record", text=f"The record of the execution cannot be read: {error}", at=None)
        ]
    return ExecutionDetails.of(execution, now_ms=box.context.clock.now_ms(), cadence=cadence).explained


def _bounded(fact: FactView) -> FactView:
    return FactView(about=one_line(fact.about, MAX_NAME), text=one_line(fact.text, MAX_FACT), at=fact.at)


def facts_of(run: Run, now_ms: int, observed: Sequence[Condition] = ()) -> Iterator[FactView]:
    """What the events of a run state about it, the most important first."""
    summary = run.summary
    ending = summary.ending
    yield _open(summary, now_ms) if ending is None else _ended(summary, ending)
    failure = failure_of(summary)
    if failure is not None and failure.call is not None:
        call = failure.call
        agent = f" of agent {call.agent_name}" if call.agent_name else ""
        yield FactView(
            about="failed in", text=f"{call.kind} {call.name}{agent}: {call.error}", at=call.order[0]
        )
    for condition in conditions(run, now_ms, observed=observed):
        yield FactView(about=condition.name, text=condition.message, at=condition.since)
    if ending is None:
        yield from _open_calls(run)
    yield from _attempts(summary)
    yield FactView(about="last event", text=summary.last_event_type, at=summary.last_event_at)
    closed = sum(each.count is not None for each in run.producers.values())
    if run.producers:
        yield FactView(
            about="producers",
            text=f"{len(run.producers)}, of which {closed} closed and stated a count",
            at=None,
        )


def _open(run: RunSummary, now_ms: int) -> FactView:
    """Silence and a deadline end nothing, so the fact names the event that is missing."""
    quiet = length_text(now_ms - run.last_event_at)
    text = f"{run.status.value}: no event has reported an outcome; the last event was {quiet} ago"
    return FactView(about="status", text=text, at=run.started_at)


def _ended(run: RunSummary, ending: Ending) -> FactView:
    if run.ended_between is not None:
        not_before, not_after = run.ended_between
        until = f" and {iso_from_ms(not_after)}" if not_after is not None else ""
        when = f"between {iso_from_ms(not_before)}{until}" if until else f"after {iso_from_ms(not_before)}"
        why = "its processes exited and none reported an outcome" if run.status is Status.DIED else "replaced"
        text = f"{run.status.value} {when}: {why}"
    elif ending.correction:
        text = f"{run.status.value}, stated by a later correction"
    elif ending.own_word:
        text = f"{run.status.value}, as the run itself reported"
    else:
        text = f"{run.status.value}, written by an observer for a process that reported no outcome"
    error = f": {one_line(run.error, MAX_ERROR)}" if run.error else ""
    return FactView(about="status", text=text + error, at=run.ended_at)


def _open_calls(run: Run) -> Iterator[FactView]:
    calls = [call for call in run.ordered_calls() if call.end is None]
    for call in calls[-MAX_OPEN_CALLS:][::-1]:
        text = f"{call.kind} {call.name} {call.preview}".rstrip()
        yield FactView(about="in progress", text=text, at=call.started_at)
    if len(calls) > MAX_OPEN_CALLS:
        yield FactView(about="in progress", text=f"{len(calls) - MAX_OPEN_CALLS} more calls", at=None)


def _attempts(run: RunSummary) -> Iterator[FactView]:
    attempts = run.attempts
    if len(attempts) < 2:
        return
    yield FactView(about="attempts", text=f"{len(attempts)}; the status is that of the last one", at=None)
    for number, attempt in enumerate(attempts[:-1], 1):
        at = attempt.start[0] if attempt.start is not None else run.started_at
        yield FactView(about=f"attempt {number}", text=attempt.status.value, at=at)


def _failing_path(run: Run) -> list[CallBrief]:
    summary = run.summary
    if summary.status is Status.SUCCEEDED:
        return []
    has_ended = summary.ending is not None
    tree = CallTree.of(run.calls.values())
    path = failing_path(tree, error=summary.error, has_ended=has_ended)
    return [call_brief(tree.calls[index], has_ended=has_ended) for index in path]
