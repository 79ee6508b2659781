"""The tool that waits for a run to end: bounded, with progress, and cancelled with its request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from longwatch.errors import LongwatchError, RunDeleted
from longwatch.model.json_schema import STRICT
from longwatch.model.run import Run, RunSummary, Status
from longwatch.server.cache.run_cache import RUN, CachedRun
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.results import WaitOutcome
from longwatch.server.mcp.runs import RunName

MAX_WAIT_SECONDS = 3600
PROGRESS_SECONDS = 2.0

WaitReason = Literal["ended", "died", "deleted", "timeout", "unreadable", "stopped"]


@dataclass(frozen=True, kw_only=True)
class WaitForRun:
    """Arguments of `wait_for_run`."""

    __pydantic_config__ = STRICT

    run: RunName
    timeout_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=MAX_WAIT_SECONDS,
            description="How long to wait at most. A client may give up earlier: wait in several calls.",
        ),
    ] = 50.0


async def wait_for_run(box: ToolBox, given: WaitForRun) -> WaitOutcome:
    """Wait until the run has ended and its late events are in, or the time is up."""
    loop = asyncio.get_running_loop()
    found, began = await box.find(given.run), loop.time()
    context, until = box.context, began + given.timeout_seconds
    try:
        watched = await context.run_cache.get(RUN, found.run_id)
        while True:
            revision = watched.revision
            left = until - loop.time()
            if _is_over(watched) or left <= 0 or context.closing.is_set():
                break
            if watched.trouble is not None:
                raise watched.trouble
            await watched.wait_for_change(revision, min(left, PROGRESS_SECONDS))
            waited = loop.time() - began
            await box.report_progress(waited, max(waited, given.timeout_seconds), _progress(watched))
        run = found if watched.state is None else watched.state.summary
        run = (await context.observe(run)).run
    except RunDeleted as error:
        return _without_run("deleted", str(error), loop.time() - began)
    except LongwatchError as error:
        text = f"Whether run {found.run_id} has ended is not known: {error}"
        return _without_run("unreadable", text, loop.time() - began)
    outage = context.hub.trouble(found.run_id)
    reason, message = outcome_of(run, is_closing=context.closing.is_set(), outage=outage)
    return WaitOutcome(
        reason=reason,
        message=message,
        has_ended=run.ending is not None,
        waited_seconds=round(loop.time() - began, 1),
        run=await box.brief(run),
        left_out=[]
        if run.ending is not None
        else ["Longer: call wait_for_run again. Why: call explain_run."],
    )


def _is_over(watched: CachedRun[Run | None]) -> bool:
    """Whether the run has ended and drained."""
    ended = watched.state is not None and watched.state.summary.ending is not None
    return ended and watched.final_until is not None


def _progress(watched: CachedRun[Run | None]) -> str:
    """`running, 41 events, last tool_call`"""
    run = watched.state
    if run is None:
        return "no event yet"
    return f"{run.status.value}, {watched.events:,} events, last {run.summary.last_event_type}"


def outcome_of(
    run: RunSummary, *, is_closing: bool = False, outage: str | None = None
) -> tuple[WaitReason, str]:
    """Why a wait is over, from what is known of the run. Time that has passed ends no run."""
    if run.status is Status.DIED:
        return "died", f"Run {run.run_id} died: its processes exited and none reported an outcome."
    if run.ending is not None:
        return "ended", f"Run {run.run_id} ended: {run.status.value}."
    if is_closing:
        return "stopped", f"The server shuts down. Run {run.run_id} had not ended."
    if outage is not None:
        text = f"Whether run {run.run_id} has ended is not known: the journal does not respond: {outage}"
        return "unreadable", text
    return "timeout", f"Run {run.run_id} is still {run.status.value}."


def _without_run(reason: WaitReason, message: str, waited: float) -> WaitOutcome:
    return WaitOutcome(
        reason=reason, message=message, has_ended=False, waited_seconds=round(waited, 1), run=None
    )
