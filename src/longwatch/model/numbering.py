"""Sets of numbers of events or lines as ranges, cheap to store and to compare."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from longwatch.model.event import number_of


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of positive integers as sorted ranges that neither touch nor overlap."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> NumberSet:
        """The set of these numbers, in any order and with duplicates."""
        ordered = sorted(numbers)
        if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:  # usually one range
            first, last = ordered[0], ordered[-1]
            if ordered == list(range(first, last + 1)):
                return cls(((first, last),))
        return cls(tuple(_join_ranges((number, number) for number in ordered)))

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_right(self.ranges, number, key=lambda pair: pair[0]) - 1
        return index >= 0 and number <= self.ranges[index][1]

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: NumberSet) -> NumberSet:
        if self.ranges and len(other.ranges) == 1 and other.ranges[0][0] == self.ranges[-1][1] + 1:
            return NumberSet((*self.ranges[:-1], (self.ranges[-1][0], other.ranges[0][1])))
        return NumberSet(tuple(_join_ranges(sorted([*self.ranges, *other.ranges]))))

    def with_number(self, number: int) -> NumberSet:
        """This set and one more number. Fast for the successor of the highest."""
        if self.ranges:
            low, high = self.ranges[-1]
            if number == high + 1:
                return NumberSet((*self.ranges[:-1], (low, number)))
            if low <= number <= high:
                return self
        return self | NumberSet(((number, number),))

    @property
    def highest(self) -> int:
        """The largest number, or 0 for none."""
        return self.ranges[-1][1] if self.ranges else 0

    @property
    def lowest(self) -> int:
        """The smallest number, or 0 for none."""
        return self.ranges[0][0] if self.ranges else 0

    def gaps(self, *, up_to: int | None = None) -> Iterator[tuple[int, int]]:
        """The missing ranges between 1 and the highest number, or `up_to` if that is higher."""
        expected = 1
        for low, high in self.ranges:
            if low > expected:
                yield expected, low - 1
            expected = high + 1
        if up_to is not None and up_to >= expected:
            yield expected, up_to


NO_NUMBERS = NumberSet()


def with_line(lines: NumberSet, payload: Mapping[str, object]) -> NumberSet:
    """These lines of an agent's output and the one of an event, with the blank lines before it.

    Blank lines have no event. Events of earlier versions do not state the number of the previous line, so
    they count for all lines before them.
    """
    number = number_of(payload, "line_number")
    if number is None or number < 0:
        return lines
    high = int(number)
    low = min(int(number_of(payload, "after_line") or 0) + 1, high)
    if any(first <= low and high <= last for first, last in lines.ranges[-1:]):
        return lines
    return lines | NumberSet(((low, high),))


def _join_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sorted ranges, joined where they touch or overlap."""
    current: tuple[int, int] | None = None
    for low, high in ranges:
        if current is None:
            current = (low, high)
        elif low <= current[1] + 1:
            current = (current[0], max(current[1], high))
        else:
            yield current
            current = (low, high)
    if current is not None:
        yield current
