"""Consumers of a run, and the checks of what they receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from longwatch.following import CaughtUp, Ended, Followed, Item
from longwatch.model.event import START, Cursor, Event, Order


class Consumer(Protocol):
    """Receives the items of one run, and resumes after a crash of its process."""

    def take(self, item: Item) -> None:
        """The next item."""

    def crash(self) -> Cursor:
        """The process crashed: drop what was not saved, and return the cursor to resume from."""

    def check(self, events: Sequence[Event]) -> None:
        """The watch is over, and the run has these events. Raise AssertionError for a wrong result."""


class SavingConsumer:
    """Saves its cursor after every n-th item."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._saved = START
        self._unsaved = 0

    def take(self, item: Item) -> None:
        self._unsaved += 1
        if self._unsaved >= self._every:
            self._saved, self._unsaved = item.cursor, 0

    def crash(self) -> Cursor:
        self._unsaved = 0
        return self._saved

    def check(self, events: Sequence[Event]) -> None:
        """No check of its own."""


class CheckedConsumer:
    """Checks the items of a consumer. Raises AssertionError at the first violation."""

    def __init__(self, run_id: str, consumer: Consumer) -> None:
        self.run_id = run_id
        self.received: dict[str, Event] = {}  # by ID, without those lost in crashes
        self._consumer = consumer
        self._began = START
        self._items: list[Item] = []  # of the current watch
        self._ids: list[str] = []  # of its events
        self._top: Order | None = None
        self.ended: Ended | None = None

    def take(self, item: Item) -> None:
        """Check an item and pass it on."""
        assert self.ended is None, f"{item!r} came after {self.ended!r}"
        if isinstance(item, Followed):
            self._check_event(item)
        elif isinstance(item, CaughtUp):
            before = [each for each in self._items if isinstance(each, CaughtUp)]
            assert not before, "CaughtUp came twice"
        elif isinstance(item, Ended):
            self.ended = item
        self._items.append(item)
        self._consumer.take(item)

    def crash(self) -> Cursor:
        """The process crashed, or the consumer left. Returns the cursor to resume from."""
        cursor = self._consumer.crash()
        for item in reversed(self._items):
            if item.cursor == cursor:
                break
            if isinstance(item, Followed):
                del self.received[self._ids.pop()]
        else:
            assert cursor == self._began, f"it resumes from {cursor!r}, which it never received"
        self._began, self._items, self._ids, self._top = cursor, [], [], None
        self.ended = None
        return cursor

    def check(self, events: Sequence[Event], *, is_complete: bool) -> None:
        """The watch is over. These are the events of the run."""
        stored = {event.event_id: event for event in events}
        assert len(stored) == len(events), f"the store of {self.run_id} holds an event twice"
        missing = [event_id for event_id in stored if event_id not in self.received]
        assert not (missing and is_complete), f"never came: {', '.join(missing)}"
        for event_id, event in self.received.items():
            assert stored.get(event_id) == event, f"{event_id} came other than it is stored: {event!r}"
        if is_complete:
            self._consumer.check(events)

    def _check_event(self, item: Followed) -> None:
        event = item.event
        assert event.run_id == self.run_id, f"{event.event_id} of {event.run_id} leaked into {self.run_id}"
        assert event.event_id not in self.received, f"{event.event_id} came twice"
        late = self._top is not None and event.order < self._top
        assert item.late == late, f"{event.event_id} is{'' if late else ' not'} late, and marked otherwise"
        if not late:
            self._top = event.order
        self.received[event.event_id] = event
        self._ids.append(event.event_id)
