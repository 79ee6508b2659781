"""The notification store on DynamoDB keeps the promises, in the table of a journal, in both layouts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.notifications.stores.base import RecordChange
from longwatch.notifications.stores.dynamodb import DynamoNotificationStore
from tests.contract.events import event, run_ids
from tests.contract.notifications import NotificationStoreContract, OpenStore
from tests.contract.tables import Shared, SharedTable, client_of, new_table


class SharedNotificationStore(Shared, DynamoNotificationStore):
    """A store over the connections that all tests share."""


class DynamoNotificationContract(NotificationStoreContract):
    layout: str

    @pytest.fixture
    def open_store(self, engine_url: str) -> Iterator[OpenStore]:
        with new_table(engine_url, self.layout) as at:
            yield lambda: SharedNotificationStore(at)


class TestWorkflowLayout(DynamoNotificationContract):
    layout = "workflow"


class TestSessionLayout(DynamoNotificationContract):
    layout = "session"


@pytest.mark.parametrize("layout", ["workflow", "session"])
def test_its_records_are_no_runs_and_expire(engine_url: str, layout: str) -> None:
    with new_table(engine_url, layout) as at, DynamoJournal(SharedTable(at), at) as journal:
        store = SharedNotificationStore(at)
        journal.append([event("wf-1", 1_000)])

        assert store.commit([RecordChange("seen#a", {"expires_at": 5_000_000})])

        assert run_ids(list(journal.scan_runs())) == ["wf-1"]
        items = client_of(engine_url).scan(TableName=at.table)["Items"]
        assert [each["ttl"] for each in items if "notification" in each] == [{"N": "5000"}]
