"""Heartbeats in a SQLite file delay no event and change nothing that readers of events see."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from longwatch.events import Event
from longwatch.journal.sqlite import SqliteJournal

STEP = Event(run_id="wf-1", event_id="e1", type="step", occurred_at=1_000)


def test_a_locked_file_skips_the_heartbeat_at_once(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        journal.beat("p", 1)
        holder = sqlite3.connect(journal.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")

        journal.beat("p", 2)
        holder.execute("COMMIT")
        holder.close()

        assert journal.heartbeats(["p"]) == {"p": 1}


def test_a_heartbeat_takes_no_arrival_position(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        journal.wait(0)

        journal.beat("p", 1)

        assert journal.last_arrival() == 1
        assert not journal.wait(0)
        assert list(journal.arrivals(1, limit=10)) == []


def test_a_follower_in_this_process_is_not_woken_by_a_heartbeat(tmp_path: Path) -> None:
    calls: list[str] = []
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
        listening = journal.listen(lambda: calls.append("appended"))

        journal.beat("p", 1)
        listening.close()

    assert calls == []


def test_old_heartbeats_are_pruned(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.beat("old", 1_000)
        journal.beat("new", 3_000)

        journal.prune(2_000)

        assert journal.heartbeats(["old", "new"]) == {"new": 3_000}


def test_a_file_of_before_gets_the_table(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append([STEP])
    before = sqlite3.connect(tmp_path / "j.db")
    before.execute("DROP TABLE heartbeats")
    before.execute("PRAGMA user_version = 1")
    before.commit()
    before.close()

    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.beat("p", 1)

        assert journal.heartbeats(["p"]) == {"p": 1}
        assert list(journal.read("wf-1").events) == [STEP]
