"""Push subscriptions in the table of a journal keep the promises, in both layouts and on two engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.push import OpenNotifications, PushContract
from tests.contract.tables import new_table
from tests.contract.test_notifications_dynamodb import SharedNotificationStore


class DynamoPushContract(PushContract):
    layout: str

    @pytest.fixture
    def open_records(self, engine_url: str) -> Iterator[OpenNotifications]:
        with new_table(engine_url, self.layout) as at:
            yield lambda: SharedNotificationStore(at)


class TestWorkflowLayoutPush(DynamoPushContract):
    layout = "workflow"


class TestSessionLayoutPush(DynamoPushContract):
    layout = "session"
