"""docs/how-to/add-the-index.md: a table of an earlier phase gets its index, and what was open is finished."""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from longwatch.errors import TableProblem
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.stores.dynamodb import INDEX, POLL_INDEX, TEMPLATE, DynamoExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from longwatch.storage.dynamodb.values import from_attribute, to_attribute
from longwatch.storage.urls import TableAddress
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill
from tests.contract.tables import REGION, client_of, delete_table
from tests.docs.pages import Page
from tests.patience import PATIENCE_SECONDS
from tests.stack.deployment import POLL_SECONDS, client, settled
from tests.stack.templates import ROOT, load_template
from tests.unit.executions.scripted_source import watching

PAGE = Page(ROOT / "docs" / "how-to" / "add-the-index.md")
KEYS = ("ExecutionId", "PlanId")
UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}


@pytest.fixture(
    params=[
        pytest.param("ministack_url", id="ministack", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", id="dynamodb-local", marks=pytest.mark.needs_java),
    ]
)
def engine(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture(params=["on demand", "provisioned"])
def table(request: pytest.FixtureRequest, engine: str) -> Iterator[TableAddress]:
    """A table as an earlier phase made it, without an index."""
    name, made = f"execution-history-{secrets.token_hex(4)}", client_of(engine)
    billing: dict[str, Any] = (
        {"BillingMode": "PAY_PER_REQUEST"}
        if request.param == "on demand"
        else {"ProvisionedThroughput": UNITS}
    )
    made.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in KEYS],
        KeySchema=[
            {"AttributeName": KEYS[0], "KeyType": "HASH"},
            {"AttributeName": KEYS[1], "KeyType": "RANGE"},
        ],
        **billing,
    )
    yield TableAddress(table=name, region=REGION, endpoint=engine)
    delete_table(made, name)


def documented(command: str, naming: str = "") -> dict[str, Any]:
    """The arguments of this call, as the page types it."""
    calls = [block.text for block in PAGE.blocks() if f"aws dynamodb {command} " in block.text]
    (typed,) = [text for text in calls if naming in text]
    words = shlex.split(typed.replace("\\\n", " "))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    found: dict[str, Any] = {}
    for option, value in options.items():
        name = "".join(part.title() for part in option.removeprefix("--").split("-"))
        found[name] = json.loads(value) if value[0] in "[{" else value
    return found


def add_index(at: TableAddress, name: str = INDEX) -> None:
    """Run the commands of the page, and wait until the index is there."""
    made: Any = client_of(str(at.endpoint))
    arguments = {**documented("update-table", name), "TableName": at.table}
    billing = made.describe_table(TableName=at.table)["Table"].get("BillingModeSummary", {})
    if billing.get("BillingMode") != "PAY_PER_REQUEST":
        arguments["GlobalSecondaryIndexUpdates"][0]["Create"]["ProvisionedThroughput"] = UNITS
    made.update_table(**arguments)
    wait_for_index(made, at.table, name)


def wait_for_index(made: Any, table: str, name: str = INDEX) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        indexes = made.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
        if [each["IndexStatus"] for each in indexes if each["IndexName"] == name] == ["ACTIVE"]:
            return
        assert time.monotonic() < give_up_at, f"{name} of {table} is not active: {indexes}"
        time.sleep(POLL_SECONDS)


def put(at: TableAddress, *records: dict[str, Any]) -> None:
    for record in records:
        item = {name: to_attribute(value) for name, value in record.items()}
        client_of(str(at.endpoint)).put_item(TableName=at.table, Item=item)


def get(at: TableAddress, execution_id: str) -> dict[str, Any]:
    key = {"ExecutionId": {"S": execution_id}, "PlanId": {"S": "p-1"}}
    found: Any = client_of(str(at.endpoint)).get_item(TableName=at.table, Key=key, ConsistentRead=True)
    return {name: from_attribute(value) for name, value in found["Item"].items()}


def polling(name: str, job: str, started_at: int, **more: Any) -> dict[str, Any]:
    """A record as an earlier phase writes it, with nothing of ours."""
    return {
        "ExecutionId": name,
        "PlanId": "p-1",
        "Status": "POLLING",
        "StartTime": started_at // 1000,
        "ExecutionType": "DRILL",
        "InitiatedBy": "ops",
        "Waves": [{"WaveName": "one", "JobId": job, "Region": REGION, "Tier": "database"}],
        **more,
    }


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def drs(clock: FakeClock) -> Iterator[DrsSimulator]:
    with DrsSimulator(clock=clock) as simulator:
        yield simulator


def watched(store: DynamoExecutionStore, drs: DrsSimulator, clock: FakeClock, path: Path) -> SqliteJournal:
    """Watch everything that is open to its end, and return the journal."""

    def connect(region: str | None, account: str | None) -> Any:
        config = Config(retries={"total_max_attempts": 1})
        return boto3.Session().client("drs", region_name=region, endpoint_url=drs.url, config=config)

    journal = SqliteJournal(path / "journal.db", clock=clock)
    source = DrsSource(connect, clock=clock)
    watching(store, journal, source, clock).watcher().run(until_idle=True)
    source.close()
    return journal


