"""What a follower yields: events, that it has caught up, what it had to read again, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from longwatch.model.event import Cursor, Event, Page
from longwatch.model.run import Status


class Reason(StrEnum):
    """Why a watch ended."""

    ENDED = "ended"  # the run did, and its stragglers are in
    DIED = "died"  # every process of the run is gone, and none reported an outcome
    NO_SUBSCRIBERS = "no_subscribers"  # nobody listens any more
    STOPPED = "stopped"  # somebody asked for it
    SILENT = "silent"  # nothing came for too long: the watch gave up, and the run stays open
    UNUSABLE = "unusable"  # the journal can not be read, and trying again would not help


@dataclass(frozen=True, slots=True, init=False)
class Followed:
    """An event, exactly once."""

    event: Event
    late: bool  # it sorts before something that this follower yielded already
    last: bool = field(repr=False, compare=False)  # of those that were found together
    _place: Page | Cursor = field(repr=False, compare=False)  # a page to go on in, or where to go on after it
    _count: int = field(repr=False, compare=False)  # of the page's events, up to this one

    def __init__(self, event: Event, late: bool, page: Page, count: int) -> None:
        # Written out, because there is one for each event: what dataclass writes takes three times as long.
        last = count == len(page.events)
        _set_event(self, event)
        _set_late(self, late)
        _set_last(self, last)
        # Whoever waits for the next event may keep this one, and need not keep its whole page.
        _set_place(self, page.cursor if last else page)
        _set_count(self, count)

    @property
    def cursor(self) -> Cursor:
        """Goes on after this event. Made when asked for, since most are never used."""
        place = self._place
        return place.cursor_after(self._count) if isinstance(place, Page) else place


_set_event, _set_late, _set_last, _set_place, _set_count = (
    getattr(Followed, name).__set__ for name in Followed.__dataclass_fields__
)


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything that was there has been yielded; what comes now is live. Comes once."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Missed:
    """The consumer was too slow: events were dropped from its buffer. They are read again and come next."""

    count: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Ended:
    """The last item of all."""

    reason: Reason
    status: Status  # how the run stands, as far as this watch has seen it; pending: it saw no event
    message: str | None  # what went wrong or what was left undone, for people
    cursor: Cursor


Item = Followed | CaughtUp | Missed | Ended
