"""Engines for the DynamoDB journal: MiniStack by default, Amazon's DynamoDB Local wherever Java is."""

from __future__ import annotations

import pytest


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
