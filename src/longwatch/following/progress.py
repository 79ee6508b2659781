"""What a watch has seen of its run: its ending, missing events, the process that works on it.

`ProducerNumbers` has the same content and never changes, so there is a new one for each event. Ten thousand
runs would each keep theirs until the next event comes, and the garbage collector traverses them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.model.attempts import CLOSED, FACT_TYPES, NO_FACTS, Lifecycle, lifecycle_of
from longwatch.model.endings import is_activity
from longwatch.model.event import Event, Order, number_of
from longwatch.model.numbering import NO_NUMBERS, NumberSet
from longwatch.model.run import Ending, ProducerNumbers, Status
from longwatch.model.waiting import WAIT_TYPES, Wait, Waits, merge_waits, open_waits


class ProducerProgress:
    """The numbers seen of a producer, mostly in sequence, and the count that it stated."""

    __slots__ = ("_first", "_last", "_others", "count")

    def __init__(self) -> None:
        self.count: int | None = None  # stated by the producer when it closed
        self._first, self._last = 1, 0  # the row that grows; empty
        self._others = NO_NUMBERS

    def add(self, number: int) -> None:
        if number == self._last + 1:
            self._last = number
        elif not self._first <= number <= self._last:
            self._others = self.seen
            self._first = self._last = number

    def close(self, count: int) -> None:
        """The producer states how many events it wrote; of two counts the higher holds."""
        self.count = count if self.count is None else max(self.count, count)

    def merge(self, other: ProducerProgress) -> None:
        """Add what another follower has seen of the same producer."""
        ranges = (self.seen | other.seen).ranges
        if ranges:
            self._others = NumberSet(ranges[:-1]) if len(ranges) > 1 else NO_NUMBERS
            self._first, self._last = ranges[-1]
        if other.count is not None:
            self.close(other.count)

    @property
    def seen(self) -> NumberSet:
        """All numbers."""
        if self._last < self._first:
            return self._others
        row = NumberSet(((self._first, self._last),))
        return self._others | row if self._others else row

    @property
    def is_complete(self) -> bool:
        """Whether the producer has closed and nothing is missing."""
        return self.count is not None and not self.tally.missing()

    @property
    def tally(self) -> ProducerNumbers:
        """The progress as an immutable value."""
        return ProducerNumbers(self.seen, self.count)


class RunProgress:
    """What a watch has seen of a run. It grows with the events that are added."""

    __slots__ = ("active_at", "ending", "last", "lifecycle", "tallies", "waits", "whole")

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole  # no event before the first one that was added is missing
        self.last: Order | None = None  # of the latest event
        self.active_at: int | None = None  # epoch ms, of the latest event that shows activity
        self.lifecycle: Lifecycle = NO_FACTS
        self.ending: Ending | None = None  # of the last attempt
        self.tallies: dict[str, ProducerProgress] = {}
        self.waits: Waits = ()

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
            elif event.type in WAIT_TYPES:
                self.waits = merge_waits(self.waits, (Wait.of(event),))
        if events:
            active_at = next((event.occurred_at for event in reversed(events) if is_activity(event)), None)
            self._see(events[-1].order, active_at)
        if facts:
            self._learn(lifecycle_of(facts))

    def merge(self, other: RunProgress) -> None:
        """Add what another follower has seen of the same run."""
        self.whole = self.whole or other.whole
        if other.last is not None:
            self._see(other.last, other.active_at)
        self._learn(other.lifecycle)
        self.waits = merge_waits(self.waits, other.waits)
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
    def is_waiting(self) -> bool:
        """Whether the run waits for something, so that no event is expected."""
        if not self.waits or self.ending is not None:
            return False
        closed = {producer for _, producer in self.lifecycle.closed}
        attempts = self.lifecycle.attempts
        start = attempts[-1].start if len(attempts) > 1 else None
        return bool(open_waits(self.waits, closed=closed, began=start[0] if start else 0))

    @property
    def is_complete(self) -> bool:
        """Whether every producer has closed and each of its events is here. Without producers, never.

        Nor without the whole history: it may have other producers that have not closed yet.
        """
        return self.whole and bool(self.tallies) and all(each.is_complete for each in self.tallies.values())

    def _closed(self, event: Event) -> None:
        count = number_of(event.payload, "count")
        if event.producer is not None and count is not None:
            self._tally(event.producer).close(int(count))

    def _tally(self, producer: str) -> ProducerProgress:
        tally = self.tallies.get(producer)
        if tally is None:
            tally = self.tallies[producer] = ProducerProgress()
        return tally
