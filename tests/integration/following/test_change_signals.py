"""The change signal of a SQLite file that another process writes to."""

from __future__ import annotations

import math
import select
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.storage.change_signal import ChangeSignal
from longwatch.storage.sqlite.file_signal import CHECK_FILES_SECONDS, Inotify
from tests.contract.events import event, new_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def writer(path: Path) -> Iterator[SqliteJournal]:
    """Another connection, as another process has it: its writes are not signalled inside this process."""
    with SqliteJournal(path) as journal:
        yield journal


def is_signalled(signal: ChangeSignal) -> bool:
    assert signal.descriptor is not None
    return bool(select.select([signal.descriptor], [], [], 0)[0])


def test_a_write_makes_the_descriptor_readable_and_a_poll_resets_it(
    journal: SqliteJournal, writer: SqliteJournal
) -> None:
    with closing(journal.subscribe(lambda: None)) as signal:
        assert not is_signalled(signal)
        assert not signal.drain()

        writer.append([event(new_run(), 1)])

        assert is_signalled(signal)
        assert signal.drain()
        assert not is_signalled(signal)
        assert not signal.drain()


def test_a_signalled_write_can_be_read_once_the_file_has_changed_and_is_signalled_once(
    journal: SqliteJournal, writer: SqliteJournal
) -> None:
    with closing(journal.subscribe(lambda: None)) as signal:
        assert not signal.changed()

        writer.append([event(new_run(), 1)])

        assert signal.changed()
        assert not signal.changed()
        assert signal.drain()


def test_a_log_that_is_removed_and_created_again_is_signalled(
    journal: SqliteJournal, writer: SqliteJournal, path: Path
) -> None:
    log = path.with_name(f"{path.name}-wal")
    with closing(journal.subscribe(lambda: None)) as signal:
        writer.append([event(new_run(), 1)])
        signal.drain()
        aside = log.rename(log.with_name("aside"))
        signal.drain()

        aside.rename(log)
        assert is_signalled(signal)
        assert signal.drain()
        writer.append([event(new_run(), 2)])

        assert is_signalled(signal)


def test_without_inotify_polling_signals_the_same(journal: SqliteJournal, writer: SqliteJournal) -> None:
    with closing(journal.subscribe(lambda: None, inotify=False)) as signal:
        assert signal.descriptor is None
        assert signal.check_seconds is not None
        assert not signal.changed()

        writer.append([event(new_run(), 1)])

        assert signal.changed()
        assert not signal.changed()


def test_a_file_that_was_moved_counts_as_changed_within_a_second(
    journal: SqliteJournal, writer: SqliteJournal, path: Path
) -> None:
    writer.append([event(new_run(), 1)])
    with closing(journal.subscribe(lambda: None, inotify=False)) as signal:
        assert not signal.changed()
        assert signal.check_seconds is not None
        checks = math.ceil(CHECK_FILES_SECONDS / signal.check_seconds)

        path.rename(path.with_name("moved.db"))

        assert any(signal.changed() for _ in range(checks))


def test_a_system_without_free_watches_is_polled_instead(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Inotify, path: Path, mask: int) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Inotify, "watch", refuse)

    with closing(journal.subscribe(lambda: None)) as signal:
        assert signal.descriptor is None


def test_when_the_watches_run_out_later_the_file_is_polled_as_often_as_without_them(
    journal: SqliteJournal, writer: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = path.with_name(f"{path.name}-wal")

    def refuse(self: Inotify, path: Path, mask: int) -> int:
        raise OSError(28, "No space left on device", str(path))

    with (
        closing(journal.subscribe(lambda: None)) as signal,
        closing(journal.subscribe(lambda: None, inotify=False)) as polling,
    ):
        writer.append([event(new_run(), 1)])
        aside = log.rename(log.with_name("aside"))
        signal.drain()
        monkeypatch.setattr(Inotify, "watch", refuse)

        aside.rename(log)

        assert signal.drain()
        assert signal.check_seconds == polling.check_seconds


def test_appends_of_this_process_are_signalled_at_once_also_by_another_journal_of_the_file(
    journal: SqliteJournal, writer: SqliteJournal
) -> None:
    notified: list[int] = []
    with ExitStack() as signal:
        for number in (1, 2):
            signal.enter_context(closing(journal.subscribe(lambda number=number: notified.append(number))))  # type: ignore[misc]

        writer.append([event(new_run(), 1)])
    writer.append([event(new_run(), 2)])

    assert notified == [1, 2]


def test_a_locked_file_counts_as_changed_rather_than_being_waited_for(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from longwatch.errors import JournalBusy
    from longwatch.storage.sqlite.database import Database

    with closing(journal.subscribe(lambda: None, inotify=False)) as signal:

        def busy(self: Database, query: str, *, check_files: bool) -> list[tuple[int]]:
            raise JournalBusy("held by another process")

        monkeypatch.setattr(Database, "fetch", busy)

        assert signal.changed()
