"""Polls one execution, records what has changed, and closes it when its outcome is certain.

The order makes a crash at any point safe. The poller takes a lease, so that no other poller polls meanwhile.
Changes go into the journal before the record, so none is lost; their ids keep them from being stored twice. A
verdict goes into the record, then into the journal, and only then is the execution closed: a poller that
finds a verdict which is not in the journal yet appends the same event. A write of the record is rejected if
another program wrote in between.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import ExecutionNotFound, LongwatchError, VersionConflict
from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.due import ExecutionPhase, deadline_at, is_due, is_leased, phase_of
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.outcomes import decide_verdict
from longwatch.executions.responses import (
    SourceResponse,
    apply_recheck,
    apply_response,
    is_recheck_due,
    next_recheck_at,
    record_failure,
    redact_response,
)
from longwatch.executions.sources.base import Source, SourceProblem, SourceResult
from longwatch.executions.sources.dates import observed_at
from longwatch.executions.stores.base import ExecutionStore, ServerClock
from longwatch.executions.stores.records import is_of_longwatch, is_set_by_others, is_unreported, own_verdict
from longwatch.executions.transitions import (
    append_new,
    deadline_event,
    disowned_run_event,
    end_event,
    replay_events,
    start_event,
    transition_events,
    unapplied_events,
)
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.settings import lifetime_seconds

LEASE_MS = 90_000  # longer than a poll and its writes take, and the longest wait after a poller has died
MARGIN_MS = 5_000  # of a lease, left for appending: clocks differ, and writing takes time
TRIES = 3  # to store a response while others write to the same record
EARLY_MS = 1_000  # by which the clocks of finder and poller may differ

log = logging.getLogger(__name__)


class Result(StrEnum):
    """The result of a poll. The values are dimensions of metrics, and stay."""

    POLLED = "asked"  # the source responded, and the execution stays open
    NO_RESPONSE = "unanswered"  # the poll failed
    ENDED = "ended"  # the end is in the journal and the execution closed
    CORRECTED = "corrected"  # a later response corrected the verdict of a closed one
    RECHECKED = "rechecked"  # a closed one was polled again, and its verdict stands
    EARLY = "early"  # it is not due yet
    BUSY = "busy"  # another poller holds the lease, or was quicker
    CLOSED = "closed"  # nothing is left to do


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReport:
    """One poll, for metrics and views."""

    execution: Execution  # as it is now
    result: Result
    phase: ExecutionPhase  # at the poll
    seconds: float = 0.0
    appended: int = 0  # new events
    problem: SourceProblem | None = None
    retry_after_seconds: float | None = None  # requested by the source, with or without a response


@dataclass(frozen=True, slots=True)
class Claim:
    """The lease of an execution, which allows this poller to poll it."""

    execution: Execution
    began: float  # monotonic seconds
    after_another: bool = False  # the holder before did not release it, and may have appended and died


OnPoll = Callable[[PollReport], None]


class Poller:
    """Polls executions of any source. Threads may share it.

    With `cadence` it stores the learned time of the next poll in the record, where other pollers and finders
    read it, and learns from each execution that ends. `redact` removes secrets from the texts of a source
    before they are stored. `ttl_hours` is the lifetime of its events: None leaves that to the journal, 0
    keeps them for good.
    """

    def __init__(
        self,
        store: ExecutionStore,
        journal: Journal,
        sources: Mapping[str, Source],
        *,
        clock: Clock = SYSTEM_CLOCK,
        holder: str | None = None,
        lease_ms: int = LEASE_MS,
        report: OnPoll | None = None,
        cadence: LearnedCadence | None = None,
        ttl_hours: float | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.holder = holder or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._store = store
        self._journal = journal
        self._sources = sources
        self._clock = clock
        self._lease_ms = lease_ms
        self._report = report
        self._cadence = cadence
        self._ttl_hours = ttl_hours
        self._redact = redact
        self._claimed: dict[ExecutionKey, bool] = {}  # not settled; True: events may be written already

    def poll(self, execution_id: str, plan_id: str | None = None) -> PollReport:
        """Poll one execution, if it is due and no other poller holds its lease."""
        claim = self.claim(execution_id, plan_id)
        if isinstance(claim, PollReport):
            return claim
        return self.settle(claim, self.poll_sources([claim])[claim.execution.key])

    def claim(self, execution_id: str, plan_id: str | None = None) -> Claim | PollReport:
        """Take the lease of an execution that is due. Its record is read again: an index is only a hint."""
        began, now = self._clock.monotonic(), self._clock.now_ms()
        record = self._read(execution_id, plan_id)
        if record.closed:
            return self._settle_closed(record, began)
        if is_leased(record, now, to_other_than=self.holder):
            return self._done(record, Result.BUSY, began)
        if not is_due(record, now + EARLY_MS):
            return self._done(record, Result.EARLY, began)
        self._leave_shared_run(record)
        self._claimed[record.key] = record.verdict is not None  # before the write: Ctrl-C may follow at once
        try:
            leased = self._store.update(
                replace(record, lease_holder=self.holder, lease_until=now + self._lease_ms)
            )
        except VersionConflict:
            self._claimed.pop(record.key, None)
            return self._done(record, Result.BUSY, began)
        if leased.verdict is not None:
            polled = self._close(leased, began, appended=0)
            self._claimed.pop(record.key, None)
            return polled
        return Claim(leased, began, after_another=record.lease_holder is not None)

    def _leave_shared_run(self, record: Execution) -> None:
        """Start a run of its own for an old execution whose run has events of other plans as well."""
        stored = record.stored or {}
        if record.own_run_id is None and "RunId" not in stored and is_of_longwatch(stored):
            self._append([disowned_run_event(record)])
            self._append([start_event(record)])

    def poll_sources(self, claims: list[Claim]) -> Mapping[ExecutionKey, SourceResult]:
        """Poll the sources of these executions, with as few calls as possible."""
        found: dict[ExecutionKey, SourceResult] = {}
        for name in dict.fromkeys(claim.execution.source for claim in claims):
            mine = [claim.execution for claim in claims if claim.execution.source == name]
            source = self._sources.get(name)
            if source is None:
                problem = SourceProblem(f"No source {name!r} here. There are: {', '.join(self._sources)}")
                found |= {each.key: problem for each in mine}
            else:
                starts = {each.key: each.started_at for each in mine}
                store_ms = self._store.server_time_ms() if isinstance(self._store, ServerClock) else None
                responses = source.poll(mine)
                found |= {
                    key: self._redact_result(
                        _not_before(starts.get(key, 0), _date_response(response, store_ms))
                    )
                    for key, response in responses.items()
                }
        return found

    def _redact_result(self, response: SourceResult) -> SourceResult:
        if isinstance(response, SourceProblem):
            return replace(response, message=self._redact(response.message))
        return redact_response(response, self._redact)

    def settle(self, claim: Claim, response: SourceResult) -> PollReport:
        """Store what the source returned, and close the execution if it has ended.

        If another poller has claimed the execution meanwhile, the response is dropped: it is old.
        """
        self._claimed[claim.execution.key] = True
        polled = self._settle_claim(claim, response)
        self._claimed.pop(claim.execution.key, None)
        return polled

    def release_leases(self) -> None:
        """Release the leases of claims that are not settled. For a poller that exits.

        Where events may be in the journal already, the lease only expires: the next poller sees that there
        was one, and reads the events.
        """
        while self._claimed:
            key, may_have_appended = self._claimed.popitem()
            with suppress(LongwatchError):  # the lease expires by itself, only later
                held = self._store.get(key.execution_id, key.plan_id)
                if held is not None and held.lease_holder == self.holder:
                    kept = (self.holder, self._clock.now_ms()) if may_have_appended else (None, None)
                    self._store.update(replace(held, lease_holder=kept[0], lease_until=kept[1]))

    def _settle_claim(self, claim: Claim, response: SourceResult) -> PollReport:
        held = self._renew_claim(claim)
        if held is None:
            return self._report_conflict(claim.execution, claim.began, appended=0)
        claim = held
        if isinstance(response, SourceProblem):
            return self._settle_failure(claim, response)
        record, new = claim.execution, 0
        for _ in range(TRIES):
            polled = self._settle_response(claim, record, response, new)
            if isinstance(polled, PollReport):
                return polled
            new = polled
            # Another program wrote in between. While the lease is held, the response still applies.
            record = self._read(record.execution_id, record.plan_id)
            if record.verdict is not None or not _is_same_lease(record, claim.execution):
                break
        return self._report_conflict(claim.execution, claim.began, appended=new)

    def _renew_claim(self, claim: Claim) -> Claim | None:
        """The claim, with a new lease where the old one is about to expire; None: another poller holds it."""
        now = self._clock.now_ms()
        if now < (claim.execution.lease_until or 0) - min(MARGIN_MS, self._lease_ms // 4):
            return claim
        record = self._read(claim.execution.execution_id, claim.execution.plan_id)
        if record.verdict is not None or not _is_same_lease(record, claim.execution):
            return None
        try:
            renewed = self._store.update(replace(record, lease_until=now + self._lease_ms))
        except VersionConflict:
            return None
        return replace(claim, execution=renewed)

    def _settle_response(
        self, claim: Claim, record: Execution, response: SourceResponse, new: int
    ) -> PollReport | int:
        """Store a response to this record, after `new` events.

        If another program wrote to the record, returns the number of new events so far.
        """
        missed = unapplied_events(record, self._journal) if claim.after_another else []
        before = replay_events(record, [event for event in missed if event.occurred_at <= response.at])
        after = apply_response(before, response)
        new += self._append(_response_events(before, after, response))
        later = [event for event in missed if event.occurred_at > response.at]
        # A response that is older than what is in the journal decides nothing.
        found = None if later else decide_verdict(after, (response.evidence,), response.at)
        after = replay_events(after, later)
        learned_at = self._cadence.next_poll_at(after) if self._cadence else None
        next_at = after.next_poll_at if learned_at is None or response.next_at is not None else learned_at
        free = replace(after, lease_holder=None, lease_until=None, next_poll_at=next_at)
        try:
            # The verdict is appended next, and until then the lease keeps others away.
            stored = self._store.update(free if found is None else replace(after, verdict=found))
        except VersionConflict:
            return new
        if found is not None:
            return self._close(stored, claim.began, appended=new, phase=phase_of(before))
        retry_after = response.retry_after_seconds
        return self._done(
            stored,
            Result.POLLED,
            claim.began,
            phase=phase_of(before),
            appended=new,
            retry_after_seconds=retry_after,
        )

    def review(self, execution_id: str, plan_id: str | None = None) -> PollReport:
        """Poll a closed execution again, and correct its verdict if the source now reports otherwise.

        A verdict of another writer or an operator stays.
        """
        began = self._clock.monotonic()
        record = self._read(execution_id, plan_id)
        if not record.closed or record.verdict is None or is_set_by_others(record):
            return self._done(record, Result.CLOSED, began)
        return self._review(record, began)

    def _settle_closed(self, record: Execution, began: float) -> PollReport:
        """Append the end that another writer set, or recheck the verdict."""
        now = self._clock.now_ms()
        given = record.verdict
        if given is None or is_unreported(record) or not is_recheck_due(record, now + EARLY_MS):
            return self._acknowledge(record, began)
        try:  # moving the time of the next recheck is the claim: of two pollers, one succeeds
            claimed = self._store.update(replace(record, recheck_at=next_recheck_at(given, now)))
        except VersionConflict:
            return self._done(record, Result.BUSY, began)
        return self._review(claimed, began)

    def _review(self, record: Execution, began: float) -> PollReport:
        response = self.poll_sources([Claim(record, began)])[record.key]
        if isinstance(response, SourceProblem):
            return self._done(record, Result.NO_RESPONSE, began, problem=response)
        after, given = apply_recheck(record, response), record.verdict
        assert given is not None
        assert after.verdict is not None
        if after.verdict == given and not given.assumed:
            return self._done(record, Result.CLOSED, began)
        is_corrected = replace(after.verdict, assumed=given.assumed) != given
        new = self._append(
            [
                *transition_events(record, after, response.at),
                *([end_event(after, after.verdict)] if is_corrected else []),
            ]
        )
        try:
            stored = self._store.update(after)
        except VersionConflict:
            return self._report_conflict(record, began, appended=new)
        return self._done(stored, Result.CORRECTED if is_corrected else Result.RECHECKED, began, appended=new)

    def _settle_failure(self, claim: Claim, problem: SourceProblem) -> PollReport:
        retry_after, now = problem.retry_after_seconds, self._clock.now_ms()
        known = claim.execution
        after = record_failure(
            replay_events(known, unapplied_events(known, self._journal) if claim.after_another else ()),
            now,
            problem.message,
            retry_after_ms=None if retry_after is None else round(retry_after * 1000),
        )
        try:
            stored = self._store.update(replace(after, lease_holder=None, lease_until=None))
        except VersionConflict:
            return self._report_conflict(claim.execution, claim.began, appended=0)
        return self._done(
            stored, Result.NO_RESPONSE, claim.began, problem=problem, retry_after_seconds=retry_after
        )

    def _close(
        self, execution: Execution, began: float, *, appended: int, phase: ExecutionPhase | None = None
    ) -> PollReport:
        assert execution.verdict is not None
        new = appended + self._append([end_event(execution, execution.verdict)])
        closed = self._store_closed(execution)
        if closed is None:
            return self._report_conflict(execution, began, appended=new)
        if self._cadence is not None:
            with suppress(LongwatchError):  # the execution is closed all the same
                self._cadence.learn_from(self._journal, closed.run_id)
        return self._done(closed, Result.ENDED, began, phase=phase, appended=new)

    def _store_closed(self, execution: Execution) -> Execution | None:
        """The closed execution; None if another writer ended it, or another poller claimed it.

        A status that another writer sets meanwhile stays, and does not undo the verdict.
        """
        record = execution
        for _ in range(TRIES):
            assert record.verdict is not None
            recheck_at = next_recheck_at(record.verdict, self._clock.now_ms())
            closed = replace(record, closed=True, recheck_at=recheck_at, lease_holder=None, lease_until=None)
            try:
                return self._store.update(closed)
            except VersionConflict:
                record = self._read(execution.execution_id, execution.plan_id)
                if record.closed or not _is_same_lease(record, execution):
                    return None
        return None

    def _report_conflict(self, before: Execution, began: float, *, appended: int) -> PollReport:
        """Report that another program wrote in between. If that ended the execution, append its end."""
        record = self._read(before.execution_id, before.plan_id)
        if record.closed:
            return self._acknowledge(record, began, appended=appended)
        return self._done(record, Result.BUSY, began, appended=appended)

    def _acknowledge(self, record: Execution, began: float, *, appended: int = 0) -> PollReport:
        """Append the end that another writer put into the record, and note that in the record."""
        if record.verdict is None or not is_unreported(record):
            return self._done(record, Result.CLOSED, began, appended=appended)
        # A verdict of longwatch may not be in the journal yet: it comes first, and theirs corrects it.
        verdicts = [each for each in (own_verdict(record), record.verdict) if each is not None]
        new = appended + self._append([end_event(record, each) for each in verdicts])
        recheck_at = None if is_set_by_others(record) else record.recheck_at
        try:
            record = self._store.update(
                replace(record, lease_holder=None, lease_until=None, recheck_at=recheck_at)
            )
        except VersionConflict:
            log.info("another poller noted the end of %s", record.key)
        return self._done(record, Result.ENDED, began, appended=new)

    def _append(self, events: Sequence[Event]) -> int:
        lives = lifetime_seconds(self._ttl_hours, self._journal.default_ttl_seconds)
        return append_new(self._journal, events, ttl_seconds=lives)

    def _read(self, execution_id: str, plan_id: str | None) -> Execution:
        record = self._store.get(execution_id, plan_id)
        if record is None:
            raise ExecutionNotFound(
                f"No execution {execution_id!r}"
                + (f" of plan {plan_id!r}" if plan_id else "")
                + ". List them with: longwatch executions list"
            )
        return record

    def _done(
        self,
        execution: Execution,
        result: Result,
        began: float,
        *,
        phase: ExecutionPhase | None = None,
        appended: int = 0,
        problem: SourceProblem | None = None,
        retry_after_seconds: float | None = None,
    ) -> PollReport:
        polled = PollReport(
            execution=execution,
            result=result,
            phase=phase or phase_of(execution),
            seconds=self._clock.monotonic() - began,
            appended=appended,
            problem=problem,
            retry_after_seconds=retry_after_seconds,
        )
        if self._report is not None:
            self._report(polled)
        return polled


def _date_response(response: SourceResult, store_ms: int | None) -> SourceResult:
    """Date the response by the store where its source has not: all pollers share that clock."""
    if not isinstance(response, SourceResponse) or response.is_dated or store_ms is None:
        return response
    polled_at = response.at if response.polled_at is None else response.polled_at
    return replace(response, at=observed_at(response.at, [store_ms]), polled_at=polled_at)


def _not_before(start: int, response: SourceResult) -> SourceResult:
    """Date the response no earlier than the start: the clock of a source may be behind that of the plan."""
    return replace(response, at=max(response.at, start)) if isinstance(response, SourceResponse) else response


def _is_same_lease(record: Execution, claimed: Execution) -> bool:
    """Whether no poller has claimed the execution since, this one included."""
    return (record.lease_holder, record.lease_until) == (claimed.lease_holder, claimed.lease_until)


def _response_events(before: Execution, after: Execution, response: SourceResponse) -> list[Event]:
    events = [start_event(before)] if before.last_answer_at is None else []
    events += transition_events(before, after, response.at)
    deadline = deadline_at(after)
    polled_before = (
        before.last_answer_at is not None and deadline is not None and before.last_answer_at >= deadline
    )
    if deadline is not None and response.at >= deadline and response.is_response and not polled_before:
        events.append(deadline_event(after, response.evidence, response.at))
    return events
