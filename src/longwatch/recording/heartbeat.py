"""The heartbeat of a process that records: one record in the journal, refreshed while runs are open.

A heartbeat narrows the interval in which a process that is gone must have ended; it never decides that one
is. Used by the writer thread alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from longwatch.clock import Clock
from longwatch.errors import WorthAnotherTry
from longwatch.journal.base import Heartbeats, Journal

log = logging.getLogger("longwatch")


class Heartbeat:
    """When the next heartbeat is due, and sending it."""

    def __init__(self, process_id: Callable[[], str], *, seconds: float | None, clock: Clock) -> None:
        self._process_id = process_id
        self._seconds = seconds  # None: as often as the journal says
        self._clock = clock
        self._due: float | None = None  # None: no run is open, so nothing is sent
        # A sandbox of Lambda is frozen between invocations: a missing heartbeat would mean nothing.
        self._is_on = seconds != 0 and not os.environ.get("AWS_LAMBDA_FUNCTION_NAME")

    def seconds_left(self) -> float | None:
        """How long until the next one; None while none is due."""
        return None if self._due is None else max(0.0, self._due - self._clock.monotonic())

    def update(self, journal: Journal | None, *, runs_are_open: bool) -> None:
        """Send a heartbeat if it is due. The first one is due an interval after a run was opened.

        `journal` is None while it can not be reached: then the heartbeat is left out.
        """
        if not self._is_on or not runs_are_open:
            self._due = None
            return
        now = self._clock.monotonic()
        if self._due is not None and now < self._due:
            return
        seconds = self._seconds
        if isinstance(journal, Heartbeats):
            if self._due is not None:
                self._send(journal)
            seconds = journal.heartbeat_seconds if seconds is None else seconds
        elif journal is not None:
            self._is_on = False  # it keeps none
        self._due = now + seconds if self._is_on and seconds is not None else None

    def _send(self, journal: Heartbeats) -> None:
        try:
            journal.beat(self._process_id(), self._clock.now_ms())
        except WorthAnotherTry:
            pass  # the next one will do
        except Exception as error:  # noqa: BLE001 - whatever it is, events go on without heartbeats
            self._is_on = False
            log.warning("longwatch: the journal accepts no heartbeats, so none are sent: %s", error)
