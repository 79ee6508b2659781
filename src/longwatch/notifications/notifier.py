"""The notifier: checks the rules, puts messages into the queue and sends what is due.

`run_once` is one pass. It may be killed at any point and run by several processes at once: what it has not
finished, the next pass does. Nothing that fails for one rule or one message stops the others.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TypeVar

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict, JournalBusy, LongwatchError, RunDeleted
from longwatch.executions.model import Execution
from longwatch.executions.stores.base import ExecutionStore
from longwatch.following.observation import Observer, heartbeats_of
from longwatch.journal.base import Arrivals, Journal
from longwatch.model.event import Event
from longwatch.model.run import RunSummary
from longwatch.model.run_query import RunQuery
from longwatch.notifications.changed_runs import (
    LOOK_BACK_MS,
    last_position,
    open_runs,
    read_changed,
    recent_runs,
)
from longwatch.notifications.channels.base import Channel, ChannelContext, ChannelKind, DeliveryError
from longwatch.notifications.decisions import (
    MAX_AGE_MS,
    ObservedState,
    Occurrence,
    condition_occurrences,
    ending_occurrences,
    execution_occurrences,
    execution_resolution,
    run_resolution,
)
from longwatch.notifications.message import Notice
from longwatch.notifications.queue import GIVE_UP_MS, NotificationQueue, StoredCondition, retry_at
from longwatch.notifications.records import DeliveryState, QueuedMessage, RuleState
from longwatch.notifications.rules import CONDITIONS, Rule, Trigger
from longwatch.notifications.stores.base import NotificationStore
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import lifetime_seconds

T = TypeVar("T")

NOTIFIED = "notified"
CONDITION_SECONDS = 15.0  # between two checks of the open runs
PRUNE_SECONDS = 3600.0
WIDE_SECONDS = 600.0  # between two lists of all recent runs, of a journal that numbers no arrivals
OBSERVED_AT_ONCE = 200
MAX_PAUSE_MS = 60_000  # of a rule after a failed attempt
ATTEMPTS = 5  # of a step while other notifiers change the same rule

log = logging.getLogger("longwatch.notifications")

_NEEDS_OPEN_RUNS = frozenset({*CONDITIONS, Trigger.DIED, Trigger.ENDED})


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did."""

    delivered: int = 0
    failed: int = 0  # given up
    queued: int = 0  # left for a later pass


