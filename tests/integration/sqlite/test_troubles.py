"""Each trouble with a file has its own message, and nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.errors import (
    JournalBusy,
    JournalDamaged,
    JournalFull,
    JournalUnusable,
    NewerJournal,
    NotADatabase,
    ReadOnlyJournal,
)
from longwatch.journal.factory import open_journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event

SMALL_BYTES = 1024 * 1024


def event(n: int, *, run_id: str = "wf-1", size: int = 0) -> Event:
    return Event(
        run_id=run_id, event_id=f"{run_id}-{n:05}", type="step", occurred_at=n, payload={"x": "x" * size}
    )


def stored(path: Path, run_id: str = "wf-1") -> list[int]:
    with SqliteJournal(path) as journal:
        return [each.occurred_at for each in journal.read(run_id, limit=10_000).events]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs Linux and root; run the tests as root, as CI does")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here ({made.stderr.strip()}); allow mounts to this user")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_reported_and_the_file_is_sound_afterwards(small_disk: Path) -> None:
    path, ballast = small_disk / "journal.db", small_disk / "ballast"
    ballast.write_bytes(b"\0" * (SMALL_BYTES // 2))
    written = 0

    with SqliteJournal(path) as journal:
        refusal: JournalFull | None = None
        while refusal is None:
            try:
                journal.append([event(written, size=5_000)])
                written += 1
            except JournalFull as error:
                refusal = error
        full = [each.occurred_at for each in journal.read("wf-1", limit=1_000).events]
        ballast.unlink()
        journal.append([event(written, size=5_000), event(written + 1)])

    assert f"No space left for {path}" in str(refusal)
    assert full == list(range(written))  # all that was acknowledged, and nothing else
    assert stored(path) == list(range(written + 2))
    assert sound(path)


def test_a_disk_that_is_full_from_the_beginning_is_reported(small_disk: Path) -> None:
    path, ballast = small_disk / "journal.db", small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(b"\0" * (2 * SMALL_BYTES))

    with SqliteJournal(path) as journal:
        with pytest.raises(JournalFull):
            journal.append([event(1)])
        ballast.unlink()
        journal.append([event(1)])

    assert stored(path) == [1]


def test_a_recorder_on_a_full_disk_holds_the_events_until_there_is_space(small_disk: Path) -> None:
    from longwatch.recording.recorder import Recorder
    from longwatch.settings import Settings

    path, ballast = small_disk / "journal.db", small_disk / "ballast"
    settings = Settings(journal=f"sqlite:///{path}", outbox=str(small_disk / "outbox.db"))
    recorder = Recorder(settings=settings)
    recorder.record("wf-1", "step", {"n": 0})
    assert recorder.flush()
    free = os.statvfs(small_disk)
    ballast.write_bytes(b"\0" * (free.f_bavail * free.f_frsize))

    for n in range(1, 20):
        recorder.record("wf-1", "step", {"n": n, "text": "x" * 20_000})
    flushed = recorder.flush(1)
    why = recorder.stats().last_error
    ballast.unlink()

    assert not flushed
    assert "No space left" in str(why)
    assert recorder.flush(30)
    recorder.close(30)
    with open_journal(settings.journal) as journal:
        events = [each for each in journal.read("wf-1").events if each.type == "step"]
        assert [each.payload["n"] for each in events] == list(range(20))
    assert sound(path)


# Root may write everywhere, so a user without permissions opens the file.
AS_NOBODY = """
import os, sys
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with SqliteJournal(Path(sys.argv[1])) as journal:
    try:
        if sys.argv[2] == "write":
            journal.append([Event(run_id="wf-1", event_id="new", type="step", occurred_at=9)])
        else:
            print(len(journal.read("wf-1").events))
    except Exception as error:
        print(type(error).__name__, error)
