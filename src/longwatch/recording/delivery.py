"""Delivers events to the journal, or to the outbox while the journal is unreachable.

Only the writer uses a delivery, except that another thread may `abandon` one that is stuck and `leave` its
events in the outbox. From then on the stuck delivery counts nothing, so the counts stay exact. An event that
is both in the outbox and in the journal is harmless: journals recognise an event by its id.

An outage begins with the first failed append: events go to the outbox, and the journal is retried after 1, 2,
4, 8, 16, 30, 30 … seconds. One warning reports it. Events in the outbox are shipped in batches between groups
of new events, so that a long backlog delays nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from longwatch.clock import Clock
from longwatch.errors import RunDeleted
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.recording.outbox import CLAIM_MS, Outbox, ShipReport, announcements, append_valid

log = logging.getLogger("longwatch")

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 30.0
LEAVING_BUSY_MS = 2_000  # how long `leave` waits for an outbox that another process has locked


@dataclass(slots=True)
class DeliveryCounts:
    """What became of the events so far. `recorded` includes events that no other count has yet."""

    recorded: int = 0
    stored: int = 0
    in_outbox: int = 0
    refused: int = 0
    lost: int = 0
    failures: int = 0
    last_error: str | None = None
    outbox_owners: set[str] = field(default_factory=set)  # producers, or else ids, of events put there


class Delivery:
    """One journal and its outbox."""

    def __init__(
        self,
        url: str,
        open_: Callable[[], Journal],
        outbox: Outbox,
        *,
        clock: Clock,
        close_journal: bool = True,
        counts: DeliveryCounts | None = None,
    ) -> None:
        self._close_journal = close_journal  # False: the caller owns it
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
        self._has_refused = False
        self._has_dropped = False  # events of a deleted run
        self._unacknowledged: list[Event] = []
        self._is_abandoned = False
        self._counting = threading.RLock()  # a signal handler may abandon what its own thread delivers
        self.cached_ttl_seconds: int | None = None  # of the journal, once it was opened
        self.counts = DeliveryCounts() if counts is None else counts

    @property
    def reachable_journal(self) -> Journal | None:
        """The journal, if it is open and there is no outage."""
        return self._journal if self._retry_at is None else None

    def default_ttl_seconds(self) -> int | None:
        """The journal's default time to live of events; None while it cannot be opened."""
        try:
            self.cached_ttl_seconds = self._open_once().default_ttl_seconds
            return self.cached_ttl_seconds
        except Exception:  # noqa: BLE001 - the delivery that follows fails the same way, and logs it
            return None

    def accept(self, events: Sequence[Event]) -> None:
        """Accept events: the next `deliver` delivers them, or `abandon` returns them."""
        with self._counting:
            self._unacknowledged += events
            self.counts.recorded += len(events)

    def deliver(self, events: Sequence[Event] = (), *, use_journal: bool = True) -> bool:
        """Store the accepted events in the journal or the outbox. False: neither could; retry later."""
        self.accept(events)
        with self._counting:
            batch = list(self._unacknowledged)
        if not batch:
            return not self._is_abandoned
        if use_journal and (self._retry_at is None or self._clock.monotonic() >= self._retry_at):
            try:
                refused = self._append(batch)
            except Exception as error:  # noqa: BLE001 - whatever the journal raises, no event may be lost
                self._on_failure(error)
            else:
                self._acknowledge(batch, stored=len(batch) - refused, refused=refused)
                self._on_success()
                return True
        return self._put_in_outbox(batch)

    @property
    def is_holding(self) -> bool:
        """Whether accepted events are in neither the journal nor the outbox."""
        return bool(self._unacknowledged)

    def abandon(self) -> list[Event]:
        """Stop counting and return the unacknowledged events. Another thread calls it on a stuck delivery."""
        with self._counting:
            self._is_abandoned = True
            left, self._unacknowledged = self._unacknowledged, []
            return left

    def leave(self, events: Sequence[Event], closing: Sequence[Event]) -> bool:
        """After `abandon`: put these events in the outbox, over a connection of its own.

        `closing` has the closing events of the producers, which were not accepted before. False: the outbox
        cannot be written, and nothing was counted.
        """
        outbox = Outbox(self._outbox.path, clock=self._clock, busy_timeout_ms=LEAVING_BUSY_MS)
        try:
            outbox.put(self._url, [*events, *closing])
        except Exception as error:  # noqa: BLE001 - the caller reports it with the counts
            self.counts.last_error = str(error) or repr(error)
            return False
        finally:
            outbox.close()
        self.counts.recorded += len(closing)
        self.counts.in_outbox += len(events) + len(closing)
        self.counts.outbox_owners.update(map(_owner, [*events, *closing]))
        return True

    def hold(self, events: Sequence[Event], closing: Sequence[Event]) -> None:
        """Accept events that an earlier delivery of this recorder could not `leave`."""
        with self._counting:
            self._unacknowledged[:0] = [*events, *closing]
            self.counts.recorded += len(closing)

    def give_up(self, uncounted: int, error: str) -> None:
        """Count the accepted events, and `uncounted` further ones, as lost."""
        with self._counting:
            self.counts.recorded += uncounted
            self.counts.lost += uncounted + len(self._unacknowledged)
            self.counts.last_error = error
            self._unacknowledged = []

    def count_refused(self, error: str) -> int:
        """Count an invalid event; returns the number of refused events so far."""
        with self._counting:
            self.counts.recorded += 1
            self.counts.refused += 1
            self.counts.last_error = error
            return self.counts.refused

    def seconds_until_shipping(self) -> float | None:
        """When to call `ship` if no event arrives before; None while the outbox is empty."""
        return None if self._ship_at is None else max(0.0, self._ship_at - self._clock.monotonic())

    def ship(self) -> None:
        """Ship one batch of the outbox to this journal, if it is due."""
        if self._ship_at is None or self._clock.monotonic() < self._ship_at:
            return
        try:
            shipped = self._outbox.exists() and self._ship_batch()
            waits = shipped or (self._outbox.exists() and self._is_claimed_elsewhere())
        except Exception as error:  # noqa: BLE001 - the events stay in the outbox, and are retried
            self._on_ship_failure(error)
            return
        self._ship_failures_in_a_row = 0
        if shipped:
            self._on_success()
        elif waits:  # another process ships the rest; check again in case it exits
            self._ship_at = self._clock.monotonic() + CLAIM_MS / 1000
        else:
            self._ship_at = None

    def ship_all(self, seconds: float) -> None:
        """Ship batches until the outbox is empty, the journal fails or the time is over."""
        deadline = self._clock.monotonic() + seconds
        while self.seconds_until_shipping() == 0.0 and self._clock.monotonic() < deadline:
            self.ship()

    def close(self) -> None:
        """Close the journal and the outbox; a later delivery opens them again."""
        try:
            if self._journal is not None and self._close_journal:
                self._journal.close()
        finally:
            self._journal = None
            self._outbox.close()

    def _open_once(self) -> Journal:
        if self._journal is None:
            self._journal = self._open()
            self._url = self._journal.url  # the absolute path: a later shipper may run in another folder
        return self._journal

    def _put_in_outbox(self, batch: list[Event]) -> bool:
        try:
            self._outbox.put(self._url, batch)
        except Exception as error:  # noqa: BLE001 - then the events stay in memory
            if not self._outbox_failed:
                log.error("longwatch: cannot write the outbox %s: %s", self._outbox.path, error)
            self._outbox_failed = True
            self.counts.last_error = str(error)
            return False
        self._outbox_failed = False
        self._ship_at = self._clock.monotonic() if self._retry_at is None else self._retry_at
        self._acknowledge(batch, in_outbox=len(batch))
        return True

    def _acknowledge(
        self, batch: list[Event], *, stored: int = 0, in_outbox: int = 0, refused: int = 0
    ) -> None:
        with self._counting:
            if self._is_abandoned:
                return
            del self._unacknowledged[: len(batch)]
            self.counts.stored += stored
            self.counts.in_outbox += in_outbox
            self.counts.refused += refused
            if in_outbox:
                self.counts.outbox_owners.update(map(_owner, batch))

    def _append(self, events: Sequence[Event]) -> int:
        """Append the events; returns how many of them the journal refused."""
        journal = self._open_once()
        result = append_valid(journal, events)
        self._announce(journal, result.accepted)
        for event, reason in result.refused:
            self._store_refused(event, reason)
        if result.deletion is not None:
            self._report_deletion(result.deletion)
        return len(result.refused) + len(result.dropped)

    def _report_deletion(self, error: RunDeleted) -> None:
        """Log once that events of deleted runs are dropped. Nothing is stored: their text is to be gone."""
        self.counts.last_error = str(error)
        if not self._has_dropped:
            self._has_dropped = True
            log.warning("longwatch: %s Its further events are dropped and counted as refused.", error)

    def _announce(self, journal: Journal, events: Sequence[Event]) -> None:
        """Announce events that are older than the window that readers re-read."""
        limit = journal.announce_after_ms
        if limit is not None:
            now = self._clock.now_ms()
            late = [event for event in events if event.occurred_at < now - limit]
            journal.append(announcements(late, now))

    def _store_refused(self, event: Event, reason: str) -> None:
        self.counts.last_error = reason
        if not self._has_refused:
            self._has_refused = True
            log.warning(
                "longwatch: the journal rejected a %s event, which is stored in %s: %s; "
                "further ones are only counted",
                event.type,
                self._outbox.path,
                reason,
            )
        try:
            self._outbox.refuse(self._url, event, reason)
        except Exception as error:  # noqa: BLE001
            log.error("longwatch: cannot store a rejected %s event: %s", event.type, error)

    def _on_failure(self, error: Exception) -> None:
        self._failures_in_a_row += 1
        self.counts.failures += 1
        self.counts.last_error = str(error) or repr(error)
        self._retry_at = self._clock.monotonic() + retry_seconds(self._failures_in_a_row)
        if self._ship_at is not None:
            self._ship_at = self._retry_at
        if self._failures_in_a_row == 1:
            log.warning(
                "longwatch: cannot deliver events to %s, so they wait in %s: %s",
                self._url,
                self._outbox.path,
                self.counts.last_error,
            )

    def _on_success(self) -> None:
        if self._retry_at is not None:
            log.warning("longwatch: %s is reachable again", self._url)
            self._ship_at = self._clock.monotonic()
        self._retry_at, self._failures_in_a_row = None, 0

    def _ship_batch(self) -> bool:
        journal = self._open_once()
        shipped = False
        # Events from before the journal could be opened are stored under its URL as configured.
        for url in {self._url, self._given_url}:
            report = ShipReport()
            shipped |= self._outbox.ship_batch(journal, url, report)
            self._count_shipped(report)
        return shipped

    def _count_shipped(self, report: ShipReport) -> None:
        """Count the shipped events of this recorder; other processes use the same outbox."""
        with self._counting:
            if self._is_abandoned:
                return
            owners = self.counts.outbox_owners
            stored, refused = (
                sum(_owner(event) in owners for event in events)
                for events in (report.accepted, report.rejected)
            )
            self.counts.stored += stored
            self.counts.refused += refused
            self.counts.in_outbox -= stored + refused

    def _is_claimed_elsewhere(self) -> bool:
        return any(batch.url in (self._url, self._given_url) for batch in self._outbox.pending())

    def _on_ship_failure(self, error: Exception) -> None:
        if self._retry_at is not None:  # the outage continues
            self._on_failure(error)
            return
        self._ship_failures_in_a_row += 1
        self._ship_at = self._clock.monotonic() + retry_seconds(self._ship_failures_in_a_row)
        self.counts.last_error = str(error) or repr(error)
        if self._ship_failures_in_a_row == 1:
            log.warning("longwatch: cannot ship the events in %s yet: %s", self._outbox.path, error)


def retry_seconds(failures: int) -> float:
    """1, 2, 4, 8, 16, 30, 30 … The exponent is capped first: some outages last all night."""
    return min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10))


def _owner(event: Event) -> str:
    return event.event_id if event.producer is None else event.producer
