"""A polling service on a journal in memory, and who listens to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longwatch.following import PollingService
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from tests.contract.services import Received


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def service(journal: MemoryJournal) -> Iterator[PollingService]:
    with PollingService(journal) as service:
        yield service


@pytest.fixture
def received() -> Received[Event]:
    return Received()


@pytest.fixture
def errors() -> Received[Exception]:
    return Received()
