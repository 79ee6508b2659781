"""Documents that are edited together over WebSockets, beside those who only poll."""

from __future__ import annotations

import asyncio
import secrets

import httpx2
import pytest
import websockets

from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.remote import DocumentPolling, ServerClient
from tests.integration.server.live.editors import content, editing, until_stored
from tests.integration.server.live.feed_follower import eventually
from tests.integration.server.live.servers import ServerProcess, server_process


@pytest.fixture
async def project(http: httpx2.AsyncClient) -> str:
    project_id = f"p-{secrets.token_hex(4)}"
    (await http.post("/api/projects", json={"id": project_id})).raise_for_status()
    return project_id


def address(server: ServerProcess, project: str, path: str) -> str:
    return f"{server.websocket_url}/api/projects/{project}/sync/{path}"


async def test_two_editors_and_a_polling_client_end_with_the_same_text(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    url = address(shared_server, project, "notes/today.md")
    async with editing(url) as one, editing(url) as other, ServerClient(shared_server.url) as client:
        one.text.insert(0, "one ")
        await other.until(lambda text: "one" in text)
        other.text += "two "
        await one.until(lambda text: "two" in text)
        await until_stored(http, project, "notes/today.md", "one two ")
        poller = DocumentPolling(client, project)
        polled = await poller.document("notes/today.md")
        polled.get("content", type=type(one.text)).insert(0, "😀 ")
        await poller.push("notes/today.md")
        for editor in (one, other):
            await editor.until(lambda text: text == "😀 one two ")

    assert await content(http, project, "notes/today.md") == "😀 one two "


async def test_a_version_is_counted_for_polling_clients(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    async with editing(address(shared_server, project, "a.md")) as editor:
        for text in ("first", "first, second"):
            editor.text.clear()
            editor.text.insert(0, text)
            await until_stored(http, project, "a.md", text)

    (entry,) = (await http.get(f"/api/projects/{project}/files")).json()["files"]
    assert entry["version"] >= 2


async def test_an_editor_receives_what_was_stored_before(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    headers = {"Content-Type": "text/plain"}
    await http.put(f"/api/projects/{project}/content/b.md", content=b"before", headers=headers)

    async with editing(address(shared_server, project, "b.md")) as editor:
        await editor.until(lambda text: text == "before")


async def test_a_file_that_is_deleted_is_emptied_for_its_editors_and_comes_back_when_they_write(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    async with editing(address(shared_server, project, "c.md")) as editor:
        editor.text.insert(0, "soon gone")
        await until_stored(http, project, "c.md", "soon gone")

        await http.delete(f"/api/projects/{project}/content/c.md")
        await editor.until(lambda text: text == "")
        editor.text.insert(0, "back")

        await until_stored(http, project, "c.md", "back")


async def test_editors_of_two_servers_share_a_document(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    with server_process(shared_server.file) as second:
        async with (
            editing(address(shared_server, project, "d.md")) as here,
            editing(address(second, project, "d.md")) as there,
        ):
            here.text.insert(0, "from here")
            await there.until(lambda text: text == "from here")
            there.text += ", from there"
            await here.until(lambda text: text == "from here, from there")


async def test_an_editor_resumes_after_the_server_was_killed(server: ServerProcess) -> None:
    with SqliteDocumentStore(server.file) as documents:
        documents.create_project("p")
        async with editing(address(server, "p", "e.md")) as editor:
            editor.text.insert(0, "safe")
            await eventually(lambda: documents.entry("p", "e.md") is not None)
            await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        async with editing(address(server, "p", "e.md")) as again:
            await again.until(lambda text: text == "safe")


@pytest.mark.parametrize("path", ["../secret", "a//b", "%2e%2e/secret", "a%5Cb"])
async def test_a_path_outside_the_project_is_refused(
    shared_server: ServerProcess, project: str, path: str
) -> None:
    with pytest.raises((websockets.InvalidStatus, websockets.InvalidURI)) as refused:
        async with websockets.connect(address(shared_server, project, path)):
            pass

    assert isinstance(refused.value, websockets.InvalidStatus)
    assert refused.value.response.status_code in (400, 404)


async def test_bytes_that_are_not_a_message_affect_no_client(
    shared_server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    url = address(shared_server, project, "f.md")
    async with editing(url) as editor, websockets.connect(url) as vandal:
        for nonsense in (b"\x00\x02\xff\xff\xff", b"\x00", b"\x09\x09", b"\x01\xff\xff", b"\x00\x07\x01"):
            await vandal.send(nonsense)
        editor.text.insert(0, "still here")
        await until_stored(http, project, "f.md", "still here")
