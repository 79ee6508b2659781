"""The notification store on SQLite keeps the promises, in the file of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.notifications.stores.base import RecordChange
from longwatch.notifications.stores.sqlite import SqliteNotificationStore
from tests.contract.events import event
from tests.contract.notifications import NotificationStoreContract, OpenStore


class TestSqliteNotificationStore(NotificationStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[OpenStore]:
        with ExitStack() as opened:

            def open_again() -> SqliteNotificationStore:
                return opened.enter_context(closing(SqliteNotificationStore(tmp_path / "journal.db")))

            yield open_again


def test_it_shares_the_file_of_a_journal_whichever_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(SqliteNotificationStore(path)) as store, SqliteJournal(path) as journal:
        assert store.commit([RecordChange("rule#a", {"n": 1})])

        journal.append([event("wf-1", 1000)])

        assert journal.find_run("wf-1") is not None
        assert store.get("rule#a") is not None
