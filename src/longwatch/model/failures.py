"""Why a run failed: its error, the call and the agent in which it occurred, and runs that failed alike.

A summary has the latest failed calls only, one for each call by kind, name and agent. The call of a run's
failure is the one whose error the run's error repeats; a failure that the run has handled is not its failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longwatch.model.calls import mark_of
from longwatch.model.endings import Status
from longwatch.model.event import Event, Order, end_status, tool_status

if TYPE_CHECKING:
    from longwatch.model.summary import RunSummary

CALL_TYPES = frozenset({"tool_call", "model_call"})
SPAN_ENDS = frozenset({"agent_end", "node_stop"})
FAILED_STATUSES = frozenset({Status.FAILED, Status.PARTIAL, Status.DIED})
MAX_FAILED_CALLS = 4  # in a summary
MAX_ERROR = 200  # characters of the error of a failed call
MAX_NAME = 100  # characters of the names of a call and of an agent
MAX_LINE = 300  # characters of the first line of an error
_MIN_MESSAGE = 8  # characters; a shorter message occurs in other errors by chance
INNERMOST = ("agent", "node", "tool", "model")  # which call raised an error: spans only pass it on
_CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?=: |$)")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that ended with an error."""

    order: Order  # of its end
    kind: str
    name: str
    agent_name: str | None
    error: str

    @property
    def subject(self) -> tuple[str, str, str]:
        return self.kind, self.name, self.agent_name or ""


FailedCalls = tuple[FailedCall, ...]  # the latest first


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a run that failed, and where it occurred."""

    status: Status
    error: str  # its first line
    error_class: str | None  # the name of the exception, if the error begins with one
    call: FailedCall | None  # None: no call failed with this error

    @property
    def group(self) -> str:
        """The same for runs that failed alike: in one call, with one exception or the same text."""
        return "\n".join((self.status, error_group(self.error), self.call.name if self.call else ""))


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs that failed alike, the newest first."""

    failure: Failure  # of the newest run
    run_ids: tuple[str, ...]
    since: int  # when the first of them ended, in epoch ms


def failed_calls_of(events: Iterable[Event]) -> FailedCalls:
    """The latest failed calls among these ends of calls."""
    found = []
    for event in events:
        if not _has_failed(event) or (marked := mark_of(event)) is None:
            continue
        mark = marked[1]
        agent = mark.agent_name[:MAX_NAME] if mark.agent_name else None
        error = (mark.error or "failed")[:MAX_ERROR]
        found.append(FailedCall(mark.order, mark.kind, mark.name[:MAX_NAME], agent, error))
    return _latest(found)


def _has_failed(event: Event) -> bool:
    """Whether it ends a call that failed, without reading the rest: most calls succeed."""
    if event.type in CALL_TYPES:
        return tool_status(event.payload) == "failed"
    return event.type in SPAN_ENDS and end_status(event.payload) == "failed"


def merge_failed_calls(one: FailedCalls, other: FailedCalls) -> FailedCalls:
    """The latest of both parts. Commutative, associative and idempotent."""
    return _latest((*one, *other)) if one and other else one or other


def _latest(calls: Iterable[FailedCall]) -> FailedCalls:
    last = {call.subject: call for call in sorted(calls, key=lambda call: call.order)}
    return tuple(sorted(last.values(), key=lambda call: call.order, reverse=True)[:MAX_FAILED_CALLS])


def failure_of(run: RunSummary) -> Failure | None:
    """Why a run failed; None for one that did not, or without any error."""
    if run.status not in FAILED_STATUSES:
        return None
    error = run.error
    if error is None:
        call = next(iter(run.last_failed_calls), None)
        error = call.error if call else None
    else:
        call = _call_with(error, run.last_failed_calls)
    if error is None:
        return None
    line = first_line(error)
    return Failure(run.status, line, error_class_of(line), call)


def _call_with(error: str, calls: FailedCalls) -> FailedCall | None:
    """The call that failed with the error: the innermost one, and of several the latest."""
    matching = [call for call in calls if repeats_error(error, call.error)]
    return max(matching, key=lambda call: (INNERMOST.index(call.kind), call.order), default=None)


def repeats_error(error: str, of_call: str) -> bool:
    """Whether the error of a run is that of a call, or one contains the message of the other."""
    one, other = error[:MAX_ERROR], of_call[:MAX_ERROR]
    return one == other or _contains(error, other) or _contains(of_call, one)


def _contains(error: str, part: str) -> bool:
    message = part.partition(": ")[2] if error_class_of(part) else part
    return len(message) >= _MIN_MESSAGE and message in error


def first_line(text: str) -> str:
    """The first line that is not empty."""
    return next((line for line in map(str.strip, text.splitlines()) if line), "")[:MAX_LINE]


def error_class_of(error: str) -> str | None:
    """`FeedTimeout` of `feeds.FeedTimeout: no response`; None if the text begins with no class."""
    found = _CLASS.match(error)
    return found[1] if found else None


def error_group(line: str) -> str:
    """The same for errors that differ in their message or in their numbers: the exception, or the text."""
    return error_class_of(line) or re.sub(r"\d+", "0", line)


def group_failures(runs: Iterable[RunSummary]) -> list[FailureGroup]:
    """Two or more of these runs that failed alike, the largest groups first. The newest runs come first."""
    found: dict[str, tuple[Failure, list[RunSummary]]] = {}
    for run in runs:
        failure = failure_of(run)
        if failure is not None:
            found.setdefault(failure.group, (failure, []))[1].append(run)
    groups = [
        FailureGroup(failure, tuple(run.run_id for run in alike), min(map(_ended, alike)))
        for failure, alike in found.values()
        if len(alike) > 1
    ]
    return sorted(groups, key=lambda group: -len(group.run_ids))


def _ended(run: RunSummary) -> int:
    between = run.ended_between
    if run.ended_at is not None:
        return run.ended_at
    return between[0] if between is not None else run.last_event_at


def failed_calls_to_json(calls: FailedCalls) -> list[Any]:
    """Each call as a list, for journals that store a summary of each run."""
    return [[call.order, call.kind, call.name, call.agent_name, call.error] for call in calls]


def failed_calls_from_json(value: Sequence[Any]) -> FailedCalls:
    """The calls that `failed_calls_to_json` wrote."""
    return tuple(
        FailedCall((at, producer, number, event_id), kind, name, agent, error)
        for (at, producer, number, event_id), kind, name, agent, error in value
    )
