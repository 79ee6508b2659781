"""Documents in a SQLite file: beside a journal, with other processes, and in trouble."""

from __future__ import annotations

import os
import select
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from longwatch.documents.stores.factory import open_documents
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.errors import JournalBusy, NewerJournal, NotADatabase
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.patience import PATIENCE_SECONDS

WRITER = """
import sys
from pathlib import Path
from longwatch.documents.stores.sqlite import SqliteDocumentStore

path, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with SqliteDocumentStore(path) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(rounds):
        before = store.text("p", "shared.md")
        store.write_text("p", "shared.md", before + f"<{name}.{number}>\\n", base=before)
        store.write_text("p", f"{name}.md", f"round {number}")
"""


def start_writer(path: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(rounds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def let_go(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()


def wait_until_ready(writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"


def test_processes_that_write_one_document_lose_nothing(tmp_path: Path) -> None:
    path, rounds = tmp_path / "documents.db", 20
    with SqliteDocumentStore(path) as store:
        store.write_text("p", "shared.md", "")
        writers = [start_writer(path, name, rounds) for name in "abc"]
        for writer in writers:
            wait_until_ready(writer)
        for writer in writers:
            let_go(writer)
        for writer in writers:
            writer.communicate(timeout=PATIENCE_SECONDS)

        lines = store.text("p", "shared.md").splitlines()
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        assert sorted(lines) == sorted(f"<{name}.{number}>" for name in "abc" for number in range(rounds))
        assert store.read("p", "shared.md").version == 1 + 3 * rounds
        assert store.project_version("p") == 1 + 6 * rounds
        assert [store.text("p", f"{name}.md") for name in "abc"] == [f"round {rounds - 1}"] * 3


@pytest.mark.parametrize("first", ["journal", "documents"])
def test_a_journal_and_documents_share_a_file_whichever_was_first(tmp_path: Path, first: str) -> None:
    path = tmp_path / "longwatch.db"
    event = Event(run_id="wf-1", event_id="e-1", type="note", occurred_at=1000)
    with SqliteJournal(path) as journal, SqliteDocumentStore(path) as store:
        if first == "journal":
            journal.append([event])
        store.write_text("p", "a.md", "hello")
        if first == "documents":
            journal.append([event])

        assert [each.event_id for each in journal.read("wf-1").events] == ["e-1"]
        assert store.text("p", "a.md") == "hello"

    with open_documents(f"sqlite:///{path}") as again, SqliteJournal(path) as journal:
        assert again.text("p", "a.md") == "hello"
        assert journal.find_run("wf-1") is not None


def test_writes_of_another_process_are_signalled(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with SqliteDocumentStore(path) as store:
        store.write_text("p", "shared.md", "")
        writer = start_writer(path, "a", 1)
        wait_until_ready(writer)
        signal = store.subscribe(lambda: None)
        signal.changed()

        let_go(writer)
        if signal.descriptor is not None:
            readable, _, _ = select.select([signal.descriptor], [], [], 30)
            assert readable
        writer.communicate(timeout=PATIENCE_SECONDS)

        assert signal.changed()
        assert store.text("p", "a.md") == "round 0"
        signal.close()


def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with SqliteDocumentStore(path) as store:
        store.create_project("p")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE document_schema SET version = 99")
    connection.close()

    with SqliteDocumentStore(path) as store, pytest.raises(NewerJournal, match="version 99"):
        store.projects()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.db").write_bytes(b"no database, but long enough to be looked at as one" * 20)

    with SqliteDocumentStore(tmp_path / "file.db") as store, pytest.raises(NotADatabase):
        store.projects()


def test_a_locked_file_is_a_retryable_error(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with SqliteDocumentStore(path, busy_timeout_ms=50) as store:
        store.write_text("p", "a.md", "before")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")

        with pytest.raises(JournalBusy):
            store.write_text("p", "a.md", "after")
        assert store.text("p", "a.md") == "before"

        holder.execute("ROLLBACK")
        holder.close()
        assert store.write_text("p", "a.md", "after").version == 2


def test_a_forked_child_continues_under_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "documents.db"
    with SqliteDocumentStore(path) as store:
        store.write_text("p", "a.md", "parent\n")
        child = os.fork()
        if child == 0:
            try:
                store.write_text("p", "a.md", "parent\nchild\n")
                os._exit(0)
            except BaseException:  # noqa: BLE001 - a child of a test reports its outcome by its exit code
                os._exit(1)
        _, status = os.waitpid(child, 0)
        store.write_text("p", "a.md", "parent\nchild\nparent again\n")

        assert os.waitstatus_to_exitcode(status) == 0
        assert store.text("p", "a.md") == "parent\nchild\nparent again\n"
        assert store.read("p", "a.md").version == 3


def test_many_threads_of_one_store_write_one_document(tmp_path: Path) -> None:
    with SqliteDocumentStore(tmp_path / "documents.db") as store:
        store.write_text("p", "a.md", "")

        def write(name: str) -> None:
            for number in range(10):
                store.write_text("p", "a.md", f"{name}{number}\n", base="")

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(store.text("p", "a.md").split()) == sorted(
            f"{a}{n}" for a in "abcdef" for n in range(10)
        )
        assert store.read("p", "a.md").version == 61
