"""Engines and tables for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longwatch.storage.urls import TableAddress
from tests.contract.tables import new_table


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("ministack_url", id="ministack", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", id="dynamodb-local", marks=pytest.mark.needs_java),
    ],
)
def engine_url(request: pytest.FixtureRequest) -> str:
    """The address of each engine in turn."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture(params=["workflow", "session"])
def address(request: pytest.FixtureRequest, engine_url: str) -> Iterator[TableAddress]:
    """An empty table of each layout on each engine."""
    with new_table(engine_url, request.param) as at:
        yield at
