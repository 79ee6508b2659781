"""Open documents and a real server that is killed, comes back, and deletes files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from pycrdt import Text

from longwatch.errors import Unreachable
from longwatch.polling import Backoff, PollingManager
from longwatch.remote import DocumentPolling, ServerClient
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS

QUICK_MS = 20.0
QUICK = Backoff(0.05, 1.0, 0.05)  # when the polls are back, so are the documents


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """One for each test: it is killed in them."""
    with server_process(tmp_path / "journal.db") as running:
        yield running


@pytest.fixture
async def manager() -> AsyncIterator[PollingManager]:
    async with PollingManager(backoff=QUICK) as manager:
        yield manager


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.01)


async def stored(http: httpx2.AsyncClient, project: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await http.get(f"/api/projects/{project}/content/a.md")).text != text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_edits_made_while_the_server_is_gone_are_sent_when_it_is_back(
    server: ServerProcess,
    client: ServerClient,
    http: httpx2.AsyncClient,
    project: str,
    manager: PollingManager,
) -> None:
    async with DocumentPolling(client, project, interval_ms=QUICK_MS, manager=manager) as polling:
        text = (await polling.document("a.md")).get("content", type=Text)
        text += "before"
        await until(lambda: not polling.has_unsaved_changes)
        server.kill()
        text += ", during"
        with pytest.raises(Unreachable):
            await polling.push("a.md")
        assert polling.has_unsaved_changes

        server.start()

        await until(lambda: not polling.has_unsaved_changes)
        await stored(http, project, "before, during")


async def test_edits_outlive_a_polling_that_is_stopped_while_the_server_is_gone(
    server: ServerProcess,
    client: ServerClient,
    http: httpx2.AsyncClient,
    project: str,
    manager: PollingManager,
) -> None:
    polling = DocumentPolling(client, project, interval_ms=QUICK_MS, manager=manager)
    polling.start()
    text = (await polling.document("a.md")).get("content", type=Text)
    server.kill()
    text += "written without a server"
    polling.stop()

    server.start()

    await until(lambda: not polling.has_unsaved_changes)
    await stored(http, project, "written without a server")


async def test_a_file_deleted_on_the_server_empties_every_open_document(
    client: ServerClient, http: httpx2.AsyncClient, project: str, manager: PollingManager
) -> None:
    headers = {"Content-Type": "text/plain"}
    await http.put(f"/api/projects/{project}/content/a.md", content=b"old text", headers=headers)
    one = DocumentPolling(client, project, interval_ms=QUICK_MS, manager=manager)
    other = DocumentPolling(client, project, interval_ms=QUICK_MS, manager=manager)
    async with one, other:
        texts = [(await each.document("a.md")).get("content", type=Text) for each in (one, other)]
        assert [str(text) for text in texts] == ["old text", "old text"]

        (await http.delete(f"/api/projects/{project}/content/a.md")).raise_for_status()
        await until(lambda: [str(text) for text in texts] == ["", ""])
        texts[0] += "new text"

        await until(lambda: [str(text) for text in texts] == ["new text", "new text"])
        await stored(http, project, "new text")
