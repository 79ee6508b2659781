"""Cursors and pages of journals that number what arrives: which positions a reader has dealt with.

Usually that is everything up to a position. Events of a page are handed over in their own order, which is not
always that of their arrival, so a reader that stops in the middle of a page may have seen some beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import lt

from longwatch.errors import InvalidCursor
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.numbering import NO_NUMBERS, NumberSet

MAX_POSITION_DIGITS = 18  # fewer than SQLite's integers have, more than anybody appends
MOST_BEYOND = 20_000  # positions; a page has far fewer, and a cursor comes from outside

Arrival = tuple[int, Event]
"""An event and the position at which it arrived."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a reader has dealt with: every position up to one, and some beyond it."""

    position: int = 0
    beyond: NumberSet = NO_NUMBERS

    @classmethod
    def of(cls, cursor: Cursor) -> Arrived:
        """What a cursor says. `120` is everything up to 120, `120+2-4,7` also 122 to 124 and 127."""
        if is_whole(cursor):
            return cls(int(cursor))
        if cursor == START:
            return cls()
        position, plus, rest = cursor.partition("+")
        if is_whole(position):
            try:
                return cls(int(position), _beyond(int(position), rest) if plus else NO_NUMBERS)
            except ValueError:
                pass
        raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} for this journal. Read from the start instead.")

    @property
    def cursor(self) -> Cursor:
        """The text that `of` reads."""
        if not self.beyond:
            return Cursor(str(self.position)) if self.position else START
        spans = [(low - self.position, high - self.position) for low, high in self.beyond.ranges]
        texts = [f"{low}" if low == high else f"{low}-{high}" for low, high in spans]
        return Cursor(f"{self.position}+{','.join(texts)}")

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and (position <= self.position or position in self.beyond)

    def up_to(self, position: int) -> Arrived:
        """With everything up to this position too."""
        if position <= self.position:
            return self
        if not self.beyond.ranges:
            return Arrived(position)
        left = [(max(low, position + 1), high) for low, high in self.beyond.ranges if high > position]
        if left and left[0][0] == position + 1:
            return Arrived(left[0][1], NumberSet(tuple(left[1:])))
        return Arrived(position, NumberSet(tuple(left)))

    def cursor_up_to(self, position: int) -> Cursor:
        """The cursor of `up_to`, the short way where nothing lies beyond."""
        return self.up_to(position).cursor if self.beyond.ranges else Cursor(str(position))

    def plus(self, positions: Sequence[int]) -> Arrived:
        """With these positions too, each of them beyond what is known."""
        return Arrived(self.position, self.beyond | NumberSet.of(positions))


@dataclass(frozen=True, slots=True)
class ArrivalPage(Page):
    """A page that knows where each of its events arrived, so that it can be left after any of them."""

    positions: Sequence[int] = ()  # in the order of the events
    start: Arrived = Arrived()  # what had been dealt with before this page
    joined: bool = True  # the page has everything between its start and its end that is of its run
    ascending: bool = False  # the events are in the order of their arrival, which is the usual case

    def cursor_after(self, count: int) -> Cursor:
        if count == len(self.events):
            return self.cursor
        if self.ascending and count and not self.start.beyond:
            return Cursor(str(self.positions[count - 1]))
        done, left = self.positions[:count], self.positions[count:]
        if not done:
            return self.start.cursor
        if not self.joined:
            return self.start.plus(done).cursor
        edge = min(left) - 1
        return self.start.up_to(edge).plus([position for position in done if position > edge]).cursor

    def unseen(self, by: Cursor) -> Page:
        reader = Arrived.of(by)
        joined = reader.position >= self.start.position
        new = [index for index, position in enumerate(self.positions) if position not in reader]
        positions = [self.positions[index] for index in new]
        # A reader that has a gap before this page keeps it, rather than leaving out what may lie there.
        end = reader.up_to(Arrived.of(self.cursor).position) if joined else reader.plus(positions)
        return ArrivalPage(
            [self.events[index] for index in new], end.cursor, self.more, positions, reader, joined
        )


def page_of(start: Arrived, arrivals: Sequence[Arrival], *, end: Arrived, more: bool = False) -> ArrivalPage:
    """A page of arrivals of one run, sorted by the order of their events."""
    events = [event for _, event in arrivals]
    return page_from(start, events, [position for position, _ in arrivals], end=end.cursor, more=more)


def page_from(
    start: Arrived, events: list[Event], positions: list[int], *, end: Cursor, more: bool = False
) -> ArrivalPage:
    """The same of events and the positions at which they arrived, in the order of their arrival."""
    if is_in_order(events):
        return ArrivalPage(events, end, more, positions, start, True, True)
    by_order = sorted(range(len(events)), key=lambda index: events[index].order)
    events = [events[index] for index in by_order]
    positions = [positions[index] for index in by_order]
    ascending = all(map(lt, positions, positions[1:]))
    return ArrivalPage(events, end, more, positions, start, ascending=ascending)


def is_in_order(events: Sequence[Event]) -> bool:
    """Whether each event is later than the one before it, which is the usual case; at a tie, False."""
    previous = -1
    for event in events:
        if event.occurred_at <= previous:
            return False
        previous = event.occurred_at
    return True


def is_whole(text: str) -> bool:
    """Whether a text is a position."""
    # `isdigit` alone takes "²" for a digit, which `int` does not.
    return text.isascii() and text.isdigit() and len(text) <= MAX_POSITION_DIGITS


def _beyond(position: int, text: str) -> NumberSet:
    ranges: list[tuple[int, int]] = []
    count = 0
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not is_whole(low) or (dash and not is_whole(high)):
            raise ValueError("invalid range")
        first, last = position + int(low), position + int(high if dash else low)
        if first <= (ranges[-1][1] + 1 if ranges else position) or last < first:
            raise ValueError("ranges are not in order")
        count += last - first + 1
        ranges.append((first, last))
    if count > MOST_BEYOND:
        raise ValueError("larger than any page")
    return NumberSet(tuple(ranges))
