"""Heartbeats beside a SQLite file delay no event and change nothing that readers of events see."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event

IMPORTS = "from pathlib import Path; from longwatch.journal.sqlite import SqliteJournal"
STEP = Event(run_id="wf-1", event_id="e1", type="step", occurred_at=1_000)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield
    holder.execute("COMMIT")
    holder.close()


def test_a_locked_file_skips_the_heartbeat_at_once(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.beat("p", 1)

        with locked(tmp_path / "j.db-heartbeats"):
            journal.beat("p", 2)
            journal.prune(2)

        assert journal.heartbeats(["p"]) == {"p": 1}


def test_a_heartbeat_is_stored_while_the_journal_is_locked(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])

        with locked(journal.path):
            journal.beat("p", 1)

        assert journal.heartbeats(["p"]) == {"p": 1}


def test_a_heartbeat_takes_no_arrival_position(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])

        journal.beat("p", 1)

        assert journal.last_arrival() == 1
        assert list(journal.arrivals(1, limit=10)) == []


def test_a_follower_in_this_process_is_not_woken_by_a_heartbeat(tmp_path: Path) -> None:
    calls: list[str] = []
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        signal = journal.subscribe(lambda: calls.append("appended"))

        journal.beat("p", 1)
        signal.close()

    assert calls == []


@pytest.mark.parametrize("inotify", [True, False])
def test_a_follower_in_another_process_is_not_woken_by_a_heartbeat(tmp_path: Path, inotify: bool) -> None:
    path = tmp_path / "j.db"
    with SqliteJournal(path) as journal:
        journal.append([STEP])
        journal.beat("p", 1)  # creates the file
        signal = journal.subscribe(lambda: None, inotify=inotify)
        signal.drain(), signal.changed()

        beats = f"with SqliteJournal(Path({str(path)!r})) as journal:\n    journal.beat('q', 2)"
        subprocess.run([sys.executable, "-c", f"{IMPORTS}\n{beats}"], check=True)

        assert not signal.drain()
        assert not signal.changed()
        assert journal.heartbeats(["p", "q"]) == {"p": 1, "q": 2}
        signal.close()


def test_heartbeats_of_an_earlier_version_are_read_from_the_journal_itself(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        before = sqlite3.connect(journal.path, isolation_level=None)
        before.execute("INSERT INTO heartbeats VALUES ('p', 5), ('q', 6), ('r', 7)")
        before.close()
        journal.beat("q", 2)
        journal.beat("r", 9)

        assert journal.heartbeats(["p", "q", "r"]) == {"p": 5, "q": 6, "r": 9}


def test_a_heartbeat_file_that_is_lost_is_created_anew(tmp_path: Path) -> None:
    path = tmp_path / "j.db-heartbeats"
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        journal.beat("p", 1)
        path.unlink()

        for at in (2, 3):  # the first one finds out
            journal.beat("p", at)

        assert journal.heartbeats(["p"]) == {"p": 3}
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(journal.read("wf-1").events) == [STEP]


def test_a_journal_behind_a_symbolic_link_has_the_same_heartbeats(tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        journal.beat("p", 5)
        link.symlink_to(journal.path)

        with SqliteJournal(link) as linked:
            linked.beat("q", 6)

            assert linked.heartbeats(["p", "q"]) == {"p": 5, "q": 6}
        assert journal.heartbeats(["p", "q"]) == {"p": 5, "q": 6}
    assert [each.name for each in link.parent.iterdir()] == ["link.db"]


def test_a_heartbeat_does_not_create_the_folder_of_a_deleted_journal(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with SqliteJournal(folder / "j.db") as journal:
        journal.append([STEP])
        journal.beat("p", 1)
        shutil.rmtree(folder)

        journal.beat("p", 2)
        journal.beat("p", 3)

        assert not folder.exists()


def test_a_damaged_heartbeat_file_hides_no_older_heartbeat_and_stops_no_prune(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        with sqlite3.connect(journal.path) as earlier:
            earlier.execute("INSERT INTO heartbeats VALUES ('p', 3000)")
        earlier.close()
        (tmp_path / "j.db-heartbeats").write_bytes(b"no database" * 100)

        assert journal.heartbeats(["p"]) == {"p": 3_000}
        assert journal.prune(2_000) == 1

    assert "old heartbeats could not be deleted" in caplog.text


def test_old_heartbeats_are_pruned(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.beat("old", 1_000)
        journal.beat("new", 3_000)

        journal.prune(2_000)

        assert journal.heartbeats(["old", "new"]) == {"new": 3_000}


def test_a_file_of_an_earlier_version_gets_the_table(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
    before = sqlite3.connect(tmp_path / "j.db")
    before.execute("DROP TABLE heartbeats")
    before.execute("DROP TABLE tombstones")
    before.execute("PRAGMA user_version = 1")
    before.commit()
    before.close()

    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.beat("p", 1)

        assert journal.heartbeats(["p"]) == {"p": 1}
        assert list(journal.read("wf-1").events) == [STEP]
