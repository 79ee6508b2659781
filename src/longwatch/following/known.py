"""What a watch knows of its run: how it ended, which events are missing, which process does the work.

A small part of the fold, in bounded memory: a run of a million events is followed with a few ranges of
numbers. Adding an event twice changes nothing, so what several followers know can be put together.
"""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.following.tally import Tally
from longwatch.model.attempts import CLOSED, FACT_TYPES, NO_FACTS, Lifecycle, lifecycle_of
from longwatch.model.endings import is_activity
from longwatch.model.event import Event, Order, number_of
from longwatch.model.run import Ending, Status


class Known:
    """Grows with the events that are added."""

    __slots__ = ("active_at", "ending", "last", "lifecycle", "tallies", "whole")

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole  # the events before the first one that was added are known too, or there are none
        self.last: Order | None = None  # of the latest event
        self.active_at: int | None = None  # epoch ms, of the latest event that shows activity
        self.lifecycle: Lifecycle = NO_FACTS
        self.ending: Ending | None = None  # of the last attempt
        self.tallies: dict[str, Tally] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Add events of one page, which are in their order."""
        facts: list[Event] = []
        tallies = self.tallies
        for event in events:
            if event.producer is not None and event.number is not None:
                tally = tallies.get(event.producer) or self._tally(event.producer)
                tally.add(event.number)
            if event.type in FACT_TYPES:
                facts.append(event)
                if event.type == CLOSED:
                    self._closed(event)
        if events:
            active_at = next((event.occurred_at for event in reversed(events) if is_activity(event)), None)
            self._see(events[-1].order, active_at)
        if facts:
            self._learn(lifecycle_of(facts))

    def merge(self, other: Known) -> None:
        """Add what another follower knows of the same run."""
        self.whole = self.whole or other.whole
        if other.last is not None:
            self._see(other.last, other.active_at)
        self._learn(other.lifecycle)
        for producer, tally in other.tallies.items():
            self._tally(producer).merge(tally)

    def _see(self, last: Order, active_at: int | None) -> None:
        if self.last is None or last > self.last:
            self.last = last
        if active_at is not None and (self.active_at is None or active_at > self.active_at):
            self.active_at = active_at

    def _learn(self, facts: Lifecycle) -> None:
        self.lifecycle = self.lifecycle.merged(facts)
        self.ending = self.lifecycle.current.ending

    def complete(self, facts: Lifecycle) -> None:
        """Replace the facts by more of them."""
        self.lifecycle, self.ending = facts, facts.current.ending

    @property
    def status(self) -> Status:
        """How the run stands; pending before its first event."""
        if self.ending is not None:
            return self.ending.status
        return Status.PENDING if self.last is None else Status.RUNNING

    @property
    def is_complete(self) -> bool:
        """Whether every producer has closed and each of its events is here. Without producers, never.

        Nor while the history is not known: it may tell of others, which are still to say their last word.
        """
        return self.whole and bool(self.tallies) and all(each.is_complete for each in self.tallies.values())

    def _closed(self, event: Event) -> None:
        count = number_of(event.payload, "count")
        if event.producer is not None and count is not None:
            self._tally(event.producer).close(int(count))

    def _tally(self, producer: str) -> Tally:
        tally = self.tallies.get(producer)
        if tally is None:
            tally = self.tallies[producer] = Tally()
        return tally
