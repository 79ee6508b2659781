"""The full-text index beside a SQLite journal: a file that can be deleted at any time.

Appends never write it. A search, or a server, indexes what has arrived since. An index that is damaged, of
another program or of another journal is deleted and filled again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import JournalUnusable
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import Arrivals
from longwatch.journal.sqlite.side_files import delete_file, search_path
from longwatch.model.event import RUN_DELETED, Event
from longwatch.model.text_search import event_text
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database, Schema

SCHEMA = Schema(  # "lws1"
    application_id=0x6C77_7331, package="longwatch.journal.sqlite", folder="search_migrations"
)
EVENTS_AT_ONCE = 500
MATCHES_AT_ONCE = 200

ADD_TEXT = "INSERT INTO event_texts (position, run_id, body) VALUES (?, ?, ?)"
ADD_WORDS = "INSERT INTO texts (rowid, body) VALUES (?, ?)"
DELETE_WORDS = """
    INSERT INTO texts (texts, rowid, body)
    SELECT 'delete', position, body FROM event_texts WHERE run_id = ?"""
DELETE_TEXTS = "DELETE FROM event_texts WHERE run_id = ?"
MERGE = "INSERT INTO texts (texts) VALUES ('optimize')"  # until then, the words are still in the file
PROGRESS = "SELECT position, event_id FROM progress"
ADVANCE = "UPDATE progress SET position = ?, event_id = ? WHERE position = ?"
FIND = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"


def delete_runs(journal: Arrivals, journal_path: Path, run_ids: Iterable[str]) -> bool:
    """Delete the text of runs from the index, if there is one; an index that cannot be read is deleted.

    False: a reader still needs the index's write-ahead log, which may contain the text.
    """
    if not search_path(journal_path).exists():
        return True
    index = SearchIndex(journal, journal_path)
    try:
        return index.delete_runs(run_ids)
    except JournalUnusable:
        index.discard()
        return True
    finally:
        index.close()


class SearchIndex:
    """Finds the arrival positions of events by their text."""

    def __init__(self, journal: Arrivals, journal_path: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._journal = journal
        self.path = search_path(journal_path)
        self._clock = clock
        self._database = self._open()

    def _open(self) -> Database:
        return Database(
            self.path,
            schema=SCHEMA,
            clock=self._clock,
            busy_timeout_ms=BUSY_TIMEOUT_MS,
            recreates=True,
            synchronous="NORMAL",
        )

    def catch_up(self, *, max_events: int) -> int:
        """Index up to so many events that have arrived; returns the number of those that are left."""
        if not self._belongs_to_journal():
            self.discard()
        added = 0
        while added < max_events:
            count = self._add_batch(min(EVENTS_AT_ONCE, max_events - added))
            if count == 0:
                return 0
            added += count
        return max(0, self._journal.last_arrival() - self._progress()[0])

    def _progress(self) -> tuple[int, str]:
        position, event_id = self._database.fetch(PROGRESS)[0]
        return position, event_id

    def _belongs_to_journal(self) -> bool:
        """False if the journal was replaced or restored since the index was filled."""
        position, event_id = self._progress()
        if position == 0:
            return True
        if position > self._journal.last_arrival():
            return False
        last = self._journal.arrivals(position - 1, limit=1)
        return not last or last[0][0] != position or last[0][1].event_id == event_id

    def _add_batch(self, limit: int) -> int:
        position = self._progress()[0]
        if self._journal.last_arrival() <= position:
            return 0
        # Read while a `delete_runs` waits: it removes what is added here, or has removed it before.
        with self._database.writing() as connection:
            arrived = self._journal.arrivals(position, limit=limit)
            if not arrived:
                return 0
            last, event = arrived[-1]
            if connection.execute(ADVANCE, (last, event.event_id, position)).rowcount:
                rows = _indexed_rows(arrived)  # else another process has indexed them
                connection.executemany(ADD_TEXT, rows)
                connection.executemany(ADD_WORDS, [(at, body) for at, _, body in rows])
        deleted = [event.run_id for _, event in arrived if event.type == RUN_DELETED]
        if deleted:  # the process that deleted them may have been killed before it reached the index
            self.delete_runs(deleted)
        return len(arrived)

    def find(
        self, phrases: Sequence[Sequence[str]], *, before: int | None = None
    ) -> Iterator[tuple[int, Event]]:
        """The events with all of these phrases, and their positions: the latest arrival first.

        The events are those that the journal has now.
        """
        expression = " AND ".join(f'"{" ".join(phrase)}" *' for phrase in phrases)
        before = self._progress()[0] + 1 if before is None else before
        while positions := self._database.fetch(FIND, (expression, before, MATCHES_AT_ONCE)):
            for (position,) in positions:
                for at, event in self._journal.arrivals(position - 1, limit=1):
                    if at == position:  # else it was deleted or has expired
                        yield position, event
            before = positions[-1][0]

    def delete_runs(self, run_ids: Iterable[str]) -> bool:
        """Delete the text of these runs, after their events were deleted from the journal."""
        runs = [(run_id,) for run_id in run_ids]
        with self._database.writing() as connection:
            connection.executemany(DELETE_WORDS, runs)
            if connection.executemany(DELETE_TEXTS, runs).rowcount:
                connection.execute(MERGE)
        return self._database.truncate_log()

    def discard(self) -> None:
        """Delete the index; the next search fills it again."""
        self._database.close()
        try:
            delete_file(self.path)
        except OSError as error:
            raise JournalUnusable(f"Cannot replace {self.path}: {error.strerror}. Delete it.") from error
        self._database = self._open()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _indexed_rows(arrived: Iterable[Arrival]) -> list[tuple[int, str, str]]:
    """The position, the run and the text of each event, folded as the words of a query are."""
    return [
        (at, event.run_id, event_text(event).casefold()) for at, event in arrived if event.type != RUN_DELETED
    ]
