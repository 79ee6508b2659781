"""Cursors and pages of journals that number arriving events: which positions a reader has handled.

Usually that is everything up to a position. A page has its events in their own order, which is not always the
order of arrival, so a reader that stops inside a page may have handled some positions beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import lt

from longwatch.errors import InvalidCursor
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.numbering import NO_NUMBERS, NumberSet

MAX_POSITION_DIGITS = 18  # fewer than SQLite's integers have, more than any journal needs
MAX_BEYOND = 20_000  # positions; a page has far fewer, and a cursor is untrusted input

Arrival = tuple[int, Event]
"""An event and the position at which it arrived."""


@dataclass(frozen=True, slots=True)
class ArrivalCursor:
    """The positions that a reader has handled: all up to one, and some beyond."""

    position: int = 0
    beyond: NumberSet = NO_NUMBERS

    @classmethod
    def of(cls, cursor: Cursor) -> ArrivalCursor:
        """Parse a cursor. `120` is everything up to 120, `120+2-4,7` also 122 to 124 and 127."""
        if is_position(cursor):
            return cls(int(cursor))
        if cursor == START:
            return cls()
        position, plus, rest = cursor.partition("+")
        if is_position(position):
            try:
                return cls(int(position), _beyond(int(position), rest) if plus else NO_NUMBERS)
            except ValueError:
                pass
        raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} for this journal. Read from the start instead.")

    @property
    def cursor(self) -> Cursor:
        """The text that `of` parses."""
        if not self.beyond:
            return Cursor(str(self.position)) if self.position else START
        spans = [(low - self.position, high - self.position) for low, high in self.beyond.ranges]
        texts = [f"{low}" if low == high else f"{low}-{high}" for low, high in spans]
        return Cursor(f"{self.position}+{','.join(texts)}")

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and (position <= self.position or position in self.beyond)

    def up_to(self, position: int) -> ArrivalCursor:
        """With everything up to this position too."""
        if position <= self.position:
            return self
        if not self.beyond.ranges:
            return ArrivalCursor(position)
        left = [(max(low, position + 1), high) for low, high in self.beyond.ranges if high > position]
        if left and left[0][0] == position + 1:
            return ArrivalCursor(left[0][1], NumberSet(tuple(left[1:])))
        return ArrivalCursor(position, NumberSet(tuple(left)))

    def cursor_up_to(self, position: int) -> Cursor:
        """The cursor of `up_to`, faster where no position is beyond."""
        return self.up_to(position).cursor if self.beyond.ranges else Cursor(str(position))

    def plus(self, positions: Sequence[int]) -> ArrivalCursor:
        """With these positions too, all of them beyond."""
        return ArrivalCursor(self.position, self.beyond | NumberSet.of(positions))


@dataclass(frozen=True, slots=True)
class ArrivalPage(Page):
    """A page with the position of each event, so that a reader can resume after any of them."""

    positions: Sequence[int] = ()  # in the order of the events
    start: ArrivalCursor = ArrivalCursor()  # handled before this page
    joined: bool = True  # the page has all events of its run between its start and its end
    ascending: bool = False  # the events are in the order of arrival, as usual

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
        reader = ArrivalCursor.of(by)
        joined = reader.position >= self.start.position
        new = [index for index, position in enumerate(self.positions) if position not in reader]
        positions = [self.positions[index] for index in new]
        # A reader with a gap before this page keeps the gap, which may contain events.
        end = reader.up_to(ArrivalCursor.of(self.cursor).position) if joined else reader.plus(positions)
        return ArrivalPage(
            [self.events[index] for index in new], end.cursor, self.more, positions, reader, joined
        )


def page_of(
    start: ArrivalCursor, arrivals: Sequence[Arrival], *, end: ArrivalCursor, more: bool = False
) -> ArrivalPage:
    """A page of arrivals of one run, sorted by the order of their events."""
    events = [event for _, event in arrivals]
    return page_from(start, events, [position for position, _ in arrivals], end=end.cursor, more=more)


def page_from(
    start: ArrivalCursor, events: list[Event], positions: list[int], *, end: Cursor, more: bool = False
) -> ArrivalPage:
    """A page of events and their positions, given in the order of arrival."""
    if is_in_order(events):
        return ArrivalPage(events, end, more, positions, start, True, True)
    by_order = sorted(range(len(events)), key=lambda index: events[index].order)
    events = [events[index] for index in by_order]
    positions = [positions[index] for index in by_order]
    ascending = all(map(lt, positions, positions[1:]))
    return ArrivalPage(events, end, more, positions, start, ascending=ascending)


def is_in_order(events: Sequence[Event]) -> bool:
    """Whether each event is later than the previous one, as usual; False for equal times."""
    previous = -1
    for event in events:
        if event.occurred_at <= previous:
            return False
        previous = event.occurred_at
    return True


def last_events(events: Iterable[Event], limit: int) -> list[Event]:
    """The last so many of these events, in their order."""
    return nlargest(limit, events, key=lambda event: event.order)[::-1]


def is_position(text: str) -> bool:
    """Whether a text is a position."""
    # `isdigit` alone accepts "²", which `int` does not.
    return text.isascii() and text.isdigit() and len(text) <= MAX_POSITION_DIGITS


def _beyond(position: int, text: str) -> NumberSet:
    ranges: list[tuple[int, int]] = []
    count = 0
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not is_position(low) or (dash and not is_position(high)):
            raise ValueError("invalid range")
        first, last = position + int(low), position + int(high if dash else low)
        if first <= (ranges[-1][1] + 1 if ranges else position) or last < first:
            raise ValueError("ranges are not in order")
        count += last - first + 1
        ranges.append((first, last))
    if count > MAX_BEYOND:
        raise ValueError("larger than any page")
    return NumberSet(tuple(ranges))
