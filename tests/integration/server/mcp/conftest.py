"""A client of the MCP server over a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.server.mcp.clients import Agent, agent_of
from tests.integration.server.stores import Stores


@pytest.fixture
async def agent(sqlite_stores: Stores) -> AsyncIterator[Agent]:
    """In a task of its own: the SDK has to leave its client in the task that has entered it."""
    connected: asyncio.Future[Agent] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with agent_of(sqlite_stores, write=True) as agent:
            connected.set_result(agent)
            await done.wait()

    holding = asyncio.create_task(hold())
    await asyncio.wait((holding, connected), return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        holding.result()
    yield connected.result()
    done.set()
    await holding
