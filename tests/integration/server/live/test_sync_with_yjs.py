"""The real Yjs, as browsers use it, edits documents together with an editor in Python."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.integration.server.live.editors import editing, until_stored
from tests.integration.server.live.servers import ServerProcess
from tests.patience import PATIENCE_SECONDS

PACKAGES = Path(__file__).resolve().parents[4] / "web" / "package.json"
SCRIPT = Path(__file__).with_name("yjs_editor.mjs")


class NodeEditor:
    """A process of Node that has the document open."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.text = ""

    async def insert(self, position: int, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([position, text]).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, wanted: str) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.text != wanted:
                line = await self._process.stdout.readline()
                assert line, f"Node has ended; the text was {self.text!r}"
                self.text = json.loads(line)


@asynccontextmanager
async def node_editing(url: str) -> AsyncIterator[NodeEditor]:
    if shutil.which("node") is None:
        pytest.skip(
            "the real Yjs needs Node and there is no `node` here (Debian: apt-get install nodejs npm)"
        )
    if not (PACKAGES.parent / "node_modules" / "yjs" / "package.json").exists():
        pytest.skip("Yjs is not installed; run `make web`, which needs npm")
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SCRIPT),
        str(PACKAGES),
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield NodeEditor(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def test_an_editor_in_javascript_and_one_in_python_share_a_text(
    shared_server: ServerProcess, http: httpx2.AsyncClient
) -> None:
    project = f"p-{secrets.token_hex(4)}"
    (await http.post("/api/projects", json={"id": project})).raise_for_status()
    url = f"{shared_server.websocket_url}/api/projects/{project}/sync/shared.md"

    async with node_editing(url) as browser, editing(url) as python:
        python.text.insert(0, "größer 😀")
        await browser.until("größer 😀")
        await browser.insert(len("größer 😀".encode("utf-16-le")) // 2, "!")
        await python.until(lambda text: text == "größer 😀!")

    await until_stored(http, project, "shared.md", "größer 😀!")
