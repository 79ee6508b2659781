"""A poller with its store, journal and source for each test."""

from __future__ import annotations

import pytest

from tests.unit.executions.poller_harness import PollerHarness


@pytest.fixture
def harness() -> PollerHarness:
    return PollerHarness()