"""


def as_nobody(path: Path, what: str) -> str:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root; run the tests as root, as CI does")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(path), what], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user may list; pytest's own are for their owner alone."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    closed = [each for each in folder.parents if not each.stat().st_mode & 0o001]
    before = {each: each.stat().st_mode for each in closed}
    for each in closed:
        each.chmod(before[each] | 0o001)
    yield folder
    for each in closed:
        each.chmod(before[each])


def test_a_read_only_file_is_reported_and_left_unchanged(open_folder: Path) -> None:
    path = open_folder / "journal.db"
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
    path.chmod(0o444)

    output = as_nobody(path, "write")

    assert output.startswith(f"ReadOnlyJournal {path} is not writable")
    assert stored(path) == [1]


def test_a_folder_without_write_permission_is_reported(open_folder: Path) -> None:
    output = as_nobody(open_folder / "new" / "journal.db", "write")

    assert output.startswith(f"ReadOnlyJournal {open_folder}/new/journal.db is not writable")


def test_a_folder_without_search_permission_is_reported(open_folder: Path) -> None:
    hidden = open_folder / "hidden"
    hidden.mkdir(mode=0o700)
    SqliteJournal(hidden / "journal.db").append([event(1)])

    output = as_nobody(hidden / "journal.db", "read")

    assert "Journal" in output
    assert f"{hidden}/journal.db is not writable" in output


def test_a_read_only_disk_is_reported_for_reading_and_for_writing(small_disk: Path) -> None:
    path = small_disk / "journal.db"
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    with SqliteJournal(path) as journal, pytest.raises(ReadOnlyJournal, match="is not writable"):
        journal.append([event(2)])
    with (
        SqliteJournal(small_disk / "new" / "journal.db") as journal,
        pytest.raises(ReadOnlyJournal, match="is not writable"),
    ):
        journal.append([event(2)])


@pytest.mark.parametrize("content", ["hello, I am a text file and longer than any header", "x" * 5_000])
def test_a_file_that_is_not_a_database_is_reported_and_left_unchanged(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)

    with SqliteJournal(path) as journal, pytest.raises(NotADatabase, match="is not a SQLite database"):
        journal.append([event(1)])

    assert path.read_text() == content


def test_a_database_of_another_program_is_reported_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = path.read_bytes()

    with SqliteJournal(path) as journal, pytest.raises(NotADatabase, match="database of another application"):
        journal.append([event(1)])

    assert path.read_bytes() == before


def test_an_outbox_is_not_a_journal(tmp_path: Path) -> None:
    from longwatch.recording.outbox import Outbox

    outbox = Outbox(tmp_path / "outbox.db")
    outbox.put("memory://", [event(1)])
    outbox.close()

    with SqliteJournal(outbox.path) as journal, pytest.raises(NotADatabase, match="of another application"):
        journal.read("wf-1")


def test_a_file_of_a_newer_longwatch_is_reported_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        journal.append([event(1)])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    with (
        SqliteJournal(path) as journal,
        pytest.raises(NewerJournal, match=r"newer longwatch .*99.*pip install"),
    ):
        journal.append([event(2)])


def test_a_locked_file_is_reported_and_works_once_it_is_unlocked(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path, busy_timeout_ms=20) as journal:
        journal.append([event(1)])
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")

        with pytest.raises(JournalBusy, match="is locked by another process"):
            journal.append([event(2)])
        readable = len(journal.read("wf-1").events)
        holder.execute("ROLLBACK")
        holder.close()
        journal.append([event(2)])

    assert readable == 1  # a writer in the way never stops a reader
    assert stored(path) == [1, 2]


def test_a_missing_folder_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "journal.db"

    with SqliteJournal(path) as journal:
        journal.append([event(1)])

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_instead_of_the_file_is_reported(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path) as journal, pytest.raises(JournalUnusable, match="cannot be opened"):
        journal.append([event(1)])


def test_a_file_instead_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with SqliteJournal(tmp_path / "file" / "a.db") as journal, pytest.raises(JournalUnusable):
        journal.append([event(1)])


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        journal.append([event(n, size=2_000) for n in range(100)])
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * (path.stat().st_size - 4_096))

    with (
        SqliteJournal(path) as journal,
        pytest.raises(JournalDamaged, match=r"damaged.*`longwatch doctor`.*`longwatch recover "),
    ):
        journal.read("wf-1", limit=1_000)


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "q?.db", "h#.db", "ü🌊.db", "%41.db"])
def test_a_journal_can_be_opened_again_by_its_url(tmp_path: Path, name: str) -> None:
    with SqliteJournal(tmp_path / name) as journal:
        journal.append([event(1)])
        url = journal.url

    with open_journal(url) as again:
        assert len(again.read("wf-1").events) == 1
    assert not (tmp_path / "A.db").exists()


def sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    (response,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return bool(response == "ok")
