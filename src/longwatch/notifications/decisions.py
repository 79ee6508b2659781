"""What a rule reacts to: plain functions from a run or an execution, and the clock, to occurrences.

An occurrence has a key that is the same for every notifier and every time, so that each is reported once.
Conditions are resolved by facts, such as an event after a silence, and never by the clock alone: two
notifiers whose clocks differ agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longwatch.executions.due import deadline_at, is_overdue
from longwatch.executions.explain import changed_at, length_text, silent_at
from longwatch.executions.model import Execution
from longwatch.model.endings import Status
from longwatch.model.failures import failure_of
from longwatch.model.liveness import Condition
from longwatch.model.run import RunSummary
from longwatch.notifications.message import Notice
from longwatch.notifications.rules import Rule, Trigger

MAX_AGE_MS = 7 * 24 * 3600 * 1000  # what happened earlier is not reported, as of runs that are imported
DEATH_GRACE_MS = 5_000  # in which the parent of a process may still report an outcome

_STATUS_TRIGGERS = {
    Status.FAILED: Trigger.FAILED,
    Status.PARTIAL: Trigger.PARTIAL,
    Status.DIED: Trigger.DIED,
}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that a rule reacts to."""

    key: str  # identifies it among those of its run and its rule
    notice: Notice
    began_at: int | None = None  # epoch ms, of a condition; None: an ending, which is never resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCondition:
    """A condition that was reported, and that still holds as far as is known."""

    rule: str
    run_id: str
    run_name: str | None
    trigger: Trigger
    key: str
    began_at: int  # epoch ms: the last sign of life, the start of the wait, or the deadline


@dataclass(frozen=True, slots=True)
class ObservedState:
    """A run as it stands, with the conditions of its processes."""

    run: RunSummary
    conditions: Sequence[Condition] = ()


def is_news(at: int, *, since: int, now_ms: int) -> bool:
    """Whether a rule that exists since then reports what happened at this time."""
    return at >= max(since, now_ms - MAX_AGE_MS)


def ending_occurrences(rule: Rule, run: RunSummary, *, since: int, now_ms: int) -> Iterator[Occurrence]:
    """The ending of the last attempt, by every trigger that it meets.

    The key has the attempt and the trigger: an ending that is stated again, by any producer, is the same.
    """
    ending = run.ending
    if ending is None:
        return
    at = ended_ms(run)
    if not is_news(at, since=since, now_ms=now_ms):
        return
    if run.status is Status.DIED and now_ms - at < DEATH_GRACE_MS:
        return
    attempt = len(run.attempts)
    is_correction = ending.correction and any(not each.correction for each in run.lifecycle.endings)
    met = {Trigger.ENDED: f"ended:{attempt}"}
    if (trigger := _STATUS_TRIGGERS.get(run.status)) is not None:
        met[trigger] = f"{trigger.value}:{attempt}"
    if is_correction:
        met[Trigger.CORRECTED] = f"corrected:{ending.order[3]}"
    wanted = [each for each in met if each in rule.triggers]
    if wanted:  # one notice for one ending: the most specific trigger comes last
        trigger, text = wanted[-1], ending_text(run)
        if trigger is Trigger.CORRECTED:
            text = f"corrected to {text}"
        yield Occurrence(met[trigger], _notice(run, trigger, text, at))


def condition_occurrences(
    rule: Rule, state: ObservedState, *, since: int, now_ms: int
) -> Iterator[Occurrence]:
    """The conditions of an open run that have lasted as long as the rule demands."""
    run = state.run
    if run.ending is not None:
        return
    for trigger, began_at, key, text in _conditions(rule, state, now_ms):
        due_at = began_at + rule.threshold_ms(trigger)
        if trigger in rule.triggers and now_ms >= due_at and is_news(due_at, since=since, now_ms=now_ms):
            yield Occurrence(key, _notice(run, trigger, text, due_at), began_at)


def _conditions(rule: Rule, state: ObservedState, now_ms: int) -> Iterator[tuple[Trigger, int, str, str]]:
    run = state.run
    for wait in run.waiting:
        began_at = wait.since or 0
        text = f"{wait.text} for {length_text(now_ms - began_at)}"
        yield Trigger.WAITING, began_at, f"waiting:{wait.call_id}", text
    active_at = run.attempt_active_at
    if not run.waiting and run.kind != "execution":  # one that is polled reports changes only
        text = f"no event for {length_text(now_ms - active_at)}"
        yield Trigger.SILENT, active_at, f"silent:{active_at}", text
    missing = [each for each in state.conditions if each.name == Trigger.NO_HEARTBEAT.value]
    if missing:
        began_at = min(each.since if each.since is not None else active_at for each in missing)
        yield Trigger.NO_HEARTBEAT, began_at, f"no heartbeat:{began_at}", missing[0].message


