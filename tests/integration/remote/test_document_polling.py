"""The files of a project are polled, and Yjs documents updated, over a real server."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from pycrdt import Text

from longwatch.errors import RequestRefused
from longwatch.remote import DocumentChange, DocumentPolling, ServerClient
from tests.patience import PATIENCE_SECONDS

QUICK_MS = 20.0


class ReceivedChanges:
    """Changes as they are reported, to be waited for."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self._queue: asyncio.Queue[list[DocumentChange]] = asyncio.Queue()

    def __call__(self, changes: list[DocumentChange]) -> None:
        self._queue.put_nowait(changes)

    async def until(self, *wanted: tuple[str, str]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not set(wanted) <= set(self.changes):
                self.changes += [(each.file_path, each.change_type) for each in await self._queue.get()]


async def write(http: httpx2.AsyncClient, project: str, path: str, text: str) -> None:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    response = await http.put(
        f"/api/projects/{project}/content/{path}", content=text.encode(), headers=headers
    )
    response.raise_for_status()


async def until_listed(polling: DocumentPolling, *paths: str) -> None:
    """Until a poll has found these files."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while set(polling.files) != set(paths):  # noqa: ASYNC110 - the first poll calls no callback
            await asyncio.sleep(0.01)


async def test_created_changed_and_deleted_files_are_reported(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    received = ReceivedChanges()
    await write(http, project, "old.md", "there before")

    async with DocumentPolling(client, project, interval_ms=QUICK_MS, on_document_change=received) as polling:
        await until_listed(polling, "old.md")
        await write(http, project, "new.md", "one")
        await received.until(("new.md", "created"))
        await write(http, project, "new.md", "one more")
        await received.until(("new.md", "modified"))
        await http.delete(f"/api/projects/{project}/content/old.md")
        await received.until(("old.md", "deleted"))

    assert ("old.md", "created") not in received.changes
    assert len(received.changes) == 3


async def test_only_the_requested_files_are_reported(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    received = ReceivedChanges()
    await write(http, project, "start.md", "")
    polling = DocumentPolling(
        client, project, file_paths=["b.md"], interval_ms=QUICK_MS, on_document_change=received
    )

    async with polling:
        await until_listed(polling, "start.md")
        await write(http, project, "a.md", "not asked for")
        await write(http, project, "b.md", "asked for")
        await received.until(("b.md", "created"))

    assert received.changes == [("b.md", "created")]


async def test_a_document_is_brought_up_to_date_before_its_change_is_reported(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    received = ReceivedChanges()
    await write(http, project, "notes.md", "Hello")

    async with DocumentPolling(client, project, interval_ms=QUICK_MS, on_document_change=received) as polling:
        await until_listed(polling, "notes.md")
        document = await polling.document("notes.md")
        assert str(document.get("content", type=Text)) == "Hello"
        await write(http, project, "notes.md", "Hello, 😀 world")
        await received.until(("notes.md", "modified"))

        assert str(document.get("content", type=Text)) == "Hello, 😀 world"


async def test_two_writers_at_once_end_with_the_same_text(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    await write(http, project, "notes.md", "middle")
    one, other = DocumentPolling(client, project), DocumentPolling(client, project)
    first = (await one.document("notes.md")).get("content", type=Text)
    second = (await other.document("notes.md")).get("content", type=Text)

    first.insert(0, "start ")
    second += " end"
    await one.push("notes.md")
    await other.push("notes.md")
    await one.push("notes.md")

    assert str(first) == str(second) == "start middle end"
    response = await http.get(f"/api/projects/{project}/content/notes.md")
    assert response.text == "start middle end"


async def test_a_deletion_reaches_a_document(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    await write(http, project, "notes.md", "keep this, drop that")
    polling = DocumentPolling(client, project)
    text = (await polling.document("notes.md")).get("content", type=Text)

    await write(http, project, "notes.md", "keep this")
    await polling.push("notes.md")

    assert str(text) == "keep this"


async def test_an_unknown_project_stops_the_polling(client: ServerClient) -> None:
    errors: list[Exception] = []
    warnings = asyncio.Event()

    def failed(error: Exception) -> None:
        errors.append(error)
        warnings.set()

    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        DocumentPolling(client, "nowhere", on_error=failed) as polling,
    ):
        await warnings.wait()
        assert not polling.is_polling

    assert isinstance(errors[0], RequestRefused)
    with pytest.raises(RequestRefused):
        raise errors[0]
