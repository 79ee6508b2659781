"""`/mcp` of a real `longwatch serve`: tokens, origins, streams and shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from longwatch.server.access.limits import ServerLimits
from tests.integration.server.mcp.clients import text_of
from tests.integration.server.processes import ServeProcess, journal_option, serving
from tests.integration.server.stores import Stores, served
from tests.integration.server.test_runs import END, START, record

WRITER, READER = "write-token-0123456789", "read-token-0123456789"
TOKENS = {"LONGWATCH_TOKEN": WRITER, "LONGWATCH_READ_TOKEN": READER}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(
    server: ServeProcess, *, token: str | None = None, mode: str = "auto", **headers: str
) -> AsyncIterator[Client]:
    """A client of the server over HTTP."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def begin(server: ServeProcess, token: str | None = None) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
        await record(http, "wf-1", START)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_lists_runs_and_waits_for_one_over_http(tmp_path: Path, mode: str) -> None:
    reported: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    with serving(*journal_option(tmp_path / "a.db")) as server:
        await begin(server)
        async with connected(server, mode=mode) as client:
            listed = await client.call_tool("list_runs", {})
            waiting = asyncio.create_task(
                client.call_tool("wait_for_run", {"run": "wf-1"}, progress_callback=on_progress)
            )
            async with httpx2.AsyncClient(base_url=server.url) as http:
                await record(http, "wf-1", END)
            outcome = await waiting

    assert "running wf-1" in text_of(listed)
    assert outcome.structured_content["reason"] == "ended"


async def test_tokens_decide_what_a_client_may_do(tmp_path: Path) -> None:
    variables = {**TOKENS, "LONGWATCH_SERVER_MCP_WRITE": "true"}
    with serving("--token", *journal_option(tmp_path / "a.db"), **variables) as server:
        await begin(server, WRITER)
        note = {"run": "wf-1", "text": "seen"}

        async with connected(server, token=READER) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            refused = await client.call_tool("record_note", note)
            read = await client.call_tool("show_run", {"run": "wf-1"})
        async with connected(server, token=WRITER) as client:
            noted = await client.call_tool("record_note", note)

    assert "record_note" not in names
    assert (refused.is_error, read.is_error, noted.is_error) == (True, False, False)
    assert "write scope" in text_of(refused)


async def test_a_writer_may_not_write_unless_the_server_is_set_so(tmp_path: Path) -> None:
    with serving("--token", *journal_option(tmp_path / "a.db"), **TOKENS) as server:
        await begin(server, WRITER)

        async with connected(server, token=WRITER) as client:
            refused = await client.call_tool("record_note", {"run": "wf-1", "text": "seen"})

    assert refused.is_error
    assert "server.mcp_write" in text_of(refused)


@pytest.mark.parametrize("token", [None, "wrong-token-0123456789"])
async def test_a_client_without_a_valid_token_is_rejected(tmp_path: Path, token: str | None) -> None:
    with serving("--token", *journal_option(tmp_path / "a.db"), **TOKENS) as server:
        headers = {**ACCEPT, **({"Authorization": f"Bearer {token}"} if token else {})}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
            response = await http.post("/mcp", json=LIST_TOOLS)
        with pytest.raises(ExceptionGroup) as raised:
            async with connected(server, token=token) as client:
                await client.list_tools()

    assert "error response" in repr(raised.value)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


async def test_other_origins_and_hosts_are_rejected(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores) as server:
        foreign = await server.http.post(
            "/mcp", json=LIST_TOOLS, headers={**ACCEPT, "Origin": "http://evil.example"}
        )
        rebound = await server.http.post("/mcp", json=LIST_TOOLS, headers={**ACCEPT, "Host": "evil.example"})

    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "foreign_origin")
    assert (rebound.status_code, rebound.json()["error"]["code"]) == (403, "foreign_host")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing"}', 200),
    ],
)
async def test_bodies_that_are_no_requests_get_an_error(
    sqlite_stores: Stores, body: bytes, status: int
) -> None:
    async with served(sqlite_stores) as server:
        headers = {**ACCEPT, "Content-Type": "application/json"}
        response = await server.http.post("/mcp", content=body, headers=headers)

    assert response.status_code == status
    assert b'"error"' in response.content


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_are_no_sessions(sqlite_stores: Stores, method: str) -> None:
    async with served(sqlite_stores) as server:
        response = await server.http.request(method, "/mcp", headers=ACCEPT)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_an_agent_names_its_run_in_a_header(tmp_path: Path) -> None:
    with serving(*journal_option(tmp_path / "a.db")) as server:
        await begin(server)
        async with connected(server, **{"Longwatch-Run": "wf-1"}) as client:
            own = await client.call_tool("my_run", {})
        async with connected(server) as client:
            unknown = await client.call_tool("my_run", {})

    assert own.structured_content["run"]["run_id"] == "wf-1"
    assert own.structured_content["named_by"] == "the header Longwatch-Run"
    assert "Longwatch-Run" in text_of(unknown)


async def test_calls_count_as_open_streams(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, limits=ServerLimits(streams=0)) as server:
        response = await server.http.post("/mcp", json=LIST_TOOLS, headers=ACCEPT)

    assert (response.status_code, response.json()["error"]["code"]) == (503, "too_many_streams")


async def test_a_server_without_the_extra_says_how_to_install_it(
    sqlite_stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "longwatch.server.mcp.http", None)
    async with served(sqlite_stores) as server:
        responses = [await server.http.post("/mcp", json=LIST_TOOLS, headers=ACCEPT) for _ in range(2)]

    assert [response.status_code for response in responses] == [503, 503]
    assert "pip install '.[mcp]'" in responses[1].json()["error"]["message"]


async def test_a_server_that_shuts_down_answers_a_wait_with_the_reason(tmp_path: Path) -> None:
    with serving(*journal_option(tmp_path / "a.db")) as server:
        await begin(server)
        waits = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            waits.set()

        async with connected(server) as client:
            await client.list_tools()  # the client checks the answer against the schema
            waiting = asyncio.create_task(
                client.call_tool("wait_for_run", {"run": "wf-1"}, progress_callback=on_progress)
            )
            await waits.wait()
            code, seconds = await asyncio.to_thread(server.stop)
            outcome = await waiting

        assert outcome.structured_content["reason"] == "stopped"
        assert (code, seconds < 5) == (0, True)
        assert server.errors() == "Press Ctrl-C to stop.\n"
