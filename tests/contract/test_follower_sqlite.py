"""Following keeps its promises on SQLite, whichever change signal reports the appends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.storage.change_signal import Subscribe
from longwatch.testing.simulation.virtual_loop import LoopClock
from tests.contract.events import OpenAgain
from tests.contract.follower import FollowerContract, StoriesContract
from tests.contract.follower_endings import FollowedDeletionContract


class SqliteContract(FollowerContract, FollowedDeletionContract):
    inotify: bool | None = None  # None: also signalled by appends in this process

    @pytest.fixture
    def open_again(self, clock: LoopClock, tmp_path: Path) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(SqliteJournal(tmp_path / "contract.db", clock=clock))

    def subscribe(self, journal: Journal) -> Subscribe | None:
        inotify = self.inotify
        if inotify is None:
            return None
        path = getattr(journal, "path", None) or getattr(journal, "_journal").path  # noqa: B009
        own = SqliteJournal(path)
        return lambda on_change: own.subscribe(lambda: None, inotify=inotify)


@pytest.mark.looptime
class TestSignalledByThisProcess(SqliteContract):
    pass


@pytest.mark.looptime
@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
class TestSignalledByInotifyAlone(SqliteContract):
    inotify = True


@pytest.mark.looptime
class TestPollingAlone(SqliteContract):
    inotify = False


class TestStories(StoriesContract):
    examples = 30

    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        folder.mkdir()
        journal = SqliteJournal(folder / "story.db", clock=clock)
        return lambda: journal
