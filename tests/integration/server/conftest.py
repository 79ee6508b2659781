"""The stores that servers stand on: a SQLite file, and tables on each DynamoDB engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.server.stores import Served, Stores, dynamodb_stores, served


@pytest.fixture
def sqlite_stores(tmp_path: Path) -> Stores:
    return Stores(file=tmp_path / "server.db")


@pytest.fixture(
    params=[
        pytest.param("", id="sqlite"),
        pytest.param("ministack_url", id="ministack", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", id="dynamodb-local", marks=pytest.mark.needs_java),
    ]
)
def stores(request: pytest.FixtureRequest, sqlite_stores: Stores) -> Iterator[Stores]:
    """The same promises on every engine."""
    if not request.param:
        yield sqlite_stores
        return
    with dynamodb_stores(request.getfixturevalue(request.param)) as found:
        yield found


@pytest.fixture
async def server(sqlite_stores: Stores) -> AsyncIterator[Served]:
    """A server over a SQLite file."""
    async with served(sqlite_stores) as running:
        yield running
