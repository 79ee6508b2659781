"""Asks about one execution, writes down what has changed, and closes it when its end is certain.

The order makes it safe to die anywhere. A lease is taken, so that nobody else asks meanwhile. Changes go into
the journal before the record, so none is lost; their ids keep them from being told twice. A verdict goes into
the record, then into the journal, and only then is the execution closed: whoever finds a verdict that is not
told yet tells the same one. Every write of the record is refused if somebody else wrote in between.
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

LEASE_MS = 90_000  # longer than asking and writing take; a dead poller's work waits no longer than this
MARGIN_MS = 5_000  # of a lease, in which what was seen is told: clocks differ, and writing takes time
TRIES = 3  # to write what a source said, while others write to the same record
EARLY_MS = 1_000  # the finder's clock and ours may differ by as much

log = logging.getLogger(__name__)


class Result(StrEnum):
    """What a poll came to."""

    POLLED = "asked"  # the source responded, and the execution stays open
    NO_RESPONSE = "unanswered"  # the poll failed
    ENDED = "ended"  # the end is told and the execution closed
    CORRECTED = "corrected"  # later truth was told about one that was closed
    RECHECKED = "rechecked"  # a closed one was polled again, and its verdict stands
    EARLY = "early"  # it is not time yet
    BUSY = "busy"  # somebody else is at it, or was quicker
    CLOSED = "closed"  # there is nothing left to do


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReport:
    """One poll, for whoever counts them."""

    execution: Execution  # as it is now
    result: Result
    phase: ExecutionPhase  # when it was asked about
    seconds: float = 0.0
    told: int = 0  # events that were new
    problem: SourceProblem | None = None
    retry_after_seconds: float | None = None  # how long the source asked to wait, with or without an answer


@dataclass(frozen=True, slots=True)
class Claim:
    """An execution that is ours to ask about until its lease ends."""

    execution: Execution
    began: float  # monotonic seconds
    after_another: bool = False  # who had the lease before did not give it back, and may have told and died


OnPoll = Callable[[PollReport], None]


class Poller:
    """Polls executions of any source. Threads may share it.

    With `lessons` it notes in the record when the past says to look again; whoever finds it there waits as
    long. Each execution that ends is learned from. `redact` removes secrets from a text of a source before it
    is stored. `ttl_hours` is how long its events live: None leaves that
    to the journal, 0 keeps them for good.
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
        """Ask about one execution, if it is time and nobody else does."""
        claim = self.claim(execution_id, plan_id)
        if isinstance(claim, PollReport):
            return claim
        execution = claim.execution
        told = self.poll_sources([claim])
        return self.settle(claim, told[execution.key])

    def claim(self, execution_id: str, plan_id: str | None = None) -> Claim | PollReport:
        """Take the lease of an execution that is due. What it is, is read again: an index is only a hint."""
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
            polled = self._close(leased, began, told=0)
            self._claimed.pop(record.key, None)
            return polled
        return Claim(leased, began, after_another=record.lease_holder is not None)

    def _leave_shared_run(self, record: Execution) -> None:
        """Begin a run of its own for an old execution whose run has events of other plans as well."""
        stored = record.stored or {}
        if record.own_run_id is None and "RunId" not in stored and is_of_longwatch(stored):
            self._tell([disowned_run_event(record)])
            self._tell([start_event(record)])

    def poll_sources(self, claims: list[Claim]) -> Mapping[ExecutionKey, SourceResult]:
        """What the sources say about these executions, with as few calls as it takes."""
        found: dict[ExecutionKey, SourceResult] = {}
        for name in dict.fromkeys(claim.execution.source for claim in claims):
            mine = [claim.execution for claim in claims if claim.execution.source == name]
            source = self._sources.get(name)
            if source is None:
                problem = SourceProblem(
                    f"nobody here can ask {name!r}; known are: {', '.join(self._sources)}"
                )
                found |= {each.key: problem for each in mine}
            else:
                starts = {each.key: each.started_at for each in mine}
                asked_at = self._store.server_time_ms() if isinstance(self._store, ServerClock) else None
                answers = source.poll(mine)
                found |= {
                    key: self._without_secrets(_not_before(starts.get(key, 0), _dated(told, asked_at)))
                    for key, told in answers.items()
                }
        return found

    def _without_secrets(self, told: SourceResult) -> SourceResult:
        if isinstance(told, SourceProblem):
            return replace(told, message=self._redact(told.message))
        return redact_response(told, self._redact)

    def settle(self, claim: Claim, told: SourceResult) -> PollReport:
        """Write down what the source said, and end what has ended.

        Who comes so late that somebody else has claimed it leaves the answer: it is old, and was not theirs
        to tell any more.
        """
        self._claimed[claim.execution.key] = True
        polled = self._settled(claim, told)
        self._claimed.pop(claim.execution.key, None)
        return polled

    def release_leases(self) -> None:
        """Give back the leases of what is claimed and not settled. For a poller that ends.

        Where events may be written already the lease only expires: the next poller sees that there was one,
        and reads them.
        """
        while self._claimed:
            key, may_have_told = self._claimed.popitem()
            with suppress(LongwatchError):  # it runs out by itself, only later
                held = self._store.get(key.execution_id, key.plan_id)
                if held is not None and held.lease_holder == self.holder:
                    kept = (self.holder, self._clock.now_ms()) if may_have_told else (None, None)
                    self._store.update(replace(held, lease_holder=kept[0], lease_until=kept[1]))

    def _settled(self, claim: Claim, told: SourceResult) -> PollReport:
        held = self._held(claim)
        if held is None:
            return self._overtaken(claim.execution, claim.began, told=0)
        claim = held
        if isinstance(told, SourceProblem):
            return self._unanswered(claim, told)
        record, new = claim.execution, 0
        for _ in range(TRIES):
            polled = self._settle(claim, record, told, new)
            if isinstance(polled, PollReport):
                return polled
            new = polled
            # Somebody wrote in between. While the lease is ours, the answer holds for what is there now.
            record = self._read(record.execution_id, record.plan_id)
            if record.verdict is not None or not _is_same_lease(record, claim.execution):
                break
        return self._overtaken(claim.execution, claim.began, told=new)

    def _held(self, claim: Claim) -> Claim | None:
        """The claim, with a new lease where the old one is about to run out; None: it is somebody else's."""
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

    def _settle(self, claim: Claim, record: Execution, told: SourceResponse, new: int) -> PollReport | int:
        """Write down what the source said of this record, after so many new events.

        If somebody else wrote to it: how many events are new by now.
        """
        missed = unapplied_events(record, self._journal) if claim.after_another else []
        before = replay_events(record, [event for event in missed if event.occurred_at <= told.at])
        after = apply_response(before, told)
        new += self._tell(_events(before, after, told))
        later = [event for event in missed if event.occurred_at > told.at]
        # Of an answer that is older than what is told already, nothing is concluded.
        found = None if later else decide_verdict(after, (told.evidence,), told.at)
        after = replay_events(after, later)
        learned = self._cadence.next_poll_at(after) if self._cadence else None
        next_at = after.next_poll_at if learned is None or told.next_at is not None else learned
        free = replace(after, lease_holder=None, lease_until=None, next_poll_at=next_at)
        try:
            # A verdict is told next, and until then the lease keeps others away.
            stored = self._store.update(free if found is None else replace(after, verdict=found))
        except VersionConflict:
            return new
        if found is not None:
            return self._close(stored, claim.began, told=new, phase=phase_of(before))
        wish = told.retry_after_seconds
        return self._done(
            stored, Result.POLLED, claim.began, phase=phase_of(before), told=new, retry_after_seconds=wish
        )

    def review(self, execution_id: str, plan_id: str | None = None) -> PollReport:
        """Ask again about an execution that is closed, and tell what is otherwise than the verdict said.

        What another writer decided stays as it is: nobody can know better what was meant to be.
        """
        began = self._clock.monotonic()
        record = self._read(execution_id, plan_id)
        if not record.closed or record.verdict is None or is_set_by_others(record):
            return self._done(record, Result.CLOSED, began)
        return self._review(record, began)

    def _settle_closed(self, record: Execution, began: float) -> PollReport:
        """What is left to do about a closed one: report the end that another writer set, or recheck it."""
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
        told = self.poll_sources([Claim(record, began)])[record.key]
        if isinstance(told, SourceProblem):
            return self._done(record, Result.NO_RESPONSE, began, problem=told)
        after, given = apply_recheck(record, told), record.verdict
        assert given is not None
        assert after.verdict is not None
        if after.verdict == given and not given.assumed:
            return self._done(record, Result.CLOSED, began)
        is_corrected = replace(after.verdict, assumed=given.assumed) != given
        new = self._tell(
            [
                *transition_events(record, after, told.at),
                *([end_event(after, after.verdict)] if is_corrected else []),
            ]
        )
        try:
            stored = self._store.update(after)
        except VersionConflict:
            return self._overtaken(record, began, told=new)
        return self._done(stored, Result.CORRECTED if is_corrected else Result.RECHECKED, began, told=new)

    def _unanswered(self, claim: Claim, problem: SourceProblem) -> PollReport:
        wish, now = problem.retry_after_seconds, self._clock.now_ms()
        known = claim.execution
        after = record_failure(
            replay_events(known, unapplied_events(known, self._journal) if claim.after_another else ()),
            now,
            problem.message,
            retry_after_ms=None if wish is None else round(wish * 1000),
        )
        try:
            stored = self._store.update(replace(after, lease_holder=None, lease_until=None))
        except VersionConflict:
            return self._overtaken(claim.execution, claim.began, told=0)
        return self._done(stored, Result.NO_RESPONSE, claim.began, problem=problem, retry_after_seconds=wish)

    def _close(
        self, execution: Execution, began: float, *, told: int, phase: ExecutionPhase | None = None
    ) -> PollReport:
        assert execution.verdict is not None
        new = told + self._tell([end_event(execution, execution.verdict)])
        closed = self._stored_as_closed(execution)
        if closed is None:
            return self._overtaken(execution, began, told=new)
        if self._cadence is not None:
            with suppress(LongwatchError):  # it has ended all the same, and others can be learned from
                self._cadence.learn_from(self._journal, closed.run_id)
        return self._done(closed, Result.ENDED, began, phase=phase, told=new)

    def _stored_as_closed(self, execution: Execution) -> Execution | None:
        """The closed execution; None if another writer ended it, or another poller took it over.

        A status that another writer sets meanwhile is kept, and does not undo the verdict.
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

    def _overtaken(self, before: Execution, began: float, *, told: int) -> PollReport:
        """Somebody wrote in between. If that ended the execution, its end is told."""
        record = self._read(before.execution_id, before.plan_id)
        if record.closed:
            return self._acknowledge(record, began, told=told)
        return self._done(record, Result.BUSY, began, told=told)

    def _acknowledge(self, record: Execution, began: float, *, told: int = 0) -> PollReport:
        """Tell the end that another writer put into the record, and note that it is told."""
        if record.verdict is None or not is_unreported(record):
            return self._done(record, Result.CLOSED, began, told=told)
        # An end of ours may be in the record and not be told: it comes first, and theirs corrects it.
        verdicts = [each for each in (own_verdict(record), record.verdict) if each is not None]
        new = told + self._tell([end_event(record, each) for each in verdicts])
        recheck_at = None if is_set_by_others(record) else record.recheck_at
        try:
            record = self._store.update(
                replace(record, lease_holder=None, lease_until=None, recheck_at=recheck_at)
            )
        except VersionConflict:
            log.info("the end of %s was noted by another poller", record.key)
        return self._done(record, Result.ENDED, began, told=new)

    def _tell(self, events: Sequence[Event]) -> int:
        lives = lifetime_seconds(self._ttl_hours, self._journal.default_ttl_seconds)
        return append_new(self._journal, events, ttl_seconds=lives)

    def _read(self, execution_id: str, plan_id: str | None) -> Execution:
        record = self._store.get(execution_id, plan_id)
        if record is None:
            raise ExecutionNotFound(
                f"There is no execution {execution_id!r}"
                + (f" of plan {plan_id!r}" if plan_id else "")
                + ". List them: longwatch executions list"
            )
        return record

    def _done(
        self,
        execution: Execution,
        result: Result,
        began: float,
        *,
        phase: ExecutionPhase | None = None,
        told: int = 0,
        problem: SourceProblem | None = None,
        retry_after_seconds: float | None = None,
    ) -> PollReport:
        polled = PollReport(
            execution=execution,
            result=result,
            phase=phase or phase_of(execution),
            seconds=self._clock.monotonic() - began,
            told=told,
            problem=problem,
            retry_after_seconds=retry_after_seconds,
        )
        if self._report is not None:
            self._report(polled)
        return polled


def _dated(told: SourceResult, store_ms: int | None) -> SourceResult:
    """The answer by the time of the store where its source has not dated it: pollers share that clock."""
    if not isinstance(told, SourceResponse) or told.is_dated or store_ms is None:
        return told
    polled_at = told.at if told.polled_at is None else told.polled_at
    return replace(told, at=observed_at(told.at, [store_ms]), polled_at=polled_at)


def _not_before(start: int, told: SourceResult) -> SourceResult:
    """The answer, dated no earlier than the start: the clock of a source may be behind that of the plan."""
    return replace(told, at=max(told.at, start)) if isinstance(told, SourceResponse) else told


def _is_same_lease(record: Execution, claimed: Execution) -> bool:
    """Whether nobody has claimed the execution since, ourselves included."""
    return (record.lease_holder, record.lease_until) == (claimed.lease_holder, claimed.lease_until)


def _events(before: Execution, after: Execution, told: SourceResponse) -> list[Event]:
    events = [start_event(before)] if before.last_answer_at is None else []
    events += transition_events(before, after, told.at)
    deadline = deadline_at(after)
    asked_before = (
        before.last_answer_at is not None and deadline is not None and before.last_answer_at >= deadline
    )
    if deadline is not None and told.at >= deadline and told.is_response and not asked_before:
        events.append(deadline_event(after, told.evidence, told.at))
    return events
