"""Responses without a `Date` are dated by DynamoDB, so pollers whose clocks differ come to one verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.clock import SystemClock
from longwatch.executions.model import Execution
from longwatch.executions.poller import Poller, Result
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.http import HttpCaller
from longwatch.executions.sources.shipped import HTTP
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from tests.contract.test_executions_dynamodb import new_execution_table
from tests.integration.executions.sources.conftest import Endpoint, Reply

MINUTE_MS = 60 * 1000
TOLERANCE_MS = MINUTE_MS  # a busy machine is slow; the clocks are further off


class WrongClock(SystemClock):
    """The clock of a machine that is wrong by so many seconds."""

    def __init__(self, seconds: int) -> None:
        self._ms = seconds * 1000

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


@pytest.fixture
def store(dynamodb_local_url: str) -> Iterator[DynamoExecutionStore]:
    with new_execution_table(dynamodb_local_url) as at:
        store = DynamoExecutionStore(at)
        yield store
        store.close()


@pytest.mark.needs_java
@pytest.mark.parametrize("skews", [(600, 600), (0, 600), (-600, 0), (100, 0), (-100, 600)])
def test_a_verdict_has_the_time_of_dynamodb_where_the_source_sends_none(
    skews: tuple[int, int], store: DynamoExecutionStore, endpoint: Endpoint, tmp_path: Path
) -> None:
    running = Reply(body=b'{"status": "running"}', dated=False)
    endpoint.returns(running, running, Reply(body=b'{"status": "succeeded"}', dated=False))
    journal = SqliteJournal(tmp_path / "journal.db")
    begun = DeclaredSource(HTTP, HttpCaller(HTTP)).begin(endpoint.url)
    assert isinstance(begun, Execution)
    store.add(replace(begun, started_at=begun.started_at - 15 * MINUTE_MS, deadline_ms=20 * MINUTE_MS))

    results = []
    for seconds in skews:
        clock = WrongClock(seconds)
        source = DeclaredSource(HTTP, HttpCaller(HTTP), clock=clock)
        poller = Poller(store, journal, {HTTP.name: source}, clock=clock)
        stored = store.get(begun.execution_id)
        assert stored is not None
        store.update(replace(stored, last_polled_at=None))  # due by any clock
        results.append(poller.poll(begun.execution_id).result)
        source.close()

    assert results == [Result.POLLED, Result.ENDED]
    ended = store.get(begun.execution_id)
    assert ended is not None
    verdict = ended.verdict
    assert verdict is not None
    assert verdict.status is Status.SUCCEEDED
    assert not verdict.late
    assert abs(verdict.at - time.time() * 1000) < TOLERANCE_MS
    since = ended.stages[0].jobs[0].since
    assert since is not None
    assert abs(since - time.time() * 1000) < TOLERANCE_MS
    journal.close()
