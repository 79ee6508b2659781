"""Notices turns whose executing process is gone, for readers that ask now and then rather than follow."""

from __future__ import annotations

from longwatch.clock import Clock
from longwatch.following.observation import Observer, read_known
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.base import Journal
from longwatch.journal.claims import ending_of_death
from longwatch.model.event import Event
from longwatch.model.process import Presence
from longwatch.turns.state import TurnState

MOST_NOTICED = 1_000


class Deaths:
    """Remembers when each death was noticed: the parent of the process may still report how it ended."""

    def __init__(self, journal: Journal, clock: Clock, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._journal = journal
        self._clock = clock
        self._observer = Observer(journal, clock=clock)
        self._grace_seconds = grace_seconds
        self._noticed: dict[str, float] = {}

    def has_come(self, state: TurnState) -> bool:
        """Whether the process that owns this turn is gone, and its parent had time to report."""
        if state.has_ended or state.process is None or state.process.presence() is not Presence.GONE:
            self._noticed.pop(state.turn_id, None)
            return False
        now = self._clock.monotonic()
        while len(self._noticed) >= MOST_NOTICED:
            self._noticed.pop(next(iter(self._noticed)), None)
        return now - self._noticed.setdefault(state.turn_id, now) >= self._grace_seconds

    def end_of(self, turn_id: str) -> Event | None:
        """The terminal event of a turn whose processes are all gone, under the id of its one ending.

        None if it has ended, another process still works on it, or events of it wait in an outbox.
        """
        death = self._observer.death_of(turn_id, read_known(self._journal, turn_id))
        return None if death is None else ending_of_death(death)
