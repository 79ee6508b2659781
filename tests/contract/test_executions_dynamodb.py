"""The execution store on DynamoDB keeps the promises, on two engines."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import TableProblem, VersionConflict
from longwatch.executions.responses import apply_response
from longwatch.executions.stores.base import ExecutionStore, list_position
from longwatch.executions.stores.dynamodb import INDEX, POLL_INDEX, DynamoExecutionStore
from longwatch.executions.stores.records import POLL_STATE
from longwatch.storage.dynamodb.values import from_attribute, to_attribute
from longwatch.storage.urls import TableAddress
from tests.contract.execution_identity import IdentityContract
from tests.contract.executions import (
    OTHER_STATUSES,
    ExecutionsContract,
    Reads,
    Writes,
    foreign,
    new_execution,
)
from tests.contract.tables import REGION, Shared, client_of, delete_table
from tests.unit.executions.samples import IN_PROGRESS, START, job, response

POLL_STATE_TYPE: Any = {"AttributeName": POLL_STATE, "AttributeType": "S"}
SPARSE: Any = {
    "IndexName": POLL_INDEX,
    "KeySchema": [
        {"AttributeName": POLL_STATE, "KeyType": "HASH"},
        {"AttributeName": "StartTime", "KeyType": "RANGE"},
    ],
    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Status", "RecheckTime"]},
}


class SharedExecutionStore(Shared, DynamoExecutionStore):
    """A store over the connections that all tests share."""


class TestDynamoExecutionStore(ExecutionsContract, IdentityContract):
    @pytest.fixture
    def store(self, engine_url: str) -> Iterator[DynamoExecutionStore]:
        with new_execution_table(engine_url) as at:
            yield SharedExecutionStore(at)

    @pytest.fixture
    def write(self, store: DynamoExecutionStore) -> Writes:
        def write(record: Mapping[str, Any]) -> None:
            item = {name: to_attribute(value) for name, value in record.items()}
            store.connect().put_item(TableName=store.address.table, Item=item)

        return write

    @pytest.fixture
    def read(self, store: DynamoExecutionStore) -> Reads:
        def read(execution_id: str, plan_id: str) -> dict[str, Any]:
            key = {"ExecutionId": {"S": execution_id}, "PlanId": {"S": plan_id}}
            found: Any = store.connect().get_item(TableName=store.address.table, Key=key, ConsistentRead=True)
            return {name: from_attribute(value) for name, value in found["Item"].items()}

        return read

    def test_a_write_whose_response_was_lost_succeeds_when_it_is_repeated(
        self, store: DynamoExecutionStore
    ) -> None:
        added = store.add(fresh := new_execution())
        again = store.add(fresh)
        claimed = replace(added, lease_holder="poller-1", lease_until=added.started_at)

        assert again == added
        assert store.update(claimed) == store.update(claimed)

    def test_the_write_of_another_writer_is_not_mistaken_for_one_whose_response_was_lost(
        self, store: DynamoExecutionStore
    ) -> None:
        mine = store.update(replace(store.add(new_execution()), lease_holder="mine", lease_until=1_000))
        store.update(replace(mine, lease_holder="rival"))

        with pytest.raises(VersionConflict):
            store.update(mine)  # changes nothing but the version, which the rival's write has too

    @pytest.mark.parametrize("broken", [{"Waves": "none"}, {"Waves": [1]}, {"Deadline": "soon"}])
    def test_an_invalid_record_hides_no_other(
        self,
        store: DynamoExecutionStore,
        write: Writes,
        caplog: pytest.LogCaptureFixture,
        broken: Mapping[str, Any],
    ) -> None:
        added = store.add(new_execution())
        write({"ExecutionId": "x-odd", "PlanId": "p-1", "Status": "POLLING", "StartTime": 1, **broken})

        found = list(store.open_executions())

        assert found == [added]
        assert "the record of execution x-odd can not be understood" in caplog.text

    def test_an_open_record_that_another_program_replaced_is_found_until_it_has_a_poll_state_again(
        self, store: DynamoExecutionStore, write: Writes, read: Reads
    ) -> None:
        seen = store.update(
            apply_response(store.add(new_execution()), response(START + 1_000, job(IN_PROGRESS)))
        )
        record = read(seen.execution_id, "p-1")
        theirs = {"ExecutionId", "PlanId", "StartTime", "ExecutionType", "Waves", "LastPolledTime"}
        write({name: record[name] for name in record.keys() & theirs} | {"Status": "CANCELLING"})

        (found,) = {list_position(each): each for each in store.unsettled(START)}.values()
        listed = store.find()
        store.update(apply_response(found, response(START + 2_000, job(IN_PROGRESS))))

        assert (found.key, found.is_open, found.version) == (seen.key, True, 0)
        assert (found.run_id, [each.key for each in listed]) == (seen.run_id, [seen.key])
        assert list(store.unsettled(START)) == []
        assert [each.key for each in store.open_executions()] == [seen.key]
        assert read(seen.execution_id, "p-1")["PollState"] == "OPEN"

    def test_a_record_that_another_program_never_let_us_poll_stays_theirs(
        self, store: DynamoExecutionStore, write: Writes
    ) -> None:
        write(foreign("x-theirs") | {"Status": "COMPLETED_WITH_WARNINGS"})

        assert list(store.unsettled(START)) == list(store.open_executions()) == []

    def test_a_missing_table_is_named(self, engine_url: str) -> None:
        store = SharedExecutionStore(TableAddress(table="no-such-table", region=REGION, endpoint=engine_url))

        with pytest.raises(TableProblem, match="Table 'no-such-table' for executions was not found"):
            list(store.open_executions())


class TestTableOfAnEarlierRelease(TestDynamoExecutionStore):
    """The same promises without the PollStateIndex, as far as the configured statuses go."""

    @pytest.fixture
    def store(self, engine_url: str) -> Iterator[DynamoExecutionStore]:
        with new_execution_table(engine_url, poll_index=False) as at:
            yield SharedExecutionStore(at, other_statuses=OTHER_STATUSES)

    @pytest.mark.parametrize("word", ["CANCELLED", "COMPLETED"])  # an index by status knows one spelling
    def test_an_end_that_another_writer_sets_is_unsettled_until_it_is_acknowledged(
        self, store: ExecutionStore, write: Writes, read: Reads, word: str
    ) -> None:
        super().test_an_end_that_another_writer_sets_is_unsettled_until_it_is_acknowledged(
            store, write, read, word
        )

    def test_a_status_that_is_not_configured_is_not_found_and_logged(
        self, store: DynamoExecutionStore, write: Writes, read: Reads, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen = store.add(new_execution())
        write({**read(seen.execution_id, "p-1"), "Status": "Parked"})

        assert list(store.open_executions()) == list(store.find()) == []
        (warning,) = caplog.messages
        assert warning.startswith(f"Table '{store.address.table}' has no index PollStateIndex. ")
        assert warning.endswith(f"found only for {', '.join(OTHER_STATUSES)}")


@contextmanager
def new_execution_table(endpoint: str, *, poll_index: bool = True) -> Iterator[TableAddress]:
    """An empty table as the template makes it, or as earlier releases did. Deleted afterwards."""
    name = f"executions-{secrets.token_hex(4)}"
    client = client_of(endpoint)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "ExecutionId", "AttributeType": "S"},
            {"AttributeName": "PlanId", "AttributeType": "S"},
            {"AttributeName": "Status", "AttributeType": "S"},
            {"AttributeName": "StartTime", "AttributeType": "N"},
            *([POLL_STATE_TYPE] if poll_index else []),
        ],
        KeySchema=[
            {"AttributeName": "ExecutionId", "KeyType": "HASH"},
            {"AttributeName": "PlanId", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX,
                "KeySchema": [
                    {"AttributeName": "Status", "KeyType": "HASH"},
                    {"AttributeName": "StartTime", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            },
            *([SPARSE] if poll_index else []),
        ],
    )
    try:
        yield TableAddress(table=name, region=REGION, endpoint=endpoint)
    finally:
        delete_table(client, name)
