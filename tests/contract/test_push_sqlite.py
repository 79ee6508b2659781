"""Push subscriptions in a SQLite file keep the promises."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from longwatch.notifications.stores.sqlite import SqliteNotificationStore
from longwatch.notifications.web_push.vapid import VapidKey
from tests.contract.push import OpenNotifications, OpenPushStore, PushContract


class TestSqlitePushStore(PushContract):
    @pytest.fixture
    def open_records(self, tmp_path: Path) -> Iterator[OpenNotifications]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(closing(SqliteNotificationStore(tmp_path / "contract.db")))

    def test_only_its_user_can_read_the_file_with_the_key(
        self, open_store: OpenPushStore, tmp_path: Path
    ) -> None:
        open_store().add_vapid_key(VapidKey("private", "public"))

        files = [path for path in tmp_path.iterdir() if path.name.startswith("contract.db")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
