"""Real servers for the tests of the feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from longwatch.journal.sqlite import SqliteJournal
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of a module. Give runs and projects names of their own."""
    with server_process(tmp_path_factory.mktemp("server") / "journal.db") as running:
        yield running


@pytest.fixture
def shared_journal(shared_server: ServerProcess) -> Iterator[SqliteJournal]:
    with SqliteJournal(shared_server.file) as journal:
        yield journal


@pytest.fixture
async def http(shared_server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own, which it may stop."""
    with server_process(tmp_path / "journal.db") as running:
        yield running


@pytest.fixture
def journal(server: ServerProcess) -> Iterator[SqliteJournal]:
    with SqliteJournal(server.file) as journal:
        yield journal
