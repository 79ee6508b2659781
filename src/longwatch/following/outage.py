"""Reports once that a journal cannot be read, and once that it can be read again."""

from __future__ import annotations

import logging

from longwatch.journal.base import Journal

log = logging.getLogger("longwatch")


class Outage:
    """What a hub reports of its journal, however many runs it polls and however many times that fails."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._error: str | None = None  # the last one that was reported in the outage under way

    def failed(self, error: Exception, retry_seconds: float) -> None:
        """A read failed and is retried. Another error than before is reported too."""
        message = str(error)
        if message != self._error:
            self._error = message
            log.warning(
                "longwatch: %s cannot be read, next try in %g s: %s",
                self._journal.url,
                retry_seconds,
                message,
            )

    def succeeded(self) -> None:
        """A read succeeded."""
        if self._error is not None:
            self._error = None
            log.warning("longwatch: %s can be read again", self._journal.url)