def test_executions_that_an_earlier_phase_left_open_are_found_and_finished(
    table: TableAddress, drs: DrsSimulator, clock: FakeClock, tmp_path: Path
) -> None:
    start, store = clock.now_ms(), DynamoExecutionStore(table)
    good, bad = drill("s-1", pending=30, active=30), drill("s-1", "s-2", pending=30, active=30)
    put(
        table,
        polling("x-good", drs.play(good), start),
        polling("x-bad", drs.play(bad.without("s-2", after=40)), start - 1_000),
        polling("x-old", "drsjob-00000000000000009", start, Status="COMPLETED"),
    )
    with pytest.raises(TableProblem, match=INDEX):
        list(store.open_executions())

    add_index(table)
    found = [each.execution_id for each in store.open_executions()]
    journal = watched(store, drs, clock, tmp_path)

    assert found == ["x-bad", "x-good"]
    assert [get(table, name)["Status"] for name in ("x-good", "x-bad", "x-old")] == [
        "COMPLETED",
        "PARTIAL",
        "COMPLETED",
    ]
    assert (get(table, "x-good")["InitiatedBy"], get(table, "x-good")["Waves"][0]["Tier"]) == (
        "ops",
        "database",
    )
    runs = [journal.find_run(get(table, name)["RunId"]) for name in ("x-good", "x-bad")]
    ends = [run.status for run in runs if run]
    assert ends == [Status.SUCCEEDED, Status.PARTIAL]
    assert "Version" not in get(table, "x-old")
    journal.close()
    store.close()


def test_a_record_of_another_type_is_counted_before_and_refused_from_then_on(
    table: TableAddress, clock: FakeClock
) -> None:
    store, now = DynamoExecutionStore(table), clock.now_ms()
    in_words = polling("x-words", "j-1", now, StartTime="2026-11-15T10:00:00Z")
    without = {name: value for name, value in polling("x-none", "j-1", now).items() if name != "StartTime"}
    put(table, in_words, without, polling("x-number", "j-1", now))
    odd = _scan(table)

    add_index(table)

    assert odd == {"x-words", "x-none"}  # what the page's scan counts
    # AWS leaves out what has another type as well; both engines take it in.
    assert {each.execution_id for each in store.open_executions()} - {"x-words"} == {"x-number"}
    with pytest.raises(ClientError, match="ValidationException"):
        put(table, {**in_words, "ExecutionId": "x-new"})
    store.close()


def _scan(at: TableAddress) -> set[str]:
    arguments = {**documented("scan"), "TableName": at.table}
    del arguments["Select"]  # the records themselves, not how many
    found: Any = client_of(str(at.endpoint)).scan(**arguments)
    return {item["ExecutionId"]["S"] for item in found["Items"]}


@pytest.mark.needs_ministack
def test_a_stack_gets_the_index_by_an_update_and_keeps_its_records(
    ministack_url: str, clock: FakeClock
) -> None:
    cloudformation, name = client("cloudformation", ministack_url), f"history-{secrets.token_hex(4)}"
    at = TableAddress(table=f"{name}-table", region=REGION, endpoint=ministack_url)
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(_stack(at.table, indexed=False)))
    assert settled(cloudformation, name)["StackStatus"] == "CREATE_COMPLETE"
    put(at, polling("x-1", "j-1", clock.now_ms()))

    cloudformation.update_stack(StackName=name, TemplateBody=json.dumps(_stack(at.table, indexed=True)))
    assert settled(cloudformation, name)["StackStatus"] == "UPDATE_COMPLETE"
    wait_for_index(client_of(ministack_url), at.table)
    store = DynamoExecutionStore(at)

    assert [each.execution_id for each in store.open_executions()] == ["x-1"]
    store.close()
    cloudformation.delete_stack(StackName=name)


def _stack(table: str, *, indexed: bool) -> dict[str, Any]:
    """A stack with our table, before and after it gets the index."""
    plain: dict[str, Any] = load_template(ROOT / TEMPLATE)["Resources"]["ExecutionTable"]["Properties"]
    indexes = plain["GlobalSecondaryIndexes"][: int(indexed)]  # AWS adds one in an update
    used = {*KEYS, *(key["AttributeName"] for index in indexes for key in index["KeySchema"])}
    attributes = [each for each in plain["AttributeDefinitions"] if each["AttributeName"] in used]
    properties = {**plain, "TableName": table, "AttributeDefinitions": attributes}
    del properties["GlobalSecondaryIndexes"]
    if indexes:
        properties["GlobalSecondaryIndexes"] = indexes
    return {"Resources": {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": properties}}}


def test_the_page_creates_the_indexes_that_the_template_has() -> None:
    indexes = load_template(ROOT / TEMPLATE)["Resources"]["ExecutionTable"]["Properties"][
        "GlobalSecondaryIndexes"
    ]

    created = [
        update
        for name in (INDEX, POLL_INDEX)
        for update in documented("update-table", name)["GlobalSecondaryIndexUpdates"]
    ]
    assert created == [{"Create": index} for index in indexes]


def test_executions_polled_after_the_second_index_was_added_are_found_under_any_status(
    table: TableAddress, clock: FakeClock
) -> None:
    store = DynamoExecutionStore(table)
    add_index(table)
    put(table, polling("x-1", "j-1", clock.now_ms()))

    add_index(table, POLL_INDEX)
    (found,) = store.open_executions()
    store.update(replace(found, last_polled_at=clock.now_ms()))
    put(table, {**get(table, "x-1"), "Status": "Held back"})

    assert [each.other_status for each in store.open_executions()] == ["Held back"]
    store.close()
