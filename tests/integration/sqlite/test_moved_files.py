"""A journal file that is deleted, moved, replaced or emptied while open is noticed, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longwatch.errors import InvalidCursor, JournalMoved
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Cursor, Event

RUN = "wf-1"


def event(n: int) -> Event:
    return Event(run_id=RUN, event_id=f"e{n:03}", type="step", occurred_at=n)


def stored(path: Path) -> list[int]:
    with SqliteJournal(path) as journal:
        return [each.occurred_at for each in journal.read(RUN, limit=10_000).events]


def create_in_another_process(path: Path) -> None:
    script = (
        f"from longwatch.journal.factory import open_journal\nopen_journal('sqlite:///{path}').find_runs()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@contextmanager
def open_in_another_process(path: Path) -> Iterator[None]:
    """A process that has read the journal and then leaves it open."""
    program = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('SELECT count(*) FROM events').fetchone()\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield
        process.communicate()
        assert process.returncode == 0


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "journal.db"


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        beside(path, suffix).unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace_by_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    copy.replace(path)


def replace_by_nothing(path: Path) -> None:
    empty = path.with_name("empty.db")
    empty.touch()
    empty.replace(path)


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def delete_log(path: Path) -> None:
    beside(path, "-wal").unlink()


def delete_index(path: Path) -> None:
    beside(path, "-shm").unlink()


def delete_log_and_index(path: Path) -> None:
    delete_log(path)
    delete_index(path)


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (delete, "was deleted or moved while it was open. Restore it"),
    (delete_all, "was deleted or moved"),
    (move, "was deleted or moved"),
    (remove_folder, "was deleted or moved"),
    (replace_by_copy, "was replaced by another file"),
    (replace_by_nothing, "was replaced by another file"),
    (truncate, "was truncated to 0 bytes"),
    (delete_log, "has lost its write-ahead log"),
    (delete_index, "has lost its write-ahead log"),
    (delete_log_and_index, "has lost its write-ahead log"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_an_append_is_not_acknowledged_when_the_file_at_the_path_is_another(
    path: Path, change: Callable[[Path], None], message: str
) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        change(path)

        with pytest.raises(JournalMoved, match=message):
            journal.append([event(2)])


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_reader_does_not_return_events_of_a_lost_file(
    path: Path, change: Callable[[Path], None], message: str
) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        journal.read(RUN)
        change(path)

        with pytest.raises(JournalMoved, match=message):
            journal.read(RUN)


@pytest.mark.parametrize("change", [replace_by_copy, replace_by_nothing, truncate])
def test_the_next_try_uses_the_file_that_is_at_the_path(path: Path, change: Callable[[Path], None]) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        change(path)
        with pytest.raises(JournalMoved):
            journal.append([event(2)])

        journal.append([event(2)])
        journal.append([event(3)])
        generation = journal.generation

    assert stored(path)[-2:] == [2, 3]
    assert generation == 1


@pytest.mark.parametrize("change", [delete_log, delete_index, delete_log_and_index])
def test_commits_of_a_deleted_log_are_in_the_file(path: Path, change: Callable[[Path], None]) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        change(path)
        with pytest.raises(JournalMoved):
            journal.append([event(2)])

        journal.append([event(2)])

        assert [each.occurred_at for each in journal.read(RUN).events] == [1, 2]
        assert journal.generation == 0
    assert stored(path) == [1, 2]


def test_a_moved_file_has_what_was_acknowledged_and_nothing_else(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(n) for n in range(1, 6)])
        move(path)
        with pytest.raises(JournalMoved):
            journal.append([event(6)])

        assert stored(path.with_name("moved.db")) == [1, 2, 3, 4, 5]
        assert not beside(path, "-wal").exists()


def test_a_missing_file_is_not_created_again_by_those_that_had_it_open(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        delete_all(path)

        for _ in range(3):
            with SqliteJournal(path) as other, pytest.raises(JournalMoved, match="deleted or moved"):
                other.find_runs()  # which has not had it open, but shares the file with one that has
            with pytest.raises(JournalMoved, match="deleted or moved"):
                journal.append([event(2)])
            with pytest.raises(JournalMoved, match="deleted or moved"):
                journal.find_runs()
            with pytest.raises(JournalMoved, match="deleted or moved"):
                journal.subscribe(lambda: None)

        assert not path.exists()


def test_a_file_that_is_deleted_after_every_reader_closed_it_is_created_again(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
    delete(path)

    assert stored(path) == []


def test_a_file_that_is_put_back_is_used_again(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        move(path)
        with pytest.raises(JournalMoved):
            journal.append([event(2)])
        path.with_name("moved.db").rename(path)

        journal.append([event(2)])

        assert [each.occurred_at for each in journal.read(RUN).events] == [1, 2]


def test_a_new_file_does_not_get_the_log_of_the_one_that_was_moved(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        move(path)

        create_in_another_process(path)  # before this one has noticed anything
        with SqliteJournal(path) as other:
            other.append([event(2)])
            with pytest.raises(JournalMoved):
                journal.append([event(3)])
            other.append([event(4)])
            journal.append([event(5)])

    assert stored(path) == [2, 4, 5]
    assert stored(path.with_name("moved.db")) == [1]


def test_commits_that_only_the_log_of_an_emptied_file_had_are_preserved(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
        truncate(path)

        with pytest.raises(
            JournalMoved, match=r"from the write-ahead log is saved in .*journal\.db\.\d+-wal"
        ):
            journal.append([event(2)])

    [saved] = path.parent.glob("journal.db.*-wal")
    assert saved.stat().st_size > 0
    assert path.stat().st_size == 0


def test_an_idle_process_does_not_keep_a_journal_from_beginning_in_an_emptied_file(path: Path) -> None:
    with SqliteJournal(path, busy_timeout_ms=0) as journal:
        journal.append([event(1)])
        with open_in_another_process(path):
            truncate(path)
            with pytest.raises(JournalMoved, match="was truncated"):
                journal.append([event(2)])

            journal.append([event(2)])

        assert [each.occurred_at for each in journal.read(RUN).events] == [2]
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_cursor_beyond_the_end_of_the_file_is_refused(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append([event(n) for n in range(1, 4)])

        assert journal.read(RUN, after=Cursor("3")).events == ()
        with pytest.raises(InvalidCursor, match=r"Cursor 4 is past the end of .* \(3\).*Read from the start"):
            journal.read(RUN, after=Cursor("4"))


def test_a_link_to_the_file_may_be_used_and_is_watched(path: Path) -> None:
    link = path.parent.parent / "link.db"
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
    link.symlink_to(path)
    with SqliteJournal(link) as journal:
        journal.append([event(2)])
        delete_log(path)
        with pytest.raises(JournalMoved):
            journal.append([event(3)])
        link.unlink()
        with pytest.raises(JournalMoved, match="deleted or moved"):
            journal.append([event(3)])

    assert stored(path) == [1, 2]


def test_a_journal_that_is_closed_again_and_again_is_opened_again_by_its_users(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([event(0)])

    def append() -> None:
        for n in range(1, 200):
            journal.append([event(n)])
            journal.read(RUN, limit=1)

    appending = threading.Thread(target=append, daemon=True)
    appending.start()
    while appending.is_alive():
        journal.close()
        appending.join(0.0005)

    journal.close()
    assert stored(path) == list(range(200))
