"""Verifies by numbers and digests that every event of a run is stored as its producer wrote it.

A producer numbers its events from 1, each contains the digest of the previous one, and the last one states
the count. So a lost event can be named, and the successor of a changed one contradicts it. An event that
cannot be decoded counts as altered. This detects damage, not an adversary who rewrites the whole chain, and
it cannot detect a change of the last event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from longwatch.clock import iso_from_ms
from longwatch.journal.codec import digest
from longwatch.journal.deletions import Tombstone
from longwatch.model.event import UNREADABLE, Event, number_of
from longwatch.model.numbering import NumberSet


class Completeness(StrEnum):
    """The result of a verification, most severe last."""

    COMPLETE = "complete"
    OPEN = "open"
    EXPIRED = "expired"
    DELETED = "deleted"
    MISSING = "missing"
    ALTERED = "altered"

    @property
    def is_damage(self) -> bool:
        """Whether events are missing or altered, instead of not yet written, expired or deleted."""
        return self in (Completeness.MISSING, Completeness.ALTERED)


_SEVERITY = {answer: rank for rank, answer in enumerate(Completeness)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerVerification:
    """The verification of one producer's events."""

    producer: str
    events: int
    stated: int | None  # the count of a producer that has closed
    missing: tuple[tuple[int, int], ...] = ()
    altered: NumberSet = field(default_factory=NumberSet)
    unreadable: NumberSet = field(default_factory=NumberSet)  # the altered ones that cannot be decoded
    expired_up_to: int = 0  # the numbers 1 to this expired
    expired_before: int | None = None  # epoch ms

    @property
    def answer(self) -> Completeness:
        if self.altered:
            return Completeness.ALTERED
        if self.missing:
            return Completeness.MISSING
        if self.expired_up_to:
            return Completeness.EXPIRED
        return Completeness.COMPLETE if self.stated is not None else Completeness.OPEN

    def sentences(self) -> Iterator[str]:
        """The findings, most severe first."""
        if self.altered:
            yield f"altered at {_spans(self.altered.ranges)} of producer {self.producer}"
        if self.unreadable:
            yield f"unreadable: {_spans(self.unreadable.ranges)} of producer {self.producer}"
        if self.missing:
            yield f"missing {_spans(self.missing)} of producer {self.producer}"
        if self.expired_up_to and self.expired_before is not None:
            yield (
                f"expired before {iso_from_ms(self.expired_before)}: "
                f"{_spans(((1, self.expired_up_to),))} of producer {self.producer}"
            )
        if not self.answer.is_damage:
            state = "open" if self.stated is None else "complete"
            still = " since then" if self.expired_up_to else ""
            yield (
                f"{state}{still}: {self.events} {'event' if self.events == 1 else 'events'} of producer "
                f"{self.producer}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verification of a run."""

    producers: tuple[ProducerVerification, ...]
    unnumbered: int  # events of other producers, which cannot be verified
    unreadable: tuple[int | str, ...] = ()  # positions of events of which not even the number can be decoded
    uncounted: int = 0  # events in the journal's count that are neither stored nor numbered
    expired_before: int | None = None  # epoch ms; older events were deleted
    tombstone: Tombstone | None = None  # the whole run was deleted

    @classmethod
    def of_deleted(cls, tombstone: Tombstone) -> Verification:
        """The verification of a run that was deleted."""
        return cls(producers=(), unnumbered=0, tombstone=tombstone)

    @property
    def answer(self) -> Completeness:
        """The most severe result of all producers; open without any producer."""
        if self.tombstone is not None:
            return Completeness.DELETED
        answers = [each.answer for each in self.producers]
        if self.expired_before is not None:
            answers.append(Completeness.EXPIRED)
        if self.uncounted:
            answers.append(Completeness.MISSING)
        if self.unreadable:
            answers.append(Completeness.ALTERED)
        return max(answers, key=_SEVERITY.__getitem__, default=Completeness.OPEN)


class Verifier:
    """Verifies a run's events one by one, each once and in any order.

    Digests are stored only at the edges of gaps, so memory grows with the number of gaps and not with the
    run.
    """

    def __init__(self) -> None:
        self._chains: dict[str, _Chain] = {}
        self._unnumbered = 0
        self._unreadable: list[int | str] = []
        self._events = 0
        self._may_expire = False

    def add(self, event: Event) -> None:
        """Add an event of the run."""
        self._events += 1
        self._may_expire = self._may_expire or event.ttl is not None
        if event.producer is None or event.number is None:
            if event.type == UNREADABLE:
                self._unreadable.append(_position(event))
            else:
                self._unnumbered += 1
            return
        chain = self._chains.get(event.producer)
        if chain is None:
            chain = self._chains[event.producer] = _Chain()
        chain.add(event, event.number)

    def report(
        self,
        now_ms: int,
        *,
        started_at: int | None = None,
        expired_before: int | None = None,
        counted: int | None = None,
    ) -> Verification:
        """The result so far. `started_at` determines whether the first events can have expired.

        `counted` is the number of stored events according to the journal, if it has an exact count.
        """
        is_comparable = counted is not None and not self._may_expire and expired_before is None
        producers = tuple(
            chain.verification(name, now_ms=now_ms, started_at=started_at, expired_before=expired_before)
            for name, chain in sorted(self._chains.items())
        )
        named = sum(high - low + 1 for each in producers for low, high in each.missing)
        return Verification(
            producers=producers,
            unnumbered=self._unnumbered,
            unreadable=tuple(self._unreadable),
            uncounted=max(0, (counted or 0) - self._events - named) if is_comparable else 0,
            expired_before=expired_before,
        )


class _Chain:
    """One producer's events."""

    def __init__(self) -> None:
        self._events = 0
        self._seen = NumberSet()
        self._altered = NumberSet()
        self._unreadable = NumberSet()
        self._count: int | None = None
        self._ends: dict[int, str] = {}  # last number of a range -> digest of that event
        self._starts: dict[int, _First] = {}  # first number of a range -> what that event says

    def add(self, event: Event, number: int) -> None:
        self._events += 1
        if number in self._seen or number < 1:
            # Two events with one number: the producer did not write one of them.
            self._altered = self._altered.with_number(number)
            return
        self._seen = self._seen.with_number(number)
        if event.type == UNREADABLE:  # without its digest, neither neighbour can be verified
            self._unreadable = self._unreadable.with_number(number)
            return
        if event.type == "producer_closed" and (count := number_of(event.payload, "count")) is not None:
            self._count = max(self._count or 0, int(count))
        own = digest(event)
        self._link_back(event, number)
        following = self._starts.pop(number + 1, None)
        if following is None:
            self._ends[number] = own
        elif following.previous_digest != own:
            self._altered = self._altered.with_number(number)

    def _link_back(self, event: Event, number: int) -> None:
        before = self._ends.pop(number - 1, None)
        if before is None:
            span = event.ttl * 1000 - event.occurred_at if event.ttl is not None else None
            self._starts[number] = _First(event.previous_digest, span)
            if (event.previous_digest is None) != (number == 1):
                self._altered = self._altered.with_number(number)
        elif before != event.previous_digest:
            self._altered = self._altered.with_number(number - 1)

    def verification(
        self, producer: str, *, now_ms: int, started_at: int | None, expired_before: int | None
    ) -> ProducerVerification:
        # A count below the highest number was stated too early; the producer continued.
        closed = self._count is not None and self._count >= self._seen.highest
        missing = list(self._seen.gaps(up_to=self._count if closed else None))
        deleted_before: int | None = None
        expired_up_to = 0
        if missing and missing[0][0] == 1:
            deleted_before = self._expired_before(now_ms, started_at, expired_before)
            if deleted_before is not None:
                expired_up_to = missing.pop(0)[1]
        return ProducerVerification(
            producer=producer,
            events=self._events,
            stated=self._count if closed else None,
            missing=tuple(missing),
            altered=self._altered | self._unreadable,
            unreadable=self._unreadable,
            expired_up_to=expired_up_to,
            expired_before=deleted_before,
        )

    def _expired_before(self, now_ms: int, started_at: int | None, stated: int | None) -> int | None:
        """The time before which the first events have expired; None if expiry does not explain the gap."""
        if stated is not None:
            return stated
        first = self._starts.get(self._seen.lowest)
        if first is None or first.life_ms is None or started_at is None:
            return None
        edge = now_ms - first.life_ms
        return edge if started_at <= edge else None


@dataclass(frozen=True, slots=True)
class _First:
    """The first event after a gap."""

    previous_digest: str | None
    life_ms: int | None  # from occurring to expiring


def _position(event: Event) -> int | str:
    position = event.payload.get("position")
    return position if isinstance(position, int | str) else event.event_id


def _spans(ranges: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in ranges)
