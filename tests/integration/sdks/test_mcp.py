"""MCP clients and servers, recorded through the adapter, connected in memory and over pipes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

import longwatch
from longwatch.integrations import mcp
from tests.integration.sdks.recorded import Recorded


@pytest.fixture(autouse=True)
def _attached() -> None:
    mcp.install()


@longwatch.tool
def count(words: list[str]) -> int:
    return len(words)


def library() -> MCPServer:
    server = MCPServer("library")

    @server.tool()
    def find(topic: str) -> int:
        """Find books."""
        return count([topic])

    @server.tool()
    async def wait(turns: int) -> str:
        """Wait for some turns of the loop."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return "done"

    @server.tool()
    def burn(topic: str) -> None:
        """Fail."""
        raise PermissionError(topic)

    return server


async def test_a_tool_call_is_recorded_once_with_arguments_and_result(recorded: Recorded) -> None:
    with longwatch.run("research"):
        async with Client(library()) as client:
            await client.call_tool("find", {"topic": "tides"})

    assert recorded.tree() == ["tool find completed", "  tool count completed"]
    assert recorded.start("tool", "find").payload["input"] == {"topic": "tides"}
    assert recorded.start("tool", "find").payload["system"] == "library"
    assert recorded.end("tool", "find").payload["output"] == 1


async def test_parallel_calls_are_siblings(recorded: Recorded) -> None:
    with longwatch.run("research"):
        async with Client(library()) as client:
            await asyncio.gather(*(client.call_tool("wait", {"turns": turns}) for turns in (5, 1, 3)))

    assert recorded.tree() == ["tool wait completed"] * 3


async def test_an_error_of_a_tool_fails_its_call_and_reaches_the_client(recorded: Recorded) -> None:
    with longwatch.run("research"):
        async with Client(library()) as client:
            result = await client.call_tool("burn", {"topic": "tides"})

    assert result.is_error
    assert recorded.tree() == ["tool burn failed"]
    assert recorded.end("tool", "burn").payload["error_message"] == "Error executing tool burn"


async def test_a_call_of_an_unrecorded_client_is_a_run_of_the_server(recorded: Recorded) -> None:
    server = library()
    plain = ClientSession.call_tool
    ClientSession.call_tool = plain.__wrapped__  # type: ignore[attr-defined,method-assign]
    try:
        async with Client(server) as client:
            await client.call_tool("find", {"topic": "tides"})
    finally:
        ClientSession.call_tool = plain  # type: ignore[method-assign]

    assert recorded.tree() == ["tool find completed", "  tool count completed"]
    assert recorded.start("tool", "find").payload["system"] == "library"
    assert recorded.end("tool", "find").payload["output"] == 1
    assert recorded.events("workflow_start")[0].payload["name"] == "find"


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("far")

@server.tool()
def shout(word: str) -> str:
    return word.upper()

server.run("stdio")
"""


async def test_a_server_in_another_process_is_recorded_by_its_client(
    recorded: Recorded, tmp_path: Path
) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    parameters = StdioServerParameters(command=sys.executable, args=[str(program)])

    with longwatch.run("research"):
        async with Client(stdio_client(parameters)) as client:
            await client.call_tool("shout", {"word": "tide"})

    assert recorded.tree() == ["tool shout completed"]
    assert recorded.end("tool", "shout").payload["output"] == "TIDE"
