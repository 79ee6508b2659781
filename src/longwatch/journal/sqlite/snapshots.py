"""Views of large runs that have ended, in a file beside a SQLite journal that can be deleted at any time.

Appends never write it. A reader that has folded a large run stores the view that it has made, and a later one
needs neither the events nor the fold. A snapshot is valid for one summary of the run and the number of events
that it states: an event that is added or deleted makes the snapshot invalid, and so does one that was lost. A
digest of the snapshot shows damage to it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import JournalUnusable, LongwatchError
from longwatch.journal.sqlite.rows import encode_run
from longwatch.journal.sqlite.side_files import delete_file, snapshots_path
from longwatch.model.event import UNREADABLE
from longwatch.model.run import Run, RunSummary
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database, Schema

if TYPE_CHECKING:
    from longwatch.journal.sqlite.journal import SqliteJournal

SCHEMA = Schema(  # "lwv1"
    application_id=0x6C77_7631, package="longwatch.journal.sqlite", folder="snapshot_migrations"
)
VERSION = 2  # of what readers store; grows when they would store something else
LARGE_EVENTS = 20_000  # a smaller run is folded in less than a second
MAX_SNAPSHOTS = 100

FIND = "SELECT state, digest, body FROM snapshots WHERE run_id = ? AND view = ?"
SAVE = "INSERT OR REPLACE INTO snapshots (run_id, view, state, digest, body) VALUES (?, ?, ?, ?, ?)"
LIMIT = """
    DELETE FROM snapshots WHERE rowid NOT IN (SELECT rowid FROM snapshots ORDER BY rowid DESC LIMIT ?)"""

log = logging.getLogger("longwatch")


class RunSnapshots:
    """Finds and stores views of large runs. A file that cannot be used is a view that was not found."""

    def __init__(self, journal: SqliteJournal, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._journal = journal
        self.path = snapshots_path(journal.path)
        self._database = Database(
            self.path,
            schema=SCHEMA,
            clock=clock,
            busy_timeout_ms=BUSY_TIMEOUT_MS,
            recreates=True,
            synchronous="NORMAL",
        )

    def find(self, run: RunSummary, view: str, depends_on: str) -> bytes | None:
        """The view of the run as it is stored now. `depends_on` states what else the view depends on."""
        if not is_eligible(run) or not self.path.exists():
            return None
        try:
            rows = self._database.fetch(FIND, (run.run_id, view))
        except LongwatchError as error:
            self._report(error)
            return None
        if not rows:
            return None
        state, digest, body = rows[0]
        if state != _state_of(run, depends_on) or digest != _digest_of(run, view, state, body):
            return None
        # The journal may have lost events since. The reader reports that, so it reads those that are left.
        return bytes(body) if self._journal.count_events(run.run_id) == run.events else None

    def save(self, run: Run, view: str, depends_on: str, body: bytes) -> None:
        """Store the view, unless the journal has other events of the run, or some that will expire."""
        if not is_eligible(run.summary) or UNREADABLE in run.counts:
            return
        try:
            stored = self._journal.find_run(run.run_id)
            if stored is None or not is_eligible(stored) or stored.events != run.summary.events:
                return
            if self._journal.has_expiring_events():
                return
            state = _state_of(stored, depends_on)
            digest = _digest_of(stored, view, state, body)
            with self._database.writing() as connection:
                connection.execute(SAVE, (run.run_id, view, state, digest, body))
                connection.execute(LIMIT, (MAX_SNAPSHOTS,))
            if self._journal.find_run(run.run_id) is None:  # it was deleted meanwhile
                self._discard()
        except LongwatchError as error:
            self._report(error)

    def _report(self, error: LongwatchError) -> None:
        log.warning("longwatch: %s cannot be used (%s).", self.path, type(error).__name__)
        if isinstance(error, JournalUnusable):
            self._discard()

    def _discard(self) -> None:
        """Delete the file; the next snapshot creates it again."""
        self._database.close()
        with suppress(OSError):
            delete_file(self.path)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def is_eligible(run: RunSummary) -> bool:
    """Whether the run is large and has ended."""
    return run.events >= LARGE_EVENTS and run.ending is not None


def _state_of(run: RunSummary, depends_on: str) -> str:
    parts = (version("longwatch"), str(VERSION), encode_run(run), depends_on)
    return sha256("\n".join(parts).encode()).hexdigest()


def _digest_of(run: RunSummary, view: str, state: str, body: bytes) -> str:
    """Of the whole row: a body that is sound belongs to it."""
    return sha256("\n".join((run.run_id, view, state, "")).encode() + body).hexdigest()
