"""The durable queue: what rules have reported, the messages to send, dead letters and past deliveries.

Every step is one commit that requires the records to be unchanged, so a notifier that is killed between two
steps leaves nothing undone, and of several notifiers one does each step. Only sending is outside: a message
that was accepted right before a crash is sent again, with the same delivery id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from longwatch.clock import Clock
from longwatch.notifications.decisions import MAX_AGE_MS, Occurrence, OpenCondition
from longwatch.notifications.message import (
    MAX_LISTED,
    Notice,
    compose,
    redact_notice,
    state_text,
)
from longwatch.notifications.records import (
    DEAD,
    MAX_RUN_IDS,
    OPEN,
    QUEUE,
    RULE,
    SEEN,
    SENT,
    DeliveryState,
    Pending,
    QueuedMessage,
    RuleState,
    condition_value,
    delivery_key,
    occurrence_id,
    parse_condition,
)
from longwatch.notifications.rules import Rule
from longwatch.notifications.stores.base import MAX_CHANGES, NotificationStore, Record, RecordChange
from longwatch.recording.secret_names import SecretNames

MESSAGE_INTERVAL_MS = 60_000  # between two messages of a rule
GIVE_UP_MS = 24 * 3600 * 1000
LEASE_MS = 120_000  # longer than any channel takes
FIRST_RETRY_MS, LONGEST_RETRY_MS = 10_000, 30 * 60_000
DAY_MS = 24 * 3600 * 1000
SEEN_FOR_MS = MAX_AGE_MS + DAY_MS  # after that, `is_news` keeps it from being reported again
DEAD_FOR_MS, SENT_FOR_MS = 30 * DAY_MS, 7 * DAY_MS
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class StoredCondition:
    """A reported condition and its record."""

    record: Record
    condition: OpenCondition


def retry_at(attempts: int, now_ms: int, retry_after_seconds: float | None) -> int:
    """When to send again after so many failed attempts: later each time, and as the receiver requests."""
    delay: int = min(FIRST_RETRY_MS * 2 ** min(attempts - 1, 20), LONGEST_RETRY_MS)
    return now_ms + max(delay, round((retry_after_seconds or 0) * 1000))


class NotificationQueue:
    """The queue in one store, for one notifier."""

    def __init__(
        self,
        store: NotificationStore,
        clock: Clock,
        *,
        holder: str,
        page_url: str | None = None,
        names: SecretNames | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._page_url = page_url
        self._names = names or SecretNames()

    def state_of(self, rule: Rule, position: int | None) -> RuleState | None:
        """The state of a rule. One that is new or was changed starts now, at this position of the journal.

        None if another process was faster: read again.
        """
        record = self._store.get(RULE + rule.name)
        stored = None if record is None else RuleState.parse(record.value, record.version)
        if stored is not None and stored.fingerprint == rule.fingerprint:
            return stored
        now = self._clock.now_ms()
        fresh = RuleState(name=rule.name, fingerprint=rule.fingerprint, since=now, position=position)
        if stored is not None:  # what it reported before is still sent
            fresh = replace(
                stored, fingerprint=rule.fingerprint, since=now, position=position, version=stored.version
            )
        return self._save(fresh)

    def _save(self, state: RuleState, *others: RecordChange) -> RuleState | None:
        if not self._store.commit([RecordChange(state.key, state.to_value(), state.version), *others]):
            return None
        return replace(state, version=state.version + 1)

    def advance(self, state: RuleState, position: int | None) -> RuleState | None:
        """Store that the rule has handled the journal up to this position."""
        return state if state.position == position else self._save(replace(state, position=position))

    def report(self, rule: Rule, state: RuleState, found: Sequence[Occurrence]) -> RuleState | None:
        """Remember what has not been reported before, and add it to the next message of the rule.

        None if another process changed the rule: read its state and report again.
        """
        current: RuleState | None = state
        fresh = [each for each in found if not self._is_known(rule, each)]
        for begin in range(0, len(fresh), MAX_CHANGES - 1):
            if current is None:
                return None
            batch = fresh[begin : begin + MAX_CHANGES - 1]
            changed = replace(current, pending=self._with(current.pending, [each.notice for each in batch]))
            current = self._save(changed, *(self._remember(rule, each) for each in batch))
        return current

    def _is_known(self, rule: Rule, occurrence: Occurrence) -> bool:
        key = occurrence_id(rule.name, rule.fingerprint, occurrence.notice.run_id, occurrence.key)
        return self._store.get(SEEN + key) is not None or self._store.get(OPEN + key) is not None

    def _remember(self, rule: Rule, occurrence: Occurrence) -> RecordChange:
        notice = occurrence.notice
        key = occurrence_id(rule.name, rule.fingerprint, notice.run_id, occurrence.key)
        if occurrence.began_at is None or not rule.resolves:
            return RecordChange(SEEN + key, self._seen())
        condition = OpenCondition(
            rule=rule.name,
            run_id=notice.run_id,
            run_name=notice.run_name,
            trigger=notice.trigger,
            key=occurrence.key,
            began_at=occurrence.began_at,
        )
        return RecordChange(OPEN + key, condition_value(condition))

    def _seen(self) -> dict[str, int]:
        return {"expires_at": self._clock.now_ms() + SEEN_FOR_MS}

    def _with(self, pending: Pending, notices: Sequence[Notice]) -> Pending:
        states = dict(pending.states)
        for each in notices:
            states[state_text(each)] = states.get(state_text(each), 0) + 1
        listed = [redact_notice(each, self._names) for each in notices[:MAX_LISTED]]
        run_ids = dict.fromkeys((*pending.run_ids, *(each.run_id for each in notices)))
        return Pending(
            notices=(*pending.notices, *listed)[:MAX_LISTED],
            states=states,
            run_ids=tuple(run_ids)[:MAX_RUN_IDS],
        )

    def conditions(self, rule: Rule) -> Iterator[StoredCondition]:
        """The conditions that the rule has reported and that are not resolved."""
        for record in self._all(f"{OPEN}{rule.name}#"):
            yield StoredCondition(record, parse_condition(record.value))

    def resolve(
        self, state: RuleState, resolved: Sequence[tuple[StoredCondition, Notice | None]]
    ) -> RuleState | None:
        """Close these conditions. Those with a notice are reported in the next message of the rule."""
        current: RuleState | None = state
        at_once = (MAX_CHANGES - 1) // 2
        for begin in range(0, len(resolved), at_once):
            if current is None:
                return None
            batch = resolved[begin : begin + at_once]
            changes: list[RecordChange] = []
            for stored, _ in batch:
                record = stored.record
                changes.append(RecordChange(record.key, None, record.version))
                changes.append(RecordChange(SEEN + record.key.removeprefix(OPEN), self._seen()))
            notices = [notice for _, notice in batch if notice is not None]
            current = self._save(replace(current, pending=self._with(current.pending, notices)), *changes)
        return current

    def seal(self, state: RuleState, channel: str) -> RuleState | None:
        """Put the notices of a rule into the queue as one message, at most once a minute."""
        now, pending = self._clock.now_ms(), state.pending
        if not pending.notices or now < state.next_message_at:
            return state
        sequence = state.sequence + 1
        digest = sha256(f"{state.name}\0{state.fingerprint}\0{state.since}\0{sequence}".encode())
        message = compose(
            f"msg_{digest.hexdigest()[:24]}",
            state.name,
            pending.notices,
            states=pending.states,
            page_url=self._page_url,
            names=self._names,
        )
        delivery = QueuedMessage(
            message=message, channel=channel, run_ids=pending.run_ids, created_at=now, next_at=now
        )
        sealed = replace(
            state, pending=Pending(), sequence=sequence, next_message_at=now + MESSAGE_INTERVAL_MS
        )
        return self._save(sealed, RecordChange(delivery_key(QUEUE, delivery), delivery.to_value()))

    def queued(self) -> Iterator[QueuedMessage]:
        """Every message that is not settled."""
        for record in self._all(QUEUE):
            yield _delivery(record)

    def is_due(self, delivery: QueuedMessage) -> bool:
        """Whether this notifier may work on it now."""
        now = self._clock.now_ms()
        is_free = delivery.lease_holder in (None, self._holder) or delivery.lease_until <= now
        return is_free and delivery.next_at <= now

    def claim(self, delivery: QueuedMessage) -> QueuedMessage | None:
        """Lease a message; None if another notifier was faster."""
        until = self._clock.now_ms() + LEASE_MS
        return self._update(replace(delivery, lease_holder=self._holder, lease_until=until))

    def _update(self, delivery: QueuedMessage) -> QueuedMessage | None:
        if not self._store.commit([RecordChange(delivery.key, delivery.to_value(), delivery.version)]):
            return None
        return replace(delivery, version=delivery.version + 1)

    def accepted(self, delivery: QueuedMessage, response: str) -> QueuedMessage | None:
        """Store that the receiver accepted it: it is not sent again."""
        return self._update(
            replace(
                delivery,
                state=DeliveryState.ACCEPTED,
                attempts=delivery.attempts + 1,
                response=response,
                problem=None,
                settled_at=self._clock.now_ms(),
            )
        )

    def failed(
        self,
        delivery: QueuedMessage,
        problem: str,
        *,
        is_retryable: bool,
        retry_after_seconds: float | None = None,
    ) -> QueuedMessage | None:
        """Store a failed attempt: it is sent again later, or given up after a day."""
        now, attempts = self._clock.now_ms(), delivery.attempts + 1
        next_at = retry_at(attempts, now, retry_after_seconds)
        is_dead = not is_retryable or next_at > delivery.created_at + GIVE_UP_MS
        return self._update(
            replace(
                delivery,
                state=DeliveryState.DEAD if is_dead else DeliveryState.QUEUED,
                attempts=attempts,
                problem=problem,
                next_at=now if is_dead else next_at,
                lease_holder=self._holder if is_dead else None,
                lease_until=delivery.lease_until if is_dead else 0,
                settled_at=now if is_dead else None,
            )
        )

    def finish(self, delivery: QueuedMessage) -> bool:
        """Move a settled message to the past deliveries, or to the dead letters."""
        is_dead = delivery.state is DeliveryState.DEAD
        settled = delivery if is_dead else replace(delivery, state=DeliveryState.DELIVERED)
        key = delivery_key(DEAD if is_dead else SENT, delivery)
        return self._store.commit(
            [RecordChange(delivery.key, None, delivery.version), RecordChange(key, settled.to_value())]
        )

    def dead_letters(self, limit: int) -> list[QueuedMessage]:
        """The messages that were given up, the latest first."""
        return [_delivery(each) for each in self._store.list(DEAD, limit=limit, newest=True)]

    def deliveries(self, limit: int) -> list[QueuedMessage]:
        """The messages that were accepted, the latest first."""
        return [_delivery(each) for each in self._store.list(SENT, limit=limit, newest=True)]

    def revive(self, dead: QueuedMessage) -> bool:
        """Put a dead letter into the queue again, for another day."""
        now = self._clock.now_ms()
        fresh = replace(
            dead,
            state=DeliveryState.QUEUED,
            created_at=now,
            next_at=now,
            attempts=0,
            lease_holder=None,
            lease_until=0,
            settled_at=None,
        )
        return self._store.commit(
            [
                RecordChange(dead.key, None, dead.version),
                RecordChange(delivery_key(QUEUE, fresh), fresh.to_value()),
            ]
        )

    def rule_states(self) -> list[RuleState]:
        """The state of every rule that has ever run."""
        return [RuleState.parse(each.value, each.version) for each in self._all(RULE)]

    def prune(self) -> None:
        """Delete what is no longer needed: what can no longer be reported again, and old deliveries."""
        now = self._clock.now_ms()
        for record in self._all(SEEN):
            if record.value["expires_at"] < now:
                self._store.commit([RecordChange(record.key, None, record.version)])
        for kind, lasts in ((DEAD, DEAD_FOR_MS), (SENT, SENT_FOR_MS)):
            for record in self._all(kind):
                if (record.value["settled_at"] or 0) + lasts >= now:
                    break  # they are ordered by time
                self._store.commit([RecordChange(record.key, None, record.version)])

    def _all(self, prefix: str) -> Iterator[Record]:
        after = ""
        while page := self._store.list(prefix, limit=PAGE, after=after):
            yield from page
            after = page[-1].key


def _delivery(record: Record) -> QueuedMessage:
    return QueuedMessage.parse(record.value, record.version, record.key)
