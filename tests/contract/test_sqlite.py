"""The SQLite journal keeps the promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.testing.clock import FakeClock
from tests.contract.deletions import DeletionArrivalsContract, DeletionContract
from tests.contract.events import OpenAgain
from tests.contract.journal import JournalContract


class TestSqliteJournal(JournalContract, DeletionContract, DeletionArrivalsContract):
    @pytest.fixture
    def open_again(self, clock: FakeClock, tmp_path: Path) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(SqliteJournal(tmp_path / "contract.db", clock=clock))
