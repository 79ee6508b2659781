"""Getting events into the journal, or into the outbox until the journal can be reached again.

Used by the writer thread alone. An outage begins with the first failed append: from then on events go to
the outbox, and the journal is tried again after 1, 2, 4, 8, 16, 30, 30 … seconds. One warning tells of it.
What waits in the outbox is shipped a batch at a time, between groups of new events, so that a long backlog
holds up nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.errors import EventConflict, InvalidEvent
from longwatch.events import Event
from longwatch.journal.base import Journal
from longwatch.recording.outbox import CLAIM_MS, Outbox, ShipReport, announcements

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
        self._given_url = url
        self._failures_in_a_row = 0
        self._retry_at: float | None = None  # None: no outage
        self._ship_at: float | None = clock.monotonic()  # an earlier process may have left events behind
        self._ship_failures_in_a_row = 0
        self._outbox_failed = False
        self.tally = Tally()

    def default_ttl_seconds(self) -> int | None:
        """The journal's own rule for how long events live; None while it cannot be opened."""
        try:
            return self._opened().default_ttl_seconds
        except Exception:  # noqa: BLE001 - the delivery that follows fails the same way, and tells of it
            return None

    def deliver(self, events: Sequence[Event]) -> bool:
        """Store the events in the journal or in the outbox. False: neither took them; try again later."""
        if not events:
            return True
        if self._retry_at is None or self._clock.monotonic() >= self._retry_at:
            try:
                self._append(events)
            except Exception as error:  # noqa: BLE001 - whatever a journal raises, the events must not be lost
                self._failed(error)
            else:
                self._answered()
                return True
        try:
            self._outbox.put(self._url, events)
        except Exception as error:  # noqa: BLE001 - the same for the outbox: then they are held in memory
            if not self._outbox_failed:
                log.error("longwatch: the outbox %s cannot be written either: %s", self._outbox.path, error)
            self._outbox_failed = True
            self.tally.last_error = str(error)
            return False
        self._outbox_failed = False
        self._ship_at = self._retry_at
        self.tally.in_outbox += len(events)
        return True

    def seconds_until_shipping(self) -> float | None:
        """When to call `ship`, if no event comes along before; None while nothing waits in the outbox."""
        return None if self._ship_at is None else max(0.0, self._ship_at - self._clock.monotonic())

    def ship(self) -> None:
        """Ship one batch of what waits in the outbox for this journal, if it is time."""
        if self._ship_at is None or self._clock.monotonic() < self._ship_at:
            return
        try:
            shipped = self._outbox.exists() and self._ship_batch()
            waits = shipped or (self._outbox.exists() and self._waits_elsewhere())
        except Exception as error:  # noqa: BLE001 - the outbox keeps the events; their time will come
            self._shipping_failed(error)
            return
        self._ship_failures_in_a_row = 0
        if shipped:
            self._answered()
        elif waits:  # another process is shipping the rest; see to it that it does not stay half done
            self._ship_at = self._clock.monotonic() + CLAIM_MS / 1000
        else:
            self._ship_at = None

    def ship_all(self, seconds: float) -> None:
        """Ship for at most so long, unless there is nothing to ship or nowhere to ship it to."""
        deadline = self._clock.monotonic() + seconds
        while self.seconds_until_shipping() == 0.0 and self._clock.monotonic() < deadline:
            self.ship()

    def close(self) -> None:
        """Let go of the journal and the outbox; a later delivery opens them again."""
        try:
            if self._journal is not None and self._close_journal:
                self._journal.close()
        finally:
            self._journal = None
            self._outbox.close()

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = self._open()
            self._url = self._journal.url  # the whole path: who ships later may stand in another folder
        return self._journal

    def _append(self, events: Sequence[Event]) -> None:
        journal = self._opened()
        refused: list[tuple[Event, str]] = []
        try:
            journal.append(events)
        except (InvalidEvent, EventConflict):
            for event in events:  # one of them is at fault; the others must not suffer
                try:
                    journal.append([event])
                except (InvalidEvent, EventConflict) as error:
                    refused.append((event, str(error)))
        self._announce(journal, events)
        self.tally.stored += len(events) - len(refused)
        for event, reason in refused:
            self._keep_refused(event, reason)

    def _announce(self, journal: Journal, events: Sequence[Event]) -> None:
        """Tell readers to look back for what is older than they look by themselves."""
        limit = journal.announce_after_ms
        if limit is not None:
            now = self._clock.now_ms()
            late = [event for event in events if event.occurred_at < now - limit]
            journal.append(announcements(late, now))

    def _keep_refused(self, event: Event, reason: str) -> None:
        self.tally.refused += 1
        self.tally.last_error = reason
        if self.tally.refused == 1:
            log.warning(
                "longwatch: the journal refuses a %s event, kept in %s: %s; further ones are only counted",
                event.type,
                self._outbox.path,
                reason,
            )
        try:
            self._outbox.refuse(self._url, event, reason)
        except Exception as error:  # noqa: BLE001
            log.error("longwatch: a refused %s event cannot be kept: %s", event.type, error)

    def _failed(self, error: Exception) -> None:
        self._failures_in_a_row += 1
        self.tally.failures += 1
        self.tally.last_error = str(error) or repr(error)
        self._retry_at = self._clock.monotonic() + retry_seconds(self._failures_in_a_row)
        if self._ship_at is not None:
            self._ship_at = self._retry_at
        if self._failures_in_a_row == 1:
            log.warning(
                "longwatch: events cannot be shipped to %s and wait in %s: %s",
                self._url,
                self._outbox.path,
                self.tally.last_error,
            )

    def _answered(self) -> None:
        if self._retry_at is not None:
            log.warning("longwatch: %s can be reached again", self._url)
            self._ship_at = self._clock.monotonic()
        self._retry_at, self._failures_in_a_row = None, 0

    def _ship_batch(self) -> bool:
        journal = self._opened()
        report = ShipReport()
        # Events that had to wait before the journal could even be opened wait under the address as given.
        shipped = [self._outbox.ship_batch(journal, url, report) for url in {self._url, self._given_url}]
        ours = min(report.shipped, self.tally.in_outbox)  # the rest was left by other processes
        self.tally.stored += ours
        self.tally.in_outbox -= ours
        self.tally.refused += report.refused
        return any(shipped)

    def _waits_elsewhere(self) -> bool:
        return any(batch.url in (self._url, self._given_url) for batch in self._outbox.pending())

    def _shipping_failed(self, error: Exception) -> None:
        if self._retry_at is not None:  # the outage goes on
            self._failed(error)
            return
        self._ship_failures_in_a_row += 1
        self._ship_at = self._clock.monotonic() + retry_seconds(self._ship_failures_in_a_row)
        self.tally.last_error = str(error) or repr(error)
        if self._ship_failures_in_a_row == 1:
            log.warning("longwatch: what waits in %s cannot be shipped yet: %s", self._outbox.path, error)


def retry_seconds(failures: int) -> float:
    """1, 2, 4, 8, 16, 30, 30 … The doublings are capped first: some outages last all night."""
    return min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10))
