"""A server whose journal file is deleted or replaced returns 503 with the reason, until one is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.server.api import monitoring
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from longwatch.settings import load_settings
from tests.integration.server.stores import BASE
from tests.patience import PATIENCE_SECONDS

NOTE = {"events": [{"type": "note"}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
async def http(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    monkeypatch.setattr(monitoring, "HOLDS_SECONDS", 0.0)
    async with serving(path) as client:
        yield client


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server that has everything in one file."""
    settings = load_settings(environment={"LONGWATCH_JOURNAL": f"sqlite:///{path}"})
    with SqliteJournal(path) as journal, SqliteDocumentStore(path) as documents:
        async with open_context(journal, documents, settings=settings) as context:
            transport = httpx2.ASGITransport(app=create_app(context))
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                yield client


async def test_a_deleted_journal_is_503_for_writes_reads_and_the_health_check(
    http: httpx2.AsyncClient, path: Path
) -> None:
    written = await http.post("/api/runs/wf-1/events", json=NOTE)
    well = await http.get("/api/health")
    path.unlink()  # noqa: ASYNC240

    responses = [
        await http.post("/api/runs/wf-1/events", json=NOTE),
        await http.get("/api/runs"),
        await http.get("/api/runs/wf-2"),
        await http.get("/api/health"),
        await http.post("/api/runs/wf-1/events", json=NOTE),
        await http.get("/api/health"),
    ]

    assert (written.status_code, well.status_code) == (200, 200)
    for response in responses:
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (503, "journal_unavailable")
        assert "was deleted or moved while it was open" in error["message"]
        assert int(response.headers["retry-after"]) > 0
    assert not path.exists()  # noqa: ASYNC240


async def test_the_health_check_does_not_contradict_a_request_that_found_the_journal_gone(path: Path) -> None:
    async with serving(path) as http:
        await http.post("/api/runs/wf-1/events", json=NOTE)
        well = await http.get("/api/health")
        path.unlink()  # noqa: ASYNC240
        refused = await http.post("/api/runs/wf-1/events", json=NOTE)
        after = await http.get("/api/health")  # well within the time for which the first response holds

    assert [each.status_code for each in (well, refused, after)] == [200, 503, 503]


@pytest.mark.parametrize("first", ["/api/executions", "/api/projects", "/api/projects/p1/files", "/api/runs"])
async def test_no_store_of_the_server_creates_the_deleted_file_anew(
    http: httpx2.AsyncClient, path: Path, first: str
) -> None:
    await http.post("/api/runs/wf-1/events", json=NOTE)
    path.unlink()  # noqa: ASYNC240

    responses = [await http.get(each) for each in (first, "/api/executions", "/api/projects", "/api/health")]

    assert [each.status_code for each in responses] == [503] * 4
    assert not path.exists()  # noqa: ASYNC240


async def test_projects_and_sessions_are_read_from_the_file_that_replaces_theirs(
    http: httpx2.AsyncClient, path: Path
) -> None:
    await http.post("/api/projects", json={"id": "p1"})
    await http.post("/api/projects/p1/sessions", json={"id": "s1"})
    await http.get("/api/projects/p1/sessions")
    other = path.with_name("other.db")
    with SqliteJournal(other) as journal:
        journal.find_runs()
    other.replace(path)

    async with asyncio.timeout(20):
        while (await http.get("/api/projects")).status_code != 200:  # noqa: ASYNC110 - the first one finds out
            await asyncio.sleep(0.01)
    listed = await http.get("/api/projects/p1/sessions")
    created = await http.post("/api/projects", json={"id": "p1"})
    session = await http.post("/api/projects/p1/sessions", json={"id": "s1"})

    assert (listed.status_code, created.status_code, session.status_code) == (404, 201, 201)


async def test_a_requested_run_is_read_from_the_file_that_replaces_its_own(
    http: httpx2.AsyncClient, path: Path
) -> None:
    for _ in range(3):
        await http.post("/api/runs/wf-1/events", json=NOTE)
    before = (await http.get("/api/runs/wf-1")).json()
    other = path.with_name("other.db")
    with SqliteJournal(other) as journal:
        journal.append([Event(run_id="wf-1", event_id="x", type="note", occurred_at=1)])
    other.replace(path)

    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await http.get("/api/health")).status_code != 200:  # noqa: ASYNC110 - the first one finds out
            await asyncio.sleep(0.01)
    after = (await http.get("/api/runs/wf-1")).json()
    written = await http.post("/api/runs/wf-1/events", json=NOTE)
    files = await http.post("/api/projects", json={"name": "p"})

    assert (before["events"], after["events"]) == (3, 1)
    assert written.status_code == 200
    assert files.status_code == 201
