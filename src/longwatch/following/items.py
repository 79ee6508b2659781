"""The items that a follower yields: events, that it has caught up, what it missed, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from longwatch.model.event import Cursor, Event, Page
from longwatch.model.run import Status


class Reason(StrEnum):
    """Why a watch ended."""

    ENDED = "ended"  # the run did, and its late events are in
    DIED = "died"  # every process of the run exited, and none reported an outcome
    NO_SUBSCRIBERS = "no_subscribers"  # the last subscriber has left
    STOPPED = "stopped"  # the caller stopped it
    SILENT = "silent"  # no event for too long: the watch gave up, and the run stays open
    DELETED = "deleted"  # the run was deleted; `message` states when and by whom
    UNUSABLE = "unusable"  # the journal cannot be read, and a retry would not help


@dataclass(frozen=True, slots=True, init=False)
class Followed:
    """An event, exactly once."""

    event: Event
    late: bool  # it sorts before something that this follower yielded already
    last: bool = field(repr=False, compare=False)  # of those that were found together
    _position: Page | Cursor = field(repr=False, compare=False)  # its page, or the cursor after it
    _count: int = field(repr=False, compare=False)  # of the page's events, up to this one

    def __init__(self, event: Event, late: bool, page: Page, count: int) -> None:
        # Written out, because there is one for each event: a generated one takes three times as long.
        last = count == len(page.events)
        _set_event(self, event)
        _set_late(self, late)
        _set_last(self, last)
        # A consumer may keep this event while it waits for the next one, without its whole page.
        _set_position(self, page.cursor if last else page)
        _set_count(self, count)

    @property
    def cursor(self) -> Cursor:
        """The position after this event. Computed on access, since most are never used."""
        position = self._position
        return position.cursor_after(self._count) if isinstance(position, Page) else position


_set_event, _set_late, _set_last, _set_position, _set_count = (
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
    """The last item."""

    reason: Reason
    status: Status  # of the run, as far as this watch has seen it; pending: it saw no event
    message: str | None  # what went wrong or what was left undone, for people
    cursor: Cursor


Item = Followed | CaughtUp | Missed | Ended
