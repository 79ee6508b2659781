"""npm's own y-websocket client against the server: two converge, and what they write stays."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.server.live.editors import until_stored
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS

PACKAGES = Path(__file__).resolve().parents[4] / "web" / "package.json"
SCRIPT = Path(__file__).with_name("yjs_provider.mjs")


class Provider:
    """A process of Node with a `WebsocketProvider`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.state: dict[str, Any] = {"text": "", "synced": False, "people": []}

    async def insert(self, position: int, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([position, text]).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(self.state):
                line = await self._process.stdout.readline()
                assert line, f"Node has ended; it stood at {self.state}"
                self.state = json.loads(line)

    async def until_text(self, text: str) -> None:
        await self.until(lambda state: state["text"] == text and state["synced"])


@asynccontextmanager
async def provider(server: ServerProcess, room: str, name: str, token: str = "") -> AsyncIterator[Provider]:
    if shutil.which("node") is None:
        pytest.skip("y-websocket needs Node and there is no `node` here (Debian: apt-get install nodejs npm)")
    if not (PACKAGES.parent / "node_modules" / "y-websocket" / "package.json").exists():
        pytest.skip("y-websocket is not installed; run `make web`, which needs npm")
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SCRIPT),
        str(PACKAGES),
        f"{server.websocket_url}/api/projects/p/sync",
        room,
        name,
        token,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Provider(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path / "server.db") as running:
        create_project(running)
        yield running


def create_project(server: ServerProcess) -> None:
    httpx2.post(
        f"{server.url}/api/projects", json={"id": "p"}, headers=headers_of(server), timeout=PATIENCE_SECONDS
    ).raise_for_status()


def headers_of(server: ServerProcess) -> dict[str, str]:
    return {} if server.token is None else {"Authorization": f"Bearer {server.token}"}


async def until_project_stores(server: ServerProcess, path: str, text: str) -> None:
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers_of(server), timeout=PATIENCE_SECONDS
    ) as http:
        await until_stored(http, "p", path, text)


async def test_two_editors_converge_see_each_other_and_their_text_is_stored(server: ServerProcess) -> None:
    async with (
        provider(server, "notes/shared.md", "ada") as ada,
        provider(server, "notes/shared.md", "bob") as bob,
    ):
        for each in (ada, bob):
            await each.until(lambda state: state["synced"] and state["people"] == ["ada", "bob"])
        await ada.insert(0, "roof 😀 ")
        await bob.until_text("roof 😀 ")

        await ada.insert(0, "A")  # both at once, in the same place
        await bob.insert(0, "B")
        for each in (ada, bob):
            await each.until(lambda state: sorted(state["text"][:2]) == ["A", "B"])
        texts = {ada.state["text"], bob.state["text"]}

    assert len(texts) == 1
    await until_project_stores(server, "notes/shared.md", texts.pop())


async def test_an_editor_outlives_its_server_and_nothing_is_lost(server: ServerProcess) -> None:
    async with provider(server, "kept.md", "ada") as ada:
        await ada.until(lambda state: state["synced"])
        await ada.insert(0, "before ")
        async with provider(server, "kept.md", "bob") as bob:
            await bob.until_text("before ")

        server.kill()
        await ada.until(lambda state: not state["synced"])
        await ada.insert(7, "meanwhile")
        server.start()
        await ada.until_text("before meanwhile")
        async with provider(server, "kept.md", "eve") as eve:
            await eve.until_text("before meanwhile")

    await until_project_stores(server, "kept.md", "before meanwhile")


async def test_an_editor_sends_its_token_as_a_subprotocol_each_time_it_connects(tmp_path: Path) -> None:
    token = "a token of your own".replace(" ", "/+")  # characters that base64url encodes
    with server_process(tmp_path / "server.db", token=token) as server:
        create_project(server)
        async with provider(server, "notes.md", "ada", token) as ada:
            await ada.until(lambda state: state["synced"])
            server.kill()
            await ada.until(lambda state: not state["synced"])
            await ada.insert(0, "hello")
            server.start()
            await ada.until_text("hello")

        await until_project_stores(server, "notes.md", "hello")
