"""Edits outlast an outage of any length, pulls are retried, and a deleted file empties its document."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from pycrdt import Doc, Map, Text

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.documents.views import FileView
from longwatch.errors import DocumentNotFound, RequestRefused, Unreachable
from longwatch.polling import PollingManager
from longwatch.remote import DocumentPolling, ServerClient
from longwatch.remote.document_sync import SyncStep, next_step

pytestmark = pytest.mark.looptime

PROJECT = "/api/projects/p"
HOUR = 3_600.0


class Server:
    """The routes of documents on a real store, in this process, so that hours of virtual time can pass."""

    def __init__(self) -> None:
        self.store = MemoryDocumentStore("sync")
        self.is_away = False
        self.refusal: int | None = None  # of edits
        self.requests: list[str] = []
        self.bodies: list[int] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(f"{request.method} {request.url.path.removeprefix(PROJECT)}")
        if self.is_away:
            raise httpx2.ConnectError("connection refused")
        query, path = request.url.params, request.url.path.removeprefix(f"{PROJECT}/documents/")
        if request.url.path == f"{PROJECT}/files":
            since = int(query["since"]) if "since" in query else None
            listed = self.store.files("p", prefix=query.get("prefix"), since=since)
            body = {"version": listed.version, "files": [vars(FileView.of(each)) for each in listed.files]}
            return httpx2.Response(200, json=body)
        if request.method == "POST":
            return self._apply(path, await request.aread())
        vector = query["state_vector"]
        try:
            state = self.store.diff("p", path, base64.urlsafe_b64decode(vector + "=" * (-len(vector) % 4)))
        except DocumentNotFound:
            return httpx2.Response(404, json={"error": {"code": "not_found", "message": "not there"}})
        return httpx2.Response(200, content=state.update, headers={"Longwatch-Version": str(state.version)})

    def _apply(self, path: str, update: bytes) -> httpx2.Response:
        self.bodies.append(len(update))
        if self.refusal is not None:
            return httpx2.Response(self.refusal, json={"error": {"code": "no", "message": "refused"}})
        return httpx2.Response(200, json={"version": self.store.apply("p", path, update).version})

    def text(self) -> str:
        return self.store.text("p", "a.md")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.store.create_project("p")
    with server.store:
        yield server


class Page:
    """A document that is open, and what was reported."""

    def __init__(self, server: Server, client: ServerClient) -> None:
        self.errors: list[Exception] = []
        self.manager = PollingManager()
        self.polling = DocumentPolling(client, "p", on_error=self.errors.append, manager=self.manager)
        self.server = server
        self.doc: Doc[Any] = Doc()

    async def open(self) -> Text:
        self.polling.start()
        self.doc = await self.polling.document("a.md")
        await asyncio.sleep(1)
        text: Text = self.doc.get("content", type=Text)
        return text


@pytest.fixture
async def page(server: Server) -> AsyncIterator[Page]:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
    async with http:
        page = Page(server, ServerClient("http://server", http=http))
        async with page.manager:
            yield page
            await page.polling.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ({}, None),
        ({"has_edits"}, "push"),
        ({"has_edits", "needs_pull"}, "push"),
        ({"has_edits", "is_paused"}, "push"),
        ({"has_edits", "is_stopped"}, "push"),
        ({"has_edits", "are_refused"}, None),
        ({"has_edits", "are_refused", "needs_pull"}, "pull"),
        ({"needs_pull", "is_paused"}, None),
        ({"needs_pull", "is_stopped"}, None),
    ],
)
def test_edits_go_first_and_only_a_refusal_holds_them_back(state: set[str], step: SyncStep | None) -> None:
    names = ("has_edits", "are_refused", "needs_pull", "is_paused", "is_stopped")

    assert next_step(**{name: name in state for name in names}) == step


async def test_edits_are_sent_while_polling_without_a_push(page: Page, server: Server) -> None:
    text = await page.open()

    text += "typed"
    assert page.polling.has_unsaved_changes
    await asyncio.sleep(0.1)

    assert server.text() == "typed"
    assert not page.polling.has_unsaved_changes


async def test_edits_made_in_an_outage_of_hours_are_sent_when_it_ends(page: Page, server: Server) -> None:
    text = await page.open()
    server.is_away = True
    text += "typed offline"
    await asyncio.sleep(5 * HOUR)
    text += ", hours later"
    assert page.polling.has_unsaved_changes
    assert page.polling.is_polling
    assert server.requests.count("POST /documents/a.md") > 5 * 120 - 10  # 30 s apart at most

    server.is_away = False
    await asyncio.sleep(31)

    assert server.text() == "typed offline, hours later"
    assert not page.polling.has_unsaved_changes


async def test_a_push_that_fails_raises_and_its_edits_are_retried(page: Page, server: Server) -> None:
    text = await page.open()
    server.is_away = True
    text += "typed offline"
    with pytest.raises(Unreachable):
        await page.polling.push("a.md")

    server.is_away = False
    await asyncio.sleep(31)

    assert server.text() == "typed offline"


async def test_changes_of_others_are_seen_after_an_outage_of_hours(page: Page, server: Server) -> None:
    text = await page.open()
    server.is_away = True
    await asyncio.sleep(5 * HOUR)
    server.store.write_text("p", "a.md", "from elsewhere")

    server.is_away = False
    await asyncio.sleep(61)

    assert str(text) == "from elsewhere"


async def test_a_pull_that_fails_is_retried(page: Page, server: Server) -> None:
    server.store.write_text("p", "a.md", "from elsewhere")
    server.is_away = True
    page.polling.start()
    with pytest.raises(Unreachable):
        await page.polling.document("a.md")

    server.is_away = False
    await asyncio.sleep(31)

    before = len(server.requests)
    doc = await page.polling.document("a.md")
    assert str(doc.get("content", type=Text)) == "from elsewhere"
    assert len(server.requests) == before  # it was there already


async def test_a_pause_holds_back_pulls_but_not_edits(page: Page, server: Server) -> None:
    text = await page.open()
    server.is_away = True
    await asyncio.sleep(HOUR)
    page.manager.pause()
    server.is_away = False
    server.requests.clear()

    text += "typed"
    await asyncio.sleep(HOUR)
    assert server.text() == "typed"
    assert {each.split()[0] for each in server.requests} == {"POST"}

    server.store.write_text("p", "a.md", "typed, elsewhere too")
    page.manager.resume()
    await asyncio.sleep(1)
    assert str(text) == "typed, elsewhere too"


async def test_stopping_in_an_outage_sends_the_edits_after_it(page: Page, server: Server) -> None:
    text = await page.open()
    server.is_away = True
    text += "typed offline"
    page.polling.stop()
    await asyncio.sleep(HOUR)

    server.is_away = False
    await asyncio.sleep(31)

    assert server.text() == "typed offline"
    before = len(server.requests)
    await asyncio.sleep(HOUR)
    assert len(server.requests) == before


async def test_leaving_the_block_sends_the_last_edit(page: Page, server: Server) -> None:
    async with page.polling as polling:
        text = (await polling.document("a.md")).get("content", type=Text)
        text += "the last word"

    assert server.text() == "the last word"


async def test_leaving_the_block_in_an_outage_reports_what_is_unsaved(page: Page, server: Server) -> None:
    async with page.polling as polling:
        text = (await polling.document("a.md")).get("content", type=Text)
        server.is_away = True
        text += "not sent"

    assert isinstance(page.errors[-1], Unreachable)
    assert page.polling.has_unsaved_changes
    with pytest.raises(Unreachable):
        await page.polling.flush()
    server.is_away = False
    await page.polling.flush()
    assert server.text() == "not sent"


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413])
async def test_a_refusal_is_reported_once_and_the_edits_stay(page: Page, server: Server, status: int) -> None:
    text = await page.open()
    server.refusal = status
    text += "mine"

    await asyncio.sleep(HOUR)
    server.store.write_text("p", "a.md", "of others")
    await asyncio.sleep(10)

    assert len(server.bodies) == 1
    assert [type(error) for error in page.errors] == [RequestRefused]
    assert page.polling.has_unsaved_changes
    assert "mine" in str(text)
    assert "of others" in str(text)


async def test_refused_edits_go_with_the_next_one_without_what_was_removed(
    page: Page, server: Server
) -> None:
    text = await page.open()
    server.refusal = 413
    text += "x" * 50_000
    await asyncio.sleep(1)
    server.refusal = None

    del text[10:]
    await asyncio.sleep(1)

    assert server.text() == "x" * 10
    assert server.bodies[-1] < 200


async def test_a_deleted_file_empties_the_document_and_new_words_make_it_anew(
    page: Page, server: Server
) -> None:
    server.store.write_text("p", "a.md", "old text")
    text = await page.open()
    assert str(text) == "old text"

    server.store.delete("p", "a.md")
    await asyncio.sleep(4)
    assert str(text) == ""
    text += "new text"
    await asyncio.sleep(4)

    assert server.text() == str(text) == "new text"


async def test_only_words_written_before_the_deletion_arrived_stay(page: Page, server: Server) -> None:
    server.store.write_text("p", "a.md", "old text")
    text = await page.open()
    server.is_away = True
    text += ", new words"
    server.store.delete("p", "a.md")
    await asyncio.sleep(60)

    server.is_away = False
    await asyncio.sleep(60)

    assert server.text() == str(text) == ", new words"


async def test_words_removed_before_the_deletion_arrived_do_not_preserve_the_rest(
    page: Page, server: Server
) -> None:
    server.store.write_text("p", "a.md", "old text")
    text = await page.open()
    server.is_away = True
    del text[0:4]
    server.store.delete("p", "a.md")
    await asyncio.sleep(60)

    server.is_away = False
    await asyncio.sleep(60)

    assert str(text) == ""
    with pytest.raises(DocumentNotFound):
        server.text()


async def test_a_deleted_file_of_bytes_leaves_none(page: Page, server: Server) -> None:
    server.store.write_bytes("p", "a.md", b"\x00\x01")
    await page.open()
    file = page.doc.get("file", type=Map)
    assert "bytes" in file

    server.store.delete("p", "a.md")
    await asyncio.sleep(4)

    assert "bytes" not in file


async def test_a_server_that_lost_its_store_does_not_empty_the_document(page: Page, server: Server) -> None:
    text = await page.open()
    text += "the last copy"
    await asyncio.sleep(4)

    server.store = MemoryDocumentStore("another")
    server.store.create_project("p")
    await asyncio.sleep(10)

    assert str(text) == "the last copy"
    assert page.errors == []


async def test_a_document_outside_the_reported_files_follows_its_file(server: Server) -> None:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
    async with http, PollingManager() as manager:
        client = ServerClient("http://server", http=http)
        async with DocumentPolling(client, "p", file_paths=["b.md"], manager=manager) as polling:
            text = (await polling.document("a.md")).get("content", type=Text)
            server.store.write_text("p", "a.md", "from elsewhere")
            await asyncio.sleep(4)

            assert str(text) == "from elsewhere"


async def test_a_callback_that_raises_does_not_end_the_sync(server: Server) -> None:
    def raises(_: object) -> None:
        raise ValueError("a bug of the application")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
    async with http, PollingManager() as manager:
        client = ServerClient("http://server", http=http)
        polling = DocumentPolling(client, "p", on_document_change=raises, on_error=raises, manager=manager)
        async with polling:
            text = (await polling.document("a.md")).get("content", type=Text)
            server.is_away = True
            text += "typed"
            await asyncio.sleep(60)
            server.is_away = False
            await asyncio.sleep(60)
            assert server.text() == "typed"
            server.store.write_text("p", "a.md", "typed, elsewhere too")
            await asyncio.sleep(4)

            assert str(text) == "typed, elsewhere too"
