"""Which of a producer's events a watch has seen, counted in place.

`ProducerTally` says the same and never changes, so there is a new one for each event. Ten thousand runs would
each hold on to theirs until the next event comes, and the garbage collector goes through them all.
"""

from __future__ import annotations

from longwatch.model.numbering import NO_NUMBERS, NumberSet
from longwatch.model.run import ProducerTally


class Tally:
    """Numbers that mostly come one after the other, and how many the producer says there are."""

    __slots__ = ("_first", "_last", "_others", "count")

    def __init__(self) -> None:
        self.count: int | None = None  # stated by the producer when it closed
        self._first, self._last = 1, 0  # the row that grows; empty
        self._others = NO_NUMBERS

    def add(self, number: int) -> None:
        """This number was seen."""
        if number == self._last + 1:
            self._last = number
        elif not self._first <= number <= self._last:
            self._others = self.seen
            self._first = self._last = number

    def close(self, count: int) -> None:
        """The producer says that it wrote so many; of two counts the higher holds."""
        self.count = count if self.count is None else max(self.count, count)

    def merge(self, other: Tally) -> None:
        """What somebody else has seen of the same producer."""
        ranges = (self.seen | other.seen).ranges
        if ranges:
            self._others = NumberSet(ranges[:-1]) if len(ranges) > 1 else NO_NUMBERS
            self._first, self._last = ranges[-1]
        if other.count is not None:
            self.close(other.count)

    @property
    def seen(self) -> NumberSet:
        """All of them."""
        if self._last < self._first:
            return self._others
        row = NumberSet(((self._first, self._last),))
        return self._others | row if self._others else row

    @property
    def is_complete(self) -> bool:
        """Whether the producer has closed and nothing is missing."""
        return self.count is not None and not self.told.missing()

    @property
    def told(self) -> ProducerTally:
        """The same as a value."""
        return ProducerTally(self.seen, self.count)
