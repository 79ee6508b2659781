"""Known bugs, planted to see whether the simulation finds them. Only for its own tests.

None of them is in the product: each is a part of it with one thing left out, put in its place for one seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any
from unittest.mock import patch

from longwatch.errors import VersionConflict
from longwatch.executions import due, operators, outcomes, poller, transitions
from longwatch.executions.model import (
    Evidence,
    Execution,
    ExecutionKey,
    ItemState,
    Job,
    Mode,
    Stage,
    Verdict,
    WorkItem,
)
from longwatch.executions.operators import Operator
from longwatch.executions.poller import Claim, Poller, PollReport, Result
from longwatch.executions.responses import SourceResponse, apply_response
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.stores import memory, records
from longwatch.executions.transitions import append_new
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.model.summary import Status
from tests.simulation.executions import world


class ExecutionBug(StrEnum):
    """What is left out."""

    EMPTY_IS_DONE = "empty-is-done"  # nothing listed counts as everything done
    STORED_WAVES_ARE_ALL = "stored-waves-are-all"  # whether more waves come is not checked
    NO_GRACE = "no-grace"  # what a finished job lists as pending has failed at once
    JOB_DECIDES = "job-decides"  # a job that has finished has succeeded
    DEADLINE_DECIDES = "deadline-decides"  # what is overdue has failed
    SILENCE_DECIDES = "silence-decides"  # three polls without a response have failed it
    RECORD_BEFORE_JOURNAL = "record-before-journal"  # changes are reported once they are stored
    RECORD_ALONE = "record-alone"  # what a dead poller reported is not read
    IDS_BY_TIME = "ids-by-time"  # the id of a change contains when it was seen
    NO_CONDITION = "no-condition"  # records are written whatever was written in between
    NO_REREAD = "no-reread"  # what the index shows is assumed to be true
    ANSWERS_BY_ID = "answers-by-id"  # two plans with one execution id share a response
    LEASE_FOR_EVER = "lease-for-ever"  # what a dead poller held stays its own
    LOCAL_TIME = "local-time"  # how much time has passed is measured by the clock of each poller
    STATUS_OVERWRITTEN = "status-overwritten"  # a status of another program is replaced by the verdict
    UNKNOWN_FAILS = "unknown-fails"  # a launch status that no table has is pending, which fails in the end
    OPERATOR_FORGETS = (
        "operator-forgets"  # a verdict of an operator is stored as closed before it is journaled
    )


@contextmanager
def planted(bug: ExecutionBug) -> Iterator[None]:
    """With this bug in longwatch."""
    with ExitStack() as patches:
        for target, name, value in _PATCHES[bug]:
            patches.enter_context(patch.object(target, name, value))
        yield


_wave_outcome = outcomes.stage_outcome
_execution_outcome = outcomes.execution_outcome
_verdict = outcomes.decide_verdict
_event = transitions._event
_read = Poller._read
_poll_sources = Poller.poll_sources


def _empty_is_done(wave: Stage, mode: Mode, now_ms: int) -> outcomes.Outcome | None:
    if not any(job.items for job in wave.jobs):
        return outcomes.Outcome(Status.SUCCEEDED)
    return _wave_outcome(wave, mode, now_ms)


def _stored_waves_are_all(execution: Execution, now_ms: int) -> outcomes.Outcome | None:
    return _execution_outcome(replace(execution, total_stages=len(execution.stages) or None), now_ms)


def _job_decides(wave: Stage, mode: Mode, now_ms: int) -> outcomes.Outcome | None:
    if wave.jobs and all(job.finished_at is not None for job in wave.jobs):
        return outcomes.Outcome(Status.SUCCEEDED)
    return _wave_outcome(wave, mode, now_ms)


def _deadline_decides(execution: Execution, evidence: tuple[Evidence, ...], now_ms: int) -> Verdict | None:
    found = _verdict(execution, evidence, now_ms)
    if found is None and due.is_overdue(execution, now_ms):
        return Verdict(Status.FAILED, now_ms, evidence, "it took too long", late=True)
    return found


def _silence_decides(self: Poller, claim: Claim, result: SourceResult) -> PollReport:
    if isinstance(result, SourceProblem) and claim.execution.failures >= 2:
        at = self._clock.now_ms()
        failed = Verdict(Status.FAILED, at, (Evidence("drs:DescribeJobs", at),), result.message)
        stored = self._store.update(replace(claim.execution, verdict=failed))
        return self._close(stored, claim.began, appended=0)
    return _settle(self, claim, result)


_settle = Poller.settle


def _record_before_journal(
    self: Poller, claim: Claim, record: Execution, response: SourceResponse, new: int
) -> PollReport | int:
    after = apply_response(record, response)
    found = _verdict(after, (response.evidence,), response.at)
    try:
        stored = self._store.update(
            replace(after, lease_holder=None, lease_until=None)
            if found is None
            else replace(after, verdict=found)
        )
    except VersionConflict:
        return new
    new += self._append(poller._response_events(record, after, response))
    if found is not None:
        return self._close(stored, claim.began, appended=new)
    return self._done(stored, Result.POLLED, claim.began, appended=new)


def _record_alone(execution: Execution, journal: Journal) -> list[Event]:
    return []


def _id_by_time(
    execution: Execution, kind: str, subject: str, at: int, payload: Mapping[str, object]
) -> Event:
    return _event(execution, kind, f"{subject}@{at}", at, payload)


def _no_reread(self: Poller, execution_id: str, plan_id: str | None) -> Execution:
    """What was read first is believed from then on: an index that never comes up to date."""
    hints: dict[tuple[str, str | None], Execution] = self.__dict__.setdefault("_hints", {})
    if (execution_id, plan_id) not in hints:
        hints[execution_id, plan_id] = _read(self, execution_id, plan_id)
    return hints[execution_id, plan_id]


def _answers_by_id(self: Poller, claims: list[Claim]) -> Mapping[ExecutionKey, SourceResult]:
    results = _poll_sources(self, claims)
    by_id = {key.execution_id: response for key, response in results.items()}
    return {key: by_id[key.execution_id] for key in results}


def _lease_for_ever(execution: Execution, now_ms: int, *, to_other_than: str = "") -> bool:
    return execution.lease_holder not in (None, to_other_than)


def _local_time(local_ms: int, dates: Iterable[int | None]) -> int:
    return local_ms


def _unknown_fails(server: WorkItem, job: Job | None, mode: Mode, now_ms: int) -> outcomes.Outcome | None:
    if server.state is ItemState.UNKNOWN:
        server = replace(server, state=ItemState.PENDING)
    return _server_outcome(server, job, mode, now_ms)


_server_outcome = outcomes.item_outcome


def _operator_forgets(self: Operator, execution: Execution, decide: operators.Decide) -> Execution:
    decision = decide(execution, self._clock.now_ms())
    done = self._store.update(
        replace(decision.settled(decision.claimed), lease_holder=None, lease_until=None)
    )
    append_new(self._journal, decision.events)
    return done


_PATCHES: Mapping[ExecutionBug, tuple[tuple[Any, str, Any], ...]] = {
    ExecutionBug.EMPTY_IS_DONE: ((outcomes, "stage_outcome", _empty_is_done),),
    ExecutionBug.STORED_WAVES_ARE_ALL: ((outcomes, "execution_outcome", _stored_waves_are_all),),
    ExecutionBug.NO_GRACE: ((outcomes, "GRACE_MS", 0), (outcomes, "GRACE_POLLS", 0)),
    ExecutionBug.JOB_DECIDES: ((outcomes, "stage_outcome", _job_decides),),
    ExecutionBug.DEADLINE_DECIDES: ((poller, "decide_verdict", _deadline_decides),),
    ExecutionBug.SILENCE_DECIDES: ((Poller, "settle", _silence_decides),),
    ExecutionBug.RECORD_BEFORE_JOURNAL: ((Poller, "_settle_response", _record_before_journal),),
    ExecutionBug.RECORD_ALONE: ((poller, "unapplied_events", _record_alone),),
    ExecutionBug.IDS_BY_TIME: ((transitions, "_event", _id_by_time),),
    ExecutionBug.NO_CONDITION: ((memory, "GUARDED", ()),),
    ExecutionBug.NO_REREAD: ((Poller, "_read", _no_reread),),
    ExecutionBug.ANSWERS_BY_ID: ((Poller, "poll_sources", _answers_by_id),),
    ExecutionBug.LEASE_FOR_EVER: ((poller, "is_leased", _lease_for_ever),),
    ExecutionBug.LOCAL_TIME: ((world, "observed_at", _local_time), (outcomes, "GRACE_POLLS", 0)),
    ExecutionBug.STATUS_OVERWRITTEN: ((records, "_is_our_status", lambda record: True),),
    ExecutionBug.UNKNOWN_FAILS: ((outcomes, "item_outcome", _unknown_fails),),
    ExecutionBug.OPERATOR_FORGETS: ((Operator, "_apply", _operator_forgets),),
}
