"""Waits of a run: which are open, since when and why, and how long it has waited for each reason.

The start and the end of a wait share a call ID. They may arrive in any order, so a wait is remembered after
its end. A summary has the latest waits only; the time of all of them is a sum, which needs no pairs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from longwatch.model.event import Event, duration_of, text_of

WAIT_TYPES = frozenset({"waiting_started", "waiting_ended"})
MAX_WAITS = 32  # in a summary
MAX_REASONS = 20  # with a sum of their own
OTHER_REASONS = "other"
REASON_CHARACTERS = 100
DETAIL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait, as far as its events have arrived."""

    call_id: str
    reason: str
    since: int | None = None  # epoch ms; None: the start has not arrived
    ended_at: int | None = None
    detail: str | None = None
    producer: str = ""  # of the start

    @classmethod
    def of(cls, event: Event) -> Wait:
        """The start or the end of a wait in this event."""
        reason = (text_of(event.payload, "reason") or "unknown")[:REASON_CHARACTERS]
        call_id = event.call_id or f"{reason}:{event.producer or ''}"  # other producers may have no ID
        if event.type == "waiting_ended":
            return cls(call_id, reason, ended_at=event.occurred_at)
        detail = text_of(event.payload, "detail")
        return cls(
            call_id,
            reason,
            since=event.occurred_at,
            detail=detail[:DETAIL_CHARACTERS] if detail else None,
            producer=event.producer or "",
        )

    @property
    def is_open(self) -> bool:
        return self.since is not None and (self.ended_at is None or self.ended_at < self.since)

    @property
    def text(self) -> str:
        """`waiting for approval: deploy to production`"""
        return f"waiting for {self.reason}: {self.detail}" if self.detail else f"waiting for {self.reason}"

    def merged(self, other: Wait) -> Wait:
        """Both parts of one wait. Commutative, associative and idempotent."""
        last = max(
            self, other, key=lambda each: (each.since or 0, each.reason, each.detail or "", each.producer)
        )
        ends = [each.ended_at for each in (self, other) if each.ended_at is not None]
        return Wait(
            self.call_id, last.reason, last.since, max(ends, default=None), last.detail, last.producer
        )

    @property
    def _recency(self) -> tuple[bool, int, str]:
        return self.is_open, max(self.since or 0, self.ended_at or 0), self.call_id


Waits = tuple[Wait, ...]


def merge_waits(one: Waits, other: Waits) -> Waits:
    """The waits of both parts, those that are open and the latest first."""
    if not one or not other:
        return one or other
    found = {wait.call_id: wait for wait in one}
    for wait in other:
        before = found.get(wait.call_id)
        found[wait.call_id] = wait if before is None else before.merged(wait)
    return _latest(found.values())


def open_waits(waits: Waits, *, closed: Container[str], began: int) -> tuple[Wait, ...]:
    """The waits that are open, the longest first, of producers that have not closed and since `began`."""
    mine = [
        wait
        for wait in waits
        if wait.is_open and wait.producer not in closed and wait.since and wait.since >= began
    ]
    return tuple(sorted(mine, key=lambda wait: (wait.since or 0, wait.call_id)))


def waits_of(events: Iterable[Event]) -> Waits:
    """The waits of which these events are starts or ends."""
    waits: Waits = ()
    for event in events:
        if event.type in WAIT_TYPES:
            waits = merge_waits(waits, (Wait.of(event),))
    return waits


def _latest(waits: Iterable[Wait]) -> Waits:
    return tuple(sorted(waits, key=lambda wait: wait._recency, reverse=True)[:MAX_WAITS])


def waited_ms(events: Iterable[Event]) -> Mapping[str, int]:
    """How long the waits took that these events end, by reason."""
    waited: dict[str, int] = {}
    for event in events:
        if event.type == "waiting_ended":
            reason = Wait.of(event).reason
            waited[reason] = waited.get(reason, 0) + max(0, round(duration_of(event.payload) or 0))
    return limit_reasons(waited)


def limit_reasons(waited: Mapping[str, int]) -> Mapping[str, int]:
    """The first reasons by name, which are the same for any order of additions, and the rest as one."""
    if len(waited) <= MAX_REASONS:
        return waited
    named = sorted(reason for reason in waited if reason != OTHER_REASONS)
    found = {reason: waited[reason] for reason in named[:MAX_REASONS]}
    rest = sum(waited[reason] for reason in (*named[MAX_REASONS:], OTHER_REASONS) if reason in waited)
    return {**found, OTHER_REASONS: rest} if rest else found
