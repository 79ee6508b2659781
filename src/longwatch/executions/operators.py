"""Decisions of operators about executions: close one, stop watching it, add a wave, set the wave count.

An operator takes the lease of the execution even from a poller, and the version of the record decides: what
that poller writes afterwards is refused. The decision goes into the journal with its reason while the lease
is held, then into the record. A verdict goes into the record first, as a poller's does: if the operator's
process dies in between, the next poller appends the same event and closes the execution.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import ExecutionNotFound, InvalidInput, VersionConflict
from longwatch.executions.model import OPERATOR_CLOSED, OPERATOR_STOPPED, Evidence, Execution, Stage, Verdict
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.transitions import (
    append_new,
    end_event,
    stage_added_event,
    stage_count_event,
    start_event,
)
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.model.summary import Status
from longwatch.settings import lifetime_seconds

OUTCOMES = (Status.SUCCEEDED, Status.PARTIAL, Status.FAILED, Status.CANCELLED, Status.UNKNOWN)
LEASE_MS = 30_000  # longer than two writes take
TRIES = 20  # to get hold of a record that others write to
MAX_REASON_CHARACTERS = 1_000
MAX_NAME_CHARACTERS = 200
MAX_STAGES = 10_000


@dataclass(frozen=True, slots=True)
class Statement:
    """Who decides, and why."""

    operator: str
    reason: str

    def __post_init__(self) -> None:
        for name, text, most in (
            ("operator", self.operator, MAX_NAME_CHARACTERS),
            ("reason", self.reason, MAX_REASON_CHARACTERS),
        ):
            if not text.strip():
                raise InvalidInput(f"The {name} is empty. State it with --{name}.")
            if len(text) > most:
                raise InvalidInput(f"The {name} has {len(text)} characters. Use at most {most}.")

    @property
    def fields(self) -> dict[str, object]:
        return {"operator": self.operator, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Decision:
    """What a decision does to a record: while it is journaled, its events, and what remains in the end."""

    claimed: Execution
    events: tuple[Event, ...]
    settled: Callable[[Execution], Execution]


Decide = Callable[[Execution, int], Decision]  # of the record as it is, and the time of the decision


def close_decision(execution: Execution, status: Status, statement: Statement, at: int) -> Decision:
    """Close the execution as the operator says. A verdict that was given before is corrected."""
    if status not in OUTCOMES:
        raise InvalidInput(f"An execution cannot end as {status}. Use one of {', '.join(OUTCOMES)}.")
    return _ending(execution, status, OPERATOR_CLOSED, f"closed by {statement.operator}", statement, at)


def stop_decision(execution: Execution, statement: Statement, at: int) -> Decision:
    """Stop watching an open execution. Its outcome is unknown."""
    _require_open(execution)
    what = f"watching stopped by {statement.operator}"
    return _ending(execution, Status.UNKNOWN, OPERATOR_STOPPED, what, statement, at)


def add_stage_decision(execution: Execution, wave: Stage, statement: Statement, at: int) -> Decision:
    """Add a stage to an open execution. A stage count that it would exceed grows with it."""
    after = _add_stage(execution, wave)
    return Decision(
        execution, (stage_added_event(after, wave, statement.fields, at),), lambda now: _add_stage(now, wave)
    )


def stage_count_decision(execution: Execution, count: int, statement: Statement, at: int) -> Decision:
    """State how many stages an open execution has."""
    after = _set_stage_count(execution, count)
    event = stage_count_event(after, execution.total_stages, statement.fields, at)
    return Decision(execution, (event,), lambda now: _set_stage_count(now, count))


class Operator:
    """Applies the decisions of one operator to executions in a store, and journals each with its reason."""

    def __init__(
        self,
        store: ExecutionStore,
        journal: Journal,
        *,
        clock: Clock = SYSTEM_CLOCK,
        ttl_hours: float | None = None,
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._ttl_hours = ttl_hours

    def close(self, execution: Execution, status: Status, statement: Statement) -> Execution:
        """State how it ended. The verdict names the operator, and no response of a source corrects it."""
        return self._apply(execution, lambda record, at: close_decision(record, status, statement, at))

    def stop_watching(self, execution: Execution, statement: Statement) -> Execution:
        """End the polling without an outcome."""
        return self._apply(execution, lambda record, at: stop_decision(record, statement, at))

    def add_stage(self, execution: Execution, wave: Stage, statement: Statement) -> Execution:
        """Add a stage whose jobs are running, or will be."""
        return self._apply(execution, lambda record, at: add_stage_decision(record, wave, statement, at))

    def set_stage_count(self, execution: Execution, count: int, statement: Statement) -> Execution:
        """State how many stages it has, which decides when it ends."""
        return self._apply(execution, lambda record, at: stage_count_decision(record, count, statement, at))

    def _apply(self, execution: Execution, decide: Decide) -> Execution:
        holder = f"operator-{secrets.token_hex(4)}"
        record, decision = self._claim(execution, decide, holder)
        first = [] if record.last_answer_at is not None else [start_event(record)]
        lives = lifetime_seconds(self._ttl_hours, self._journal.default_ttl_seconds)
        append_new(self._journal, [*first, *decision.events], ttl_seconds=lives)
        return self._settle(record, decision, holder)

    def _claim(self, execution: Execution, decide: Decide, holder: str) -> tuple[Execution, Decision]:
        """Decide about the current record, and take its lease even from a poller."""
        for _ in range(TRIES):
            record = self._read(execution)
            decision = decide(record, _after_everything(record, self._clock.now_ms()))
            until = self._clock.now_ms() + LEASE_MS
            try:
                leased = replace(decision.claimed, lease_holder=holder, lease_until=until)
                return self._store.update(leased), decision
            except VersionConflict:
                continue
        raise VersionConflict(execution.execution_id, execution.version)

    def _settle(self, record: Execution, decision: Decision, holder: str) -> Execution:
        """Write the decision into the record, also if another program writes to other parts of it."""
        for _ in range(TRIES):
            try:
                return self._store.update(
                    replace(decision.settled(record), lease_holder=None, lease_until=None)
                )
            except VersionConflict:
                record = self._read(record)
                if record.lease_holder != holder or record.verdict != decision.claimed.verdict:
                    break
        if record.closed and record.verdict == decision.claimed.verdict:
            return record  # a poller found the verdict and closed it first
        raise VersionConflict(record.execution_id, record.version)

    def _read(self, execution: Execution) -> Execution:
        record = self._store.get(execution.execution_id, execution.plan_id)
        if record is None:
            raise ExecutionNotFound(
                f"Execution {execution.execution_id!r} of plan {execution.plan_id!r} no longer exists. "
                "List executions with: longwatch executions list"
            )
        return record


def _ending(
    execution: Execution, status: Status, call: str, what: str, statement: Statement, at: int
) -> Decision:
    given = execution.verdict
    verdict = Verdict(
        status=status,
        at=at,
        evidence=(Evidence(call, at, statement.fields),),
        message=f"{what}: {statement.reason}",
        corrects=given.status if given else None,
    )
    # A verdict in the record may not be in the journal yet: it comes first, and this one corrects it.
    earlier = () if given is None else (end_event(execution, given),)
    # Open until it is journaled, also if it was closed: pollers search for pending work among open ones.
    claimed = replace(execution, verdict=verdict, closed=False, recheck_at=None)
    return Decision(claimed, (*earlier, end_event(claimed, verdict)), lambda now: replace(now, closed=True))


def _add_stage(execution: Execution, wave: Stage) -> Execution:
    _require_open(execution)
    if wave.name in {each.name for each in execution.stages}:
        raise InvalidInput(
            f"Execution {execution.execution_id} already has a wave {wave.name!r}. Use another name."
        )
    used = sorted(set(execution.job_ids()) & {job.job_id for job in wave.jobs})
    if used:
        raise InvalidInput(
            f"Execution {execution.execution_id} already has {', '.join(used)} in another wave."
        )
    total, stages = execution.total_stages, (*execution.stages, wave)
    return replace(execution, stages=stages, total_stages=None if total is None else max(total, len(stages)))


def _set_stage_count(execution: Execution, count: int) -> Execution:
    _require_open(execution)
    stored = len(execution.stages)
    if count < max(1, stored):
        raise InvalidInput(
            f"Invalid wave count {count}: execution {execution.execution_id} has {stored} stored waves. "
            f"Use {max(1, stored)} or more."
        )
    if count > MAX_STAGES:
        raise InvalidInput(f"Invalid wave count {count}. Use at most {MAX_STAGES:,}.")
    return replace(execution, total_stages=count)


def _require_open(execution: Execution) -> None:
    if execution.closed and execution.verdict is None:
        raise InvalidInput(
            f"Execution {execution.execution_id} is not polled: another program keeps it under the status "
            f"{execution.other_status}. To state its outcome, use: longwatch executions close"
        )
    if not execution.is_open:
        raise InvalidInput(
            f"Execution {execution.execution_id} is not open ({execution.status}). To correct its outcome, "
            "use: longwatch executions close"
        )


def _after_everything(execution: Execution, now_ms: int) -> int:
    """The time of a decision: later than all that the record has, though another clock may be ahead."""
    known = (execution.last_answer_at, execution.verdict.at if execution.verdict else None)
    return max(now_ms, *(0 if each is None else each + 1 for each in known))
