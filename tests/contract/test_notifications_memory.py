"""The notification store in memory keeps the promises."""

from __future__ import annotations

import pytest

from longwatch.notifications.stores.memory import MemoryNotificationStore
from tests.contract.notifications import NotificationStoreContract, OpenStore


class TestMemoryNotificationStore(NotificationStoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        store = MemoryNotificationStore()
        return lambda: store
