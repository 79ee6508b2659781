"""A real server for the polling clients."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from longwatch.remote import ServerClient
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("server") / "journal.db") as running:
        yield running


@pytest.fixture
async def http(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """Creates what the clients poll."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[ServerClient]:
    async with ServerClient(server.url) as client:
        yield client


@pytest.fixture
async def project(http: httpx2.AsyncClient) -> str:
    """A project with a session `s`."""
    project_id = f"p-{secrets.token_hex(4)}"
    (await http.post("/api/projects", json={"id": project_id})).raise_for_status()
    (await http.post(f"/api/projects/{project_id}/sessions", json={"id": "s"})).raise_for_status()
    return project_id