def execution_occurrences(
    rule: Rule, execution: Execution, *, since: int, now_ms: int
) -> Iterator[Occurrence]:
    """The conditions of an open execution: past its deadline, or without a change for long."""
    if not execution.is_open:
        return
    deadline = deadline_at(execution)
    if Trigger.OVERDUE in rule.triggers and deadline is not None and is_overdue(execution, now_ms):
        due_at = deadline + rule.threshold_ms(Trigger.OVERDUE)
        if now_ms >= due_at and is_news(due_at, since=since, now_ms=now_ms):
            text = f"past its deadline by {length_text(now_ms - deadline)}; polling continues"
            notice = _execution_notice(execution, Trigger.OVERDUE, text, due_at)
            yield Occurrence(f"overdue:{deadline}", notice, deadline)
    if Trigger.SILENT in rule.triggers:
        quiet_since = changed_at(execution)
        due_at = silent_at(execution) if rule.after_ms is None else quiet_since + rule.after_ms
        if now_ms >= due_at and is_news(due_at, since=since, now_ms=now_ms):
            text = f"nothing new for {length_text(now_ms - quiet_since)}"
            notice = _execution_notice(execution, Trigger.SILENT, text, due_at)
            yield Occurrence(f"silent:{quiet_since}", notice, quiet_since)


def run_resolution(
    condition: OpenCondition, run: RunSummary, *, alive_at: int | None, now_ms: int
) -> Notice | None:
    """The notice that a condition of a run no longer holds; None while it may hold.

    `alive_at` is the last heartbeat of its processes.
    """
    lasted = length_text(now_ms - condition.began_at)
    if run.ending is not None:
        return _resolved(condition, ending_text(run), ended_ms(run))
    active_at = run.attempt_active_at
    match condition.trigger:
        case Trigger.SILENT if active_at > condition.began_at:
            silence = length_text(active_at - condition.began_at)
            return _resolved(condition, f"reports again after {silence} without an event", active_at)
        case Trigger.SILENT if run.waiting:
            return _resolved(condition, run.waiting[0].text, run.waiting[0].since or now_ms)
        case Trigger.NO_HEARTBEAT if max(alive_at or 0, active_at) > condition.began_at:
            return _resolved(condition, "has a heartbeat again", max(alive_at or 0, active_at))
        case Trigger.WAITING if condition.key not in {f"waiting:{wait.call_id}" for wait in run.waiting}:
            return _resolved(condition, f"resumed after {lasted}", active_at)
    return None


def execution_resolution(condition: OpenCondition, execution: Execution, *, now_ms: int) -> Notice | None:
    """The notice that a condition of an execution no longer holds; None while it does."""
    verdict = execution.verdict
    if verdict is not None:
        message = f": {verdict.message}" if verdict.message else ""
        return _resolved(condition, f"ended {verdict.status.value}{message}", verdict.at)
    if not execution.is_open:
        return _resolved(condition, "closed", now_ms)
    if condition.trigger is Trigger.SILENT and changed_at(execution) > condition.began_at:
        return _resolved(condition, "reports changes again", changed_at(execution))
    if condition.trigger is Trigger.OVERDUE and deadline_at(execution) != condition.began_at:
        return _resolved(condition, "its deadline was changed", now_ms)
    return None


def ended_ms(run: RunSummary) -> int:
    """When a run ended; for one that died, the latest possible time, or the earliest if that is unknown."""
    if run.ended_at is not None:
        return run.ended_at
    between = run.ended_between
    if between is None:
        return run.last_event_at
    return between[0] if between[1] is None else between[1]


def ending_text(run: RunSummary) -> str:
    """`failed after 3 min: FeedTimeout: no response`"""
    duration = run.duration_ms(0) if run.ended_at is not None else None
    after = "" if duration is None else f" after {length_text(duration)}"
    failure = failure_of(run)
    error = failure.error if failure is not None else (run.error or "")
    call = f" · {failure.call.name}" if failure is not None and failure.call is not None else ""
    return f"{run.status.value}{after}{f': {error}' if error else ''}{call}"


def _notice(run: RunSummary, trigger: Trigger, text: str, at: int) -> Notice:
    return Notice(run_id=run.run_id, run_name=run.name, trigger=trigger, text=text, occurred_at=at)


def _execution_notice(execution: Execution, trigger: Trigger, text: str, at: int) -> Notice:
    name = execution.name or execution.label
    return Notice(run_id=execution.run_id, run_name=name, trigger=trigger, text=text, occurred_at=at)


def _resolved(condition: OpenCondition, text: str, at: int) -> Notice:
    return Notice(
        run_id=condition.run_id,
        run_name=condition.run_name,
        trigger=condition.trigger,
        text=text,
        occurred_at=at,
        is_resolved=True,
    )
