"""From an address to an execution store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import InvalidJournalUrl
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.executions.stores.factory import executions_url, open_executions
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.settings import load_settings


@pytest.mark.parametrize(
    ("journal", "url"),
    [
        ("sqlite:///runs.db", "sqlite:///runs.db"),
        ("memory://", "memory://"),
        ("dynamodb://events", "dynamodb://longwatch-executions"),
        (
            "dynamodb://events?layout=session&region=eu-west-1",
            "dynamodb://longwatch-executions?region=eu-west-1",
        ),
    ],
)
def test_executions_are_stored_beside_the_journal(journal: str, url: str) -> None:
    assert executions_url(replace(load_settings(), journal=journal)) == url


def test_each_url_opens_its_kind_of_store() -> None:
    table = open_executions("dynamodb://wf?region=eu-west-1&endpoint=http://127.0.0.1:1")

    assert isinstance(open_executions("sqlite:///x.db"), SqliteExecutionStore)
    assert isinstance(open_executions("memory://"), MemoryExecutionStore)
    assert isinstance(table, DynamoExecutionStore)
    assert (table.address.table, table.address.region) == ("wf", "eu-west-1")


def test_a_named_memory_is_one_store() -> None:
    assert open_executions("memory://a-store") is open_executions("memory://a-store")
    assert open_executions("memory://") is not open_executions("memory://")


@pytest.mark.parametrize("url", ["postgres://x", "x.db", "dynamodb://t/more", "dynamodb://t?layout=workflow"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidJournalUrl):
        open_executions(url)
