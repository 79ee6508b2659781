"""Clients of the MCP server in this process, and what they read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent

from longwatch.server.context import ServerContext
from longwatch.server.mcp.box import OwnRunName
from longwatch.server.mcp.protocol import McpServer
from tests.integration.server.stores import Served, Stores, served


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that calls the tools of a server, whose journal a test writes to over HTTP."""

    client: Client
    server: Served

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(name, arguments)

    async def read(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call, which the SDK has validated against the tool's schema."""
        result = await self.call(name, **arguments)
        assert not result.is_error, text_of(result)
        content: dict[str, Any] = result.structured_content
        return content


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def agent_of(
    stores: Stores,
    *,
    write: bool = False,
    own_run: OwnRunName | None = None,
    mode: str = "auto",
    **options: Any,
) -> AsyncIterator[Agent]:
    """A client that is connected in memory."""
    async with (
        served(stores, **options) as server,
        Client(server_of(server.context, write=write, own_run=own_run), mode=mode) as client,
    ):
        yield Agent(client, server)


def server_of(context: ServerContext, *, write: bool = False, own_run: OwnRunName | None = None) -> Any:
    """The server of the SDK over these parts."""
    return McpServer(context, lambda request: (own_run, write)).build()
