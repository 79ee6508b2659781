"""Deleted runs leave no byte of their events in the files, and an interrupted deletion is resumed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.errors import RunDeleted
from longwatch.journal.search import search_events
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.deletions import BATCH, RunDeletions
from longwatch.journal.sqlite.recovery import recover
from longwatch.model.event import Event
from longwatch.model.query_language import parse_query
from longwatch.testing import FakeClock

SECRET = "heliotrope"


def step(run_id: str, number: int, text: str = "", type_: str = "tool_call") -> Event:
    return Event(
        run_id=run_id,
        event_id=f"{run_id}-{number:06}",
        type=type_,
        occurred_at=1_000 + number,
        payload={"tool": f"{text}-{number}", "text": text * 40},
    )


def record(journal: SqliteJournal, run_id: str, text: str, *, events: int = 60) -> None:
    """A run whose summary grows, appended one by one between those of others."""
    journal.append([step(run_id, 0, text, "workflow_start")])
    for number in range(1, events):
        journal.append([step(run_id, number, text)])
        journal.append([step(f"{run_id}-beside-{number % 7}", number, "beside")])
    journal.append([step(run_id, events, text, "workflow_complete")])


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    return SqliteJournal(tmp_path / "journal.db", clock=FakeClock(now_ms=50_000))


def files_with(folder: Path, text: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if text.encode() in path.read_bytes())


def test_no_file_contains_the_text_of_a_deleted_run(journal: SqliteJournal, tmp_path: Path) -> None:
    record(journal, "wf-kept", "lavender")
    record(journal, "wf-gone", SECRET)
    query = parse_query(SECRET, now_ms=50_000)
    assert len(search_events(journal, query, limit=5).hits) == 5
    assert "journal.db-search" in {name.removesuffix("-wal") for name in files_with(tmp_path, SECRET)}

    journal.delete_run("wf-gone", by="ann")

    assert files_with(tmp_path, SECRET) == []
    assert files_with(tmp_path, "lavender") == ["journal.db", "journal.db-search"]
    assert search_events(journal, query, limit=5).hits == []
    assert len(search_events(journal, parse_query("lavender", now_ms=50_000), limit=100).hits) == 61


def test_a_reader_of_an_old_snapshot_delays_only_the_truncation(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    record(journal, "wf-gone", SECRET)
    reader = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").fetchone()[0] > 60
    impatient = SqliteJournal(tmp_path / "journal.db", clock=FakeClock(now_ms=50_000), busy_timeout_ms=1)

    impatient.delete_run("wf-gone", by="ann")

    assert files_with(tmp_path, SECRET) != []
    assert not impatient.purge_deleted()
    reader.execute("ROLLBACK")
    assert impatient.purge_deleted()
    assert files_with(tmp_path, SECRET) == []


def test_a_deletion_that_stops_after_the_tombstone_hides_the_run_and_is_resumed(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    record(journal, "wf-gone", SECRET, events=BATCH + 20)
    record(journal, "wf-other", "lavender", events=2)
    RunDeletions(journal._database).add("wf-gone", by="ann", at_ms=50_000, force=False)

    with pytest.raises(RunDeleted):
        journal.read("wf-gone")
    with pytest.raises(RunDeleted):
        journal.append([step("wf-gone", 9_999)])
    arrived = journal.arrivals(0, limit=100_000)
    assert [event.type for _, event in arrived if event.run_id == "wf-gone"] == ["run_deleted"]
    assert search_events(journal, parse_query(SECRET, now_ms=50_000), limit=5).hits == []
    assert files_with(tmp_path, SECRET) != []

    journal.delete_run("wf-other", by="bob")

    stone = journal.tombstone("wf-gone")
    assert stone is not None
    assert (stone.events, stone.by) == (BATCH + 21, "ann")
    assert files_with(tmp_path, SECRET) == []


def test_no_file_receives_the_text_of_a_rejected_append(journal: SqliteJournal, tmp_path: Path) -> None:
    record(journal, "wf-gone", "lavender")
    journal.delete_run("wf-gone", by="ann")
    arrived = journal.last_arrival()

    with pytest.raises(RunDeleted):  # more than the page cache holds
        journal.append([step("wf-gone", number, SECRET * 20) for number in range(100, 700)])

    assert files_with(tmp_path, SECRET) == []
    assert journal.last_arrival() == arrived


def test_other_processes_may_write_between_two_batches(journal: SqliteJournal) -> None:
    record(journal, "wf-gone", SECRET, events=3 * BATCH)
    statements: list[str] = []
    with journal._database.writing() as connection:
        connection.set_trace_callback(statements.append)

    journal.delete_run("wf-gone", by="ann")

    assert statements.count("COMMIT") >= 5


def test_a_recovered_file_has_the_tombstones_and_no_event_of_a_deleted_run(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    record(journal, "wf-gone", SECRET)
    record(journal, "wf-half", SECRET)
    stone = journal.delete_run("wf-gone", by="ann")
    RunDeletions(journal._database).add("wf-half", by="bob", at_ms=50_000, force=False)
    journal.close()

    recover(tmp_path / "journal.db", tmp_path / "new.db", clock=FakeClock(now_ms=60_000))

    with SqliteJournal(tmp_path / "new.db", clock=FakeClock(now_ms=60_000)) as recovered:
        assert recovered.tombstone("wf-gone") == stone
        for run_id in ("wf-gone", "wf-half"):
            with pytest.raises(RunDeleted):
                recovered.append([step(run_id, 9_999)])
    assert SECRET.encode() not in (tmp_path / "new.db").read_bytes()


DELETE = """
import os, signal, sys
from pathlib import Path
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.deletions import RunDeletions

batches = 0
remove = RunDeletions._remove_batch

def killed(self, run_id):
    global batches
    if batches == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    batches += 1
    return remove(self, run_id)

RunDeletions._remove_batch = killed
SqliteJournal(Path(sys.argv[1])).delete_run("wf-gone", by="ann")
"""


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_killed_deletion_leaves_the_run_deleted(
    journal: SqliteJournal, tmp_path: Path, batches: int
) -> None:
    record(journal, "wf-gone", SECRET, events=2 * BATCH)

    killed = subprocess.run(
        [sys.executable, "-c", DELETE, str(tmp_path / "journal.db"), str(batches)], check=False
    )

    assert killed.returncode == -signal.SIGKILL
    assert journal.find_run("wf-gone") is None
    stone = journal.tombstone("wf-gone")
    assert stone is not None
    assert stone.events == BATCH * batches
    assert journal.purge_deleted()
    stone = journal.tombstone("wf-gone")
    assert stone is not None
    assert stone.events == 2 * BATCH + 1
    assert files_with(tmp_path, SECRET) == []
