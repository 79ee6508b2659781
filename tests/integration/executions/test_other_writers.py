"""Executions under a status of another writer, on real stores: polled to their end and listed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.poller import Claim, Result
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill
from tests.contract.test_executions_dynamodb import new_execution_table
from tests.unit.executions.scripted_source import watching

SetStatus = Callable[[str], None]


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.needs_java)])
def backend(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ExecutionStore, str, SetStatus]]:
    """A store, its address, and another program that sets the status of x-1 there."""
    if request.param == "sqlite":
        path = tmp_path / "executions.db"
        store = SqliteExecutionStore(path)

        def set_in_file(word: str) -> None:
            change = "UPDATE executions SET status = ?1, record = json_set(record, '$.Status', ?1)"
            connection = sqlite3.connect(path)
            with connection:
                connection.execute(change, (word,))
            connection.close()

        yield store, f"sqlite:///{path}", set_in_file
        store.close()
        return
    with new_execution_table(request.getfixturevalue("dynamodb_local_url")) as at:
        table = DynamoExecutionStore(at)

        def set_in_table(word: str) -> None:
            table.connect().update_item(
                TableName=at.table,
                Key={"ExecutionId": {"S": "x-1"}, "PlanId": {"S": "p-1"}},
                UpdateExpression="SET #status = :word",
                ExpressionAttributeNames={"#status": "Status"},
                ExpressionAttributeValues={":word": {"S": word}},
            )

        yield table, f"dynamodb://{at.table}?region={at.region}&endpoint={at.endpoint}", set_in_table
        table.close()


@pytest.mark.parametrize("word", ["CANCELLING", "Held back"])
def test_a_drill_that_is_paused_meanwhile_is_polled_to_its_end_and_keeps_that_status(
    backend: tuple[ExecutionStore, str, SetStatus],
    word: str,
    source: DrsSource,
    drs: DrsSimulator,
    clock: FakeClock,
    tmp_path: Path,
) -> None:
    store, url, set_status = backend
    wave = Stage("one", (Job(drs.play(drill("s-1", pending=0, active=60)), region="eu-west-1"),))
    store.add(
        Execution(
            execution_id="x-1", plan_id="p-1", started_at=clock.now_ms(), stages=(wave,), total_stages=1
        )
    )
    journal = SqliteJournal(tmp_path / "journal.db", clock=clock)
    parts = watching(store, journal, source, clock)
    poller, watcher = parts.poller, parts.watcher()
    watcher.poll_due()
    set_status(word)
    clock.advance(30)

    (polled,) = watcher.poll_due().polled
    clock.advance(60)
    claim = poller.claim("x-1", "p-1")
    assert isinstance(claim, Claim)
    result = poller.poll_sources([claim])[claim.execution.key]
    set_status(f"{word} again")
    ended = poller.settle(claim, result)

    assert (polled.result, ended.result, ended.execution.status) == (
        Result.POLLED,
        Result.ENDED,
        Status.SUCCEEDED,
    )
    assert ended.execution.other_status == f"{word} again"
    assert not list(store.open_executions())
    (line,) = json.loads(listed(url, clock, "-o", "json"))
    assert (line["other_status"], line["status"]) == (f"{word} again", "succeeded")
    assert f"{word} again" in listed(url, clock)
    journal.close()


def listed(url: str, clock: FakeClock, *options: str) -> str:
    arguments = ["executions", "list", "--executions", url, *options]
    return CliRunner().invoke(cli, arguments, obj=Invocation(clock=clock), catch_exceptions=False).stdout
