"""A simulated DRS, and the real client that talks to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from longwatch.executions.sources.drs import DrsSource
from longwatch.testing.clock import FakeClock
from longwatch.testing.drs import DrsSimulator

REGION = "eu-west-1"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def drs(clock: FakeClock) -> Iterator[DrsSimulator]:
    with DrsSimulator(clock=clock) as simulator:
        yield simulator


@pytest.fixture
def connect(drs: DrsSimulator) -> Callable[..., Any]:
    """Makes clients of the simulator that do not try again by themselves."""
    return lambda region=REGION, account=None: boto3.Session().client(
        "drs",
        region_name=region or REGION,
        endpoint_url=drs.url,
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
    )


@pytest.fixture
def client(connect: Callable[..., Any]) -> Iterator[Any]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def source(connect: Callable[..., Any], clock: FakeClock) -> Iterator[DrsSource]:
    source = DrsSource(connect, clock=clock)
    yield source
    source.close()