class Notifier:
    """Applies rules to one journal, and sends their messages.

    A message of a rule that only another notifier of the store has is left to that one.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        journal: Journal,
        store: NotificationStore,
        *,
        kinds: Mapping[str, ChannelKind],
        context: ChannelContext,
        executions: ExecutionStore | None = None,
        observer: Observer | None = None,
        clock: Clock = SYSTEM_CLOCK,
        holder: str | None = None,
    ) -> None:
        settings = context.settings
        self._rules = {rule.name: rule for rule in rules}
        self._journal = journal
        self._executions = executions
        self._observer = observer or Observer(journal, clock=clock)
        self._kinds = kinds
        self._context = context
        self._clock = clock
        self._ttl_seconds = lifetime_seconds(settings.ttl_hours, journal.default_ttl_seconds)
        self._channels: dict[str, Channel] = {}
        self.queue = NotificationQueue(
            store,
            clock,
            holder=holder or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            page_url=settings.page_url,
            names=SecretNames(settings.redact_keys),
        )
        self._next: dict[str, float] = {}  # when the slower parts are due, in monotonic seconds
        self._logged: set[str] = set()
        self._pauses: dict[str, tuple[int, int]] = {}  # rule -> failures in a row, and until when, epoch ms

    def run_once(self) -> PassReport:
        """Check every rule once, and send what is due."""
        if self._rules:
            self._guarded("the journal cannot be checked", self._check_endings)
            if self._is_time("conditions", CONDITION_SECONDS):
                self._guarded("open runs cannot be checked", self._check_open_runs)
                self._guarded("executions cannot be checked", self._check_executions)
                self._guarded("conditions cannot be checked", self._check_conditions)
            for rule in self._rules.values():
                self._guarded(f"rule {rule.name}", partial(self._seal, rule))
        report = self._send_due()
        if self._is_time("prune", PRUNE_SECONDS):
            self._guarded("old notifications cannot be deleted", self.queue.prune)
        return report

    def _is_time(self, part: str, every_seconds: float) -> bool:
        now = self._clock.monotonic()
        if now < self._next.get(part, now):
            return False
        self._next[part] = now + every_seconds
        return True

    def _guarded(self, what: str, step: Callable[[], T]) -> T | None:
        """Do a step; a failure is logged once while it lasts, and the next pass tries again."""
        try:
            done = step()
        except LongwatchError as error:
            problem = f"{what}, trying again: {error}"
            if problem not in self._logged:
                log.warning("%s", problem)
            self._logged.add(problem)
            return None
        self._logged = {each for each in self._logged if not each.startswith(what)}
        return done

    # What rules react to

    def _states(self) -> Iterator[tuple[Rule, RuleState]]:
        position = last_position(self._journal)
        for rule in self._rules.values():
            for _ in range(ATTEMPTS):
                state = self.queue.state_of(rule, position)
                if state is not None:
                    yield rule, state
                    break

    def _report(self, rule: Rule, found: Iterable[Occurrence]) -> None:
        occurrences = list({(each.notice.run_id, each.key): each for each in found}.values())
        if not occurrences:
            return
        for _ in range(ATTEMPTS):
            state = self.queue.state_of(rule, last_position(self._journal))
            if state is not None and self.queue.report(rule, state, occurrences) is not None:
                return
        raise JournalBusy(f"Other notifiers change rule {rule.name!r}.")

    def _check_endings(self) -> None:
        states = list(self._states())
        if not isinstance(self._journal, Arrivals):
            self._check_recent(states)
            return
        start = min((state.position or 0 for _, state in states), default=0)
        more = bool(states)
        while more:
            changed = read_changed(self._journal, start)
            runs = [run for each in changed.run_ids if (run := self._journal.find_run(each)) is not None]
            self._report_endings(states, runs)
            states = [(rule, self._advance(rule, changed.position)) for rule, _ in states]
            start, more = changed.position, changed.more

    def _advance(self, rule: Rule, position: int) -> RuleState:
        last = last_position(self._journal) or 0
        for _ in range(ATTEMPTS):
            state = self.queue.state_of(rule, position)
            if state is not None and not position < (state.position or 0) <= last:  # another was faster
                state = self.queue.advance(state, position)
            if state is not None:
                return state
        raise JournalBusy(f"Other notifiers change rule {rule.name!r}.")

    def _check_recent(self, states: Sequence[tuple[Rule, RuleState]]) -> None:
        look_back = MAX_AGE_MS if self._is_time("wide", WIDE_SECONDS) else LOOK_BACK_MS
        since = max(0, self._clock.now_ms() - look_back)
        for runs in _batches(recent_runs(self._journal, since)):
            self._report_endings(states, runs)

    def _report_endings(self, states: Sequence[tuple[Rule, RuleState]], runs: Sequence[RunSummary]) -> None:
        now = self._clock.now_ms()
        for rule, state in states:
            query = rule.query(now)
            found = [
                each
                for run in runs
                if query.accepts(run)
                for each in ending_occurrences(rule, run, since=state.since, now_ms=now)
            ]
            self._report(rule, found)

    def _check_open_runs(self) -> None:
        states = [(rule, state) for rule, state in self._states() if _NEEDS_OPEN_RUNS & set(rule.triggers)]
        if not states:
            return
        now = self._clock.now_ms()
        queries = {rule.name: rule.query(now) for rule, _ in states}
        for runs in _batches(open_runs(self._journal, self._clock)):
            observed = [ObservedState(each.run, each.conditions) for each in self._observer.observed(runs)]
            for rule, state in states:
                found = list(_of_observed(rule, state, observed, queries[rule.name], now))
                self._report(rule, found)

    def _check_executions(self) -> None:
        wanted = {Trigger.OVERDUE, Trigger.SILENT}
        states = [(rule, state) for rule, state in self._states() if wanted & set(rule.triggers)]
        if self._executions is None or not states:
            return
        now = self._clock.now_ms()
        for execution in self._executions.open_executions():
            run = self._journal.find_run(execution.run_id)
            for rule, state in states:
                if run is None or rule.query(now).accepts(run):
                    found = execution_occurrences(rule, execution, since=state.since, now_ms=now)
                    self._report(rule, found)

    def _check_conditions(self) -> None:
        """Resolve the reported conditions that no longer hold."""
        found = () if self._executions is None else self._executions.open_executions()
        executions = {each.run_id: each for each in found}
        for rule in self._rules.values():
            stored = list(self.queue.conditions(rule))
            resolved = [pair for each in stored if (pair := self._resolution(each, executions)) is not None]
            for _ in range(ATTEMPTS if resolved else 0):
                state = self.queue.state_of(rule, last_position(self._journal))
                if state is not None and self.queue.resolve(state, resolved) is not None:
                    break

    def _resolution(
        self, stored: StoredCondition, executions: Mapping[str, Execution]
    ) -> tuple[StoredCondition, Notice | None] | None:
        condition, now = stored.condition, self._clock.now_ms()
        run = self._journal.find_run(condition.run_id)
        execution = executions.get(condition.run_id)
        if execution is not None:
            notice = execution_resolution(condition, execution, now_ms=now)
        elif run is None:
            return stored, None  # it was deleted, or has expired
        else:
            alive_at = self._alive_at(run) if condition.trigger is Trigger.NO_HEARTBEAT else None
            observed = self._observer.observed([run])[0].run
            notice = run_resolution(condition, observed, alive_at=alive_at, now_ms=now)
        return None if notice is None else (stored, notice)

    def _alive_at(self, run: RunSummary) -> int | None:
        processes = [each.process.id for each in run.lifecycle.current.members]
        return max(heartbeats_of(self._journal, processes).values(), default=None)

    # Messages

    def _seal(self, rule: Rule) -> None:
        for _ in range(ATTEMPTS):
            state = self.queue.state_of(rule, last_position(self._journal))
            if state is not None and self.queue.seal(state, rule.channel) is not None:
                return

    def _send_due(self) -> PassReport:
        settled: Counter[DeliveryState | None] = Counter()
        queued = self._guarded("the queue of notifications cannot be read", lambda: list(self.queue.queued()))
        for delivery in sorted(queued or (), key=lambda each: each.created_at):
            what = f"message {delivery.delivery_id} cannot be settled"
            settled[self._guarded(what, partial(self._handle, delivery))] += 1
        return PassReport(
            delivered=settled[DeliveryState.DELIVERED],
            failed=settled[DeliveryState.DEAD],
            queued=settled[None],
        )

    def _handle(self, delivery: QueuedMessage) -> DeliveryState | None:
        """Work on one message if it is due; how it was settled, if it is."""
        rule = self._rules.get(delivery.message.rule)
        is_orphan = self._clock.now_ms() > delivery.created_at + GIVE_UP_MS
        if (rule is None and not is_orphan) or not self.queue.is_due(delivery):
            return None
        is_queued = delivery.state is DeliveryState.QUEUED
        if is_queued and self._clock.now_ms() < self._pauses.get(delivery.message.rule, (0, 0))[1]:
            return None
        current = self.queue.claim(delivery)
        if current is not None and current.state is DeliveryState.QUEUED:
            current = self._send(current, rule)
            self._pause(current)
        if current is None or current.state is DeliveryState.QUEUED:
            return None  # another notifier has it, or it is sent again later
        self._record(current)
        if not self.queue.finish(current):
            return None
        return current.state if current.state is DeliveryState.DEAD else DeliveryState.DELIVERED

    def _pause(self, delivery: QueuedMessage | None) -> None:
        """Leave a receiver that fails alone for a while, or its messages would delay those of other rules."""
        if delivery is None:
            return
        rule = delivery.message.rule
        if delivery.state is not DeliveryState.QUEUED:
            self._pauses.pop(rule, None)
            return
        failures = self._pauses.get(rule, (0, 0))[0] + 1
        pause_ms = min(retry_at(failures, 0, None), MAX_PAUSE_MS)
        self._pauses[rule] = failures, self._clock.now_ms() + pause_ms

    def _send(self, delivery: QueuedMessage, rule: Rule | None) -> QueuedMessage | None:
        if rule is None:
            problem = f"Rule {delivery.message.rule!r} is not in the settings any more"
            return self.queue.failed(delivery, problem, is_retryable=False)
        try:
            receipt = self.channel(rule).send(delivery.message)
        except DeliveryError as error:
            log.warning("rule %s could not send %s: %s", rule.name, delivery.delivery_id, error)
            return self.queue.failed(
                delivery,
                str(error),
                is_retryable=error.is_retryable,
                retry_after_seconds=error.retry_after_seconds,
            )
        except Exception as error:
            log.exception("channel %s of rule %s failed", rule.channel, rule.name)
            return self.queue.failed(delivery, f"{type(error).__name__}: {error}", is_retryable=True)
        return self.queue.accepted(delivery, receipt.status)

    def channel(self, rule: Rule) -> Channel:
        """The channel of a rule, opened on first use."""
        if rule.name not in self._channels:
            self._channels[rule.name] = self._kinds[rule.channel].open(rule.options, self._context)
        return self._channels[rule.name]

    def _record(self, delivery: QueuedMessage) -> None:
        """Append the event `notified` to the journal of each run, once whatever happens."""
        for run_id in delivery.run_ids:
            event = notified_event(delivery, run_id, ttl_seconds=self._ttl_seconds)
            try:
                self._journal.append([event])
            except (EventConflict, RunDeleted):
                continue  # it is stored, or nobody can read it


def notified_event(delivery: QueuedMessage, run_id: str, *, ttl_seconds: int | None = None) -> Event:
    """That a message about this run was accepted or given up: the same event from every notifier."""
    message, at = delivery.message, delivery.settled_at or delivery.created_at
    digest = sha256(f"{message.delivery_id}\0{delivery.created_at}\0{run_id}".encode(errors="replace"))
    notice = next((each for each in message.notices if each.run_id == run_id), message.notices[0])
    payload: dict[str, object] = {
        "rule": message.rule,
        "channel": delivery.channel,
        "trigger": notice.trigger.value,
        "is_resolved": notice.is_resolved,
        "delivery_id": message.delivery_id,
        "delivered": delivery.state is not DeliveryState.DEAD,
        "response": delivery.response or delivery.problem,
        "attempts": delivery.attempts,
    }
    if message.count > 1:
        payload["count"] = message.count
    return Event(
        run_id=run_id,
        event_id=f"notified-{digest.hexdigest()[:32]}",
        type=NOTIFIED,
        occurred_at=at,
        payload=payload,
        ttl=None if ttl_seconds is None else at // 1000 + ttl_seconds,
    )


def _of_observed(
    rule: Rule, state: RuleState, observed: Sequence[ObservedState], query: RunQuery, now_ms: int
) -> Iterator[Occurrence]:
    for each in observed:
        if not query.accepts(each.run):
            continue
        yield from ending_occurrences(rule, each.run, since=state.since, now_ms=now_ms)
        yield from condition_occurrences(rule, each, since=state.since, now_ms=now_ms)


def _batches(runs: Iterable[RunSummary]) -> Iterator[list[RunSummary]]:
    batch: list[RunSummary] = []
    for run in runs:
        batch.append(run)
        if len(batch) == OBSERVED_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
