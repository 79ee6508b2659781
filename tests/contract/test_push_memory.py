"""Push subscriptions in memory keep the promises."""

from __future__ import annotations

import pytest

from longwatch.notifications.stores.memory import MemoryNotificationStore
from tests.contract.push import OpenNotifications, PushContract


class TestMemoryPushStore(PushContract):
    @pytest.fixture
    def open_records(self) -> OpenNotifications:
        records = MemoryNotificationStore()
        return lambda: records
