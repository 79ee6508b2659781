"""Places under load, each in turn, and a simulated DRS with the real client that talks to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from longwatch.executions.sources.drs import DrsSource
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator
from tests.load.backends import IN_A_FILE, IN_TABLES, Backend, in_a_file, in_tables

REGION = "eu-west-1"
CONNECTIONS = 32


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(
    params=[
        pytest.param(IN_A_FILE, id="sqlite"),
        pytest.param(IN_TABLES, id="dynamodb-local", marks=pytest.mark.needs_java),
    ]
)
def backend(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Backend]:
    if request.param == IN_A_FILE:
        with in_a_file(tmp_path / "load.db", clock) as backend:
            yield backend
    else:
        with in_tables(request.getfixturevalue("dynamodb_local_url"), clock) as backend:
            yield backend


@pytest.fixture
def drs(clock: FakeClock) -> Iterator[DrsSimulator]:
    with DrsSimulator(clock=clock) as simulator:
        yield simulator


@pytest.fixture
def source(drs: DrsSimulator, clock: FakeClock) -> Iterator[DrsSource]:
    def connect(region: str | None, account: str | None) -> Any:
        return boto3.Session().client(
            "drs",
            region_name=region or REGION,
            endpoint_url=drs.url,
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=CONNECTIONS),
        )

    source = DrsSource(connect, clock=clock)
    yield source
    source.close()
