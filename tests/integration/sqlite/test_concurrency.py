"""One file, many threads and processes."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import SCHEMA
from longwatch.model.event import START, Event
from longwatch.storage.sqlite.database import Database
from longwatch.storage.sqlite.forking import register
from tests.patience import PATIENCE_SECONDS


def event(run_id: str, n: int) -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}-{n:05}", type="step", occurred_at=1_000 - n)


OPENING = """
import sys
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import SCHEMA
name = sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
with SqliteJournal(Path(sys.argv[1])) as journal:
    journal.append([Event(run_id="wf-1", event_id=name, type="step", occurred_at=1)])
"""


def test_a_file_that_another_process_creates_during_the_check_is_not_mistaken_for_a_foreign_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    connect = Database._connect

    def watched(database: Database, **options: Any) -> sqlite3.Connection:
        connection = connect(database, **options)

        def meanwhile(statement: str) -> None:
            if "sqlite_master" in statement:  # the moment between two questions about the file
                monkeypatch.setattr(Database, "_connect", connect)
                with SqliteJournal(path) as other:
                    other.append([event("wf-1", 1)])

        connection.set_trace_callback(meanwhile)
        return connection

    monkeypatch.setattr(Database, "_connect", watched)
    with SqliteJournal(path) as journal:
        journal.append([event("wf-1", 2)])
        assert len(journal.read("wf-1").events) == 2


def test_eight_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(path), f"e{n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(8)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=PATIENCE_SECONDS)[1] for process in processes]

    assert errors == [""] * 8
    with SqliteJournal(path) as journal:
        assert {each.event_id for each in journal.read("wf-1").events} == {f"e{n}" for n in range(8)}
        assert journal.schema_version == len(SCHEMA.scripts())


def test_a_reader_sees_every_event_once_while_eight_threads_write(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journals = [SqliteJournal(path), SqliteJournal(path)]
    writing = threading.Semaphore(0)

    def write(thread: int) -> None:
        for n in range(40):
            journals[thread % 2].append([event("wf-1", thread * 100 + n)])
        writing.release()

    threads = [threading.Thread(target=write, args=(each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    cursor, left, found = START, 8, True
    with SqliteJournal(path) as reader:
        while left or found:
            left -= writing.acquire(blocking=False)
            page = reader.read("wf-1", after=cursor, limit=7)
            cursor, found = page.cursor, bool(page.events)
            seen += [each.event_id for each in page.events]
    for thread in threads:
        thread.join()
    for journal in journals:
        journal.close()

    assert len(seen) == len(set(seen)) == 320


def test_arrival_positions_grow_in_the_order_of_commits(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journals = [SqliteJournal(path) for _ in range(4)]

    def write(each: int) -> None:
        for n in range(25):
            journals[each].append([event(f"wf-{each}", 2 * n), event(f"wf-{each}", 2 * n + 1)])

    threads = [threading.Thread(target=write, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for journal in journals:
        journal.close()

    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT position, run_id, event_id FROM events ORDER BY position").fetchall()
    connection.close()
    assert [position for position, _, _ in rows] == list(range(1, 201))
    for each in range(4):
        ids = [event_id for _, run_id, event_id in rows if run_id == f"wf-{each}"]
        assert ids == sorted(ids)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_journal_may_be_used_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.append([event("wf-1", 1)])
    list(journal.read("wf-1").events)

    for n in range(2, 12):
        child = os.fork()
        if child == 0:
            try:
                journal.append([event("wf-1", n)])
                os._exit(0 if len(journal.read("wf-1").events) >= 2 else 3)
            finally:
                os._exit(4)
        journal.append([event("wf-1", 100 + n)])
        _, status = os.waitpid(child, 0)
        assert status == 0

    assert len(journal.read("wf-1").events) == 21
    journal.close()


FORKING = """
import os, sys, threading
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import SCHEMA

journal = SqliteJournal(Path(sys.argv[1]))
stop = threading.Event()

def write():
    n = 0
    while not stop.is_set():
        n += 1
        journal.append([Event(run_id="busy", event_id=f"e{n}", type="step", occurred_at=n,
                              payload={"x": "x" * 50_000})])

threads = [threading.Thread(target=write)]
for thread in threads: thread.start()
for n in range(40):
    child = os.fork()
    if child == 0:
        journal.append([Event(run_id="wf-1", event_id=f"c{n}", type="step", occurred_at=n)])
        if n % 3 == 0:
            journal.close()
        sys.exit(0)  # frees everything, as a program that ends does
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
journal.close()
"""


def test_a_fork_in_the_middle_of_a_transaction_harms_neither_side(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(path)], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with SqliteJournal(path) as journal:
        assert len(journal.read("wf-1").events) == 40
        busy = [each.occurred_at for each in journal.read("busy", limit=100_000).events]
    assert busy == list(range(1, len(busy) + 1))


READING = """
import os, sys, threading
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal

path = Path(sys.argv[1])
journal = SqliteJournal(path)
journal.append([Event(run_id="wf-1", event_id="e", type="step", occurred_at=1)])
stop = threading.Event()

def read():
    while not stop.is_set():
        journal.read("wf-1")

def open_files():
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # the one that lists them
            pass

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
inherited = 0
for _ in range(60):
    child = os.fork()
    if child == 0:
        os._exit(any(str(path) in each for each in open_files()))
    inherited += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
stop.set()
for thread in threads: thread.join()
journal.close()
print(inherited)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files in /proc")
def test_a_child_inherits_no_file_while_other_threads_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", READING, str(tmp_path / "journal.db")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


class Stuck:
    """A database with a query that outlasts every fork."""

    def pause(self, timeout_seconds: float) -> bool:
        return False

    def resume(self) -> None: ...

    def leave_to_parent(self) -> None: ...


def open_descriptors(path: Path) -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            found += descriptor.readlink() == path
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files in /proc")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forks_beside_a_long_query_leave_no_descriptors(tmp_path: Path) -> None:
    path, stuck = tmp_path / "journal.db", Stuck()
    journal = SqliteJournal(path)
    register(stuck)
    inherited = []

    for n in range(4):
        journal.append([event("wf-1", n)])
        child = os.fork()
        if child == 0:
            os._exit(open_descriptors(path))
        inherited.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    journal.close()
    assert (inherited, open_descriptors(path)) == ([0] * 4, 1)
    del stuck
    gc.collect()
    os.waitpid(os.fork() or os._exit(0), 0)
    assert open_descriptors(path) == 0
