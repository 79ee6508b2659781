"""Getting events into the journal, or into the outbox until the journal can be reached again.

Used by the writer thread alone. An outage begins with the first failed append: from then on events go to
the outbox, and the journal is tried again after 1, 2, 4, 8, 16, 30, 30 … seconds. One warning tells of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.errors import EventConflict, InvalidEvent, LongwatchError
from longwatch.events import Event
from longwatch.journal.base import Journal
from longwatch.recording.outbox import Outbox, ShipReport

log = logging.getLogger("longwatch")

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 30.0


@dataclass(slots=True)
class Tally:
    """What became of the events so far."""

    stored: int = 0
    in_outbox: int = 0
    refused: int = 0
    failures: int = 0
    last_error: str | None = None


class Delivery:
    """One journal and the outbox beside it."""

    def __init__(
        self,
        url: str,
        open_: Callable[[], Journal],
        outbox: Outbox,
        *,
        clock: Clock,
        close_journal: bool = True,
    ) -> None:
        self._close_journal = close_journal  # False: it belongs to somebody else
        self._url = url
        self._open = open_
        self._outbox = outbox
        self._clock = clock
        self._journal: Journal | None = None
        self._failures_in_a_row = 0
        self._retry_at: float | None = None  # None: no outage
        self._may_have_leftovers = True  # an earlier process may have left events behind
        self.tally = Tally()

    def default_ttl_seconds(self) -> int | None:
        """The journal's own rule for how long events live; None while it cannot be opened."""
        try:
            return self._opened().default_ttl_seconds
        except LongwatchError:
            return None

    def deliver(self, events: Sequence[Event]) -> bool:
        """Store the events in the journal or in the outbox. False: neither took them; try again later."""
        if not events:
            return True
        if self._retry_at is None or self._clock.monotonic() >= self._retry_at:
            try:
                self._append(events)
                self._recovered()
                return True
            except LongwatchError as error:
                self._failed(error)
        try:
            self._outbox.put(self._url, events)
        except LongwatchError as error:
            if self._failures_in_a_row == 1:
                log.error("longwatch: the outbox %s cannot be written either: %s", self._outbox.path, error)
            self.tally.last_error = str(error)
            return False
        self._may_have_leftovers = True
        self.tally.in_outbox += len(events)
        return True

    def seconds_until_retry(self) -> float | None:
        """When to call `retry`, if no event comes along before; None while all is well."""
        return None if self._retry_at is None else max(0.0, self._retry_at - self._clock.monotonic())

    def retry(self) -> None:
        """Ship what waits in the outbox for this journal, if it is time."""
        if self._retry_at is None or self._clock.monotonic() < self._retry_at:
            return
        try:
            self._ship()
        except LongwatchError as error:
            self._failed(error)
        else:
            self._recovered()

    def close(self) -> None:
        """Let go of the journal and the outbox; a later delivery opens them again."""
        if self._journal is not None and self._close_journal:
            self._journal.close()
        self._journal = None
        self._outbox.close()

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = self._open()
        return self._journal

    def _append(self, events: Sequence[Event]) -> None:
        journal = self._opened()
        try:
            journal.append(events)
        except (InvalidEvent, EventConflict):
            for event in events:  # one of them is at fault; the others must not suffer
                self._append_one(journal, event)
        else:
            self.tally.stored += len(events)

    def _append_one(self, journal: Journal, event: Event) -> None:
        try:
            journal.append([event])
            self.tally.stored += 1
        except (InvalidEvent, EventConflict) as error:
            log.warning("longwatch: the journal refuses a %s event: %s", event.type, error)
            self._outbox.refuse(self._url, event, str(error))
            self.tally.refused += 1
            self.tally.last_error = str(error)

    def _failed(self, error: LongwatchError) -> None:
        self._failures_in_a_row += 1
        self.tally.failures += 1
        self.tally.last_error = str(error)
        self._retry_at = self._clock.monotonic() + retry_seconds(self._failures_in_a_row)
        if self._failures_in_a_row == 1:
            log.warning(
                "longwatch: events cannot be shipped to %s and wait in %s: %s",
                self._url,
                self._outbox.path,
                error,
            )

    def _recovered(self) -> None:
        was_out = self._retry_at is not None
        self._retry_at, self._failures_in_a_row = None, 0
        if was_out:
            log.warning("longwatch: %s can be reached again", self._url)
        if self._may_have_leftovers:
            try:
                self._ship()
            except LongwatchError as error:
                self._failed(error)

    def _ship(self) -> None:
        report = ShipReport()
        if self._outbox.path.exists():
            journal = self._opened()
            while shipped := self._outbox.ship_batch(journal, self._url, report):
                self.tally.stored += shipped
                self.tally.in_outbox = max(0, self.tally.in_outbox - shipped)
        self.tally.refused += report.refused
        self._may_have_leftovers = False


def retry_seconds(failures: int) -> float:
    """1, 2, 4, 8, 16, 30, 30 … The doublings are capped first: some outages last all night."""
    return min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10))
