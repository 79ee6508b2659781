"""Notices turns whose executing process is gone, for readers who ask now and then rather than follow."""

from __future__ import annotations

from dataclasses import replace

from longwatch.clock import Clock
from longwatch.events import Event
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.model.attempts import Member
from longwatch.model.liveness import death_event
from longwatch.model.process import Presence
from longwatch.turns.ending import ending_id
from longwatch.turns.state import TurnState

MOST_NOTICED = 1_000


class Deaths:
    """Remembers when each death was noticed: whoever started the process may still say how it ended."""

    def __init__(self, clock: Clock, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._noticed: dict[str, float] = {}

    def has_come(self, state: TurnState) -> bool:
        """Whether the process of this turn is gone, and was given time for a last word."""
        if state.has_ended or state.process is None or state.process.presence() is not Presence.GONE:
            self._noticed.pop(state.turn_id, None)
            return False
        now = self._clock.monotonic()
        while len(self._noticed) >= MOST_NOTICED:
            self._noticed.pop(next(iter(self._noticed)), None)
        return now - self._noticed.setdefault(state.turn_id, now) >= self._grace_seconds

    def end_of(self, state: TurnState, ttl_seconds: int | None) -> Event | None:
        """The terminal event of the turn, under the id of its one ending; None if it has ended after all."""
        if state.has_ended or state.process is None:
            return None
        last = state.last or (0, "", 0, "")
        interval = (last[0], max(last[0], self._clock.now_ms()))
        members = [Member(state.process, last, is_owner=True)]
        event = death_event(state.turn_id, None, members, last, interval, ttl_seconds=ttl_seconds)
        return replace(event, event_id=ending_id(state.turn_id))
