"""The tool with which an agent reads the state of its own run: its time, tokens, waits and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from longwatch.errors import InvalidInput, LongwatchError
from longwatch.executions.due import deadline_at
from longwatch.model.endings import DEADLINE
from longwatch.model.event import MAX_OCCURRED_AT, Event, number_of
from longwatch.model.failures import FailedCall
from longwatch.model.json_schema import STRICT
from longwatch.model.preview import one_line
from longwatch.model.run import STARTS, RunSummary
from longwatch.recording.scope import RUN_ID_VARIABLE
from longwatch.server.mcp.box import OwnRunName, ToolBox
from longwatch.server.mcp.results import MAX_ERROR, MAX_NAME, FailedCallView, OwnRun

TURN_VARIABLE = "LONGWATCH_TURN_ID"
HEADER = "longwatch-run"
MAX_LEVELS = 8  # of runs above the own one that are read for a deadline
FIRST_EVENTS = 20  # of a run, among which its start is expected


@dataclass(frozen=True, kw_only=True)
class MyRun:
    """Arguments of `my_run`: none."""

    __pydantic_config__ = STRICT


def from_environment(environment: Mapping[str, str]) -> OwnRunName | None:
    """The run that `longwatch run`, `longwatch turn` or a recorder names for its child processes."""
    for variable in (RUN_ID_VARIABLE, TURN_VARIABLE):  # a run inside a turn is the nearer one
        if environment.get(variable):
            return OwnRunName(environment[variable], variable)
    return None


async def my_run(box: ToolBox, given: MyRun) -> OwnRun:
    """The run of the caller, as it is at this moment."""
    own = box.own_run
    if own is None:
        raise InvalidInput(
            "The caller's run is not known. Start the agent with `longwatch run -- COMMAND` or "
            f"`longwatch turn`, which name it in {RUN_ID_VARIABLE} or {TURN_VARIABLE}; over HTTP, send it in "
            "the header Longwatch-Run. To read another run, call show_run."
        )
    context = box.context
    found = await box.find(own.run_id)
    brief = await box.brief(found)
    deadline, of = await _deadline(box, found)
    now = context.clock.now_ms()
    return OwnRun(
        run=brief,
        named_by=own.named_by,
        deadline_at=deadline,
        deadline_of=of,
        ms_to_deadline=None if deadline is None else deadline - now,
        tokens=brief.tokens,
        waiting=brief.waiting,
        last_failures=[_failed_call(each) for each in found.last_failed_calls],
    )


def _failed_call(call: FailedCall) -> FailedCallView:
    return FailedCallView(
        kind=call.kind,
        name=one_line(call.name, MAX_NAME),
        agent_name=call.agent_name,
        at=call.order[0],
        error=one_line(call.error, MAX_ERROR),
    )


async def _deadline(box: ToolBox, run: RunSummary) -> tuple[int | None, str | None]:
    """The earliest deadline of the run and the runs that it is part of, and which of them has it."""
    found: list[tuple[int, str]] = []
    seen: set[str] = set()
    current: RunSummary | None = run
    while current is not None and current.run_id not in seen and len(seen) <= MAX_LEVELS:
        seen.add(current.run_id)
        at = await _deadline_of(box, current)
        if at is not None:
            found.append((at, current.run_id))
        parent = current.parent_run_id
        current = await box.context.async_journal.find_run(parent) if parent else None
    return min(found, default=(None, None))


async def _deadline_of(box: ToolBox, run: RunSummary) -> int | None:
    """The deadline that the start of the run states; of an execution, that of its record."""
    context = box.context
    if run.kind == "execution":
        try:
            return deadline_at(await context.call(context.executions.get, run.run_id))
        except LongwatchError:
            return None
    page = await context.async_journal.read(run.run_id, limit=FIRST_EVENTS)
    stated = [_stated(event) for event in page.events if event.type in STARTS]
    return next((at for at in stated if at is not None), None)


def _stated(event: Event) -> int | None:
    at = number_of(event.payload, DEADLINE)
    return None if at is None or not 0 <= at <= MAX_OCCURRED_AT else int(at)
