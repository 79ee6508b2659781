"""`longwatch mcp`: the journal for agents, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import click

from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import log_formatter, remark
from longwatch.cli.resolve import check_journal
from longwatch.errors import MissingExtra
from longwatch.journal.factory import open_journal
from longwatch.settings import Settings


@click.command()
@click.option("--write", is_flag=True, help="Let the client record notes. Everything else only reads.")
@common_options
@pass_invocation
def command(invocation: Invocation, write: bool) -> None:
    """Serve the journal to an agent over MCP, on standard input and output.

    An MCP client starts this command. Its tools list, search, show, explain, compare and verify runs, wait
    for their end, and read events; my_run is about the run that the agent is part of. Over HTTP, `longwatch
    serve` has the same tools at /mcp.

    \b
    claude mcp add longwatch -- longwatch mcp
    """
    try:
        import fastapi  # noqa: F401
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("longwatch mcp", "mcp") from error
    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    settings = invocation.settings()
    for warning in check_journal(settings, clock=invocation.clock):
        remark(f"longwatch: {warning}")
    asyncio.run(_serve(settings, invocation, write=write))


async def _serve(settings: Settings, invocation: Invocation, *, write: bool) -> None:
    from longwatch.documents.stores.memory import MemoryDocumentStore
    from longwatch.server.context import open_context
    from longwatch.server.mcp.own_run import from_environment
    from longwatch.server.mcp.protocol import McpServer
    from longwatch.server.mcp.stdio import serve_stdio

    own_run = from_environment(os.environ)

    def identify(request: Any) -> Any:
        return own_run, write

    with (
        open_journal(settings=settings, clock=invocation.clock) as journal,
        MemoryDocumentStore() as documents,  # the tools read no documents
    ):
        async with open_context(journal, documents, clock=invocation.clock, settings=settings) as context:
            await serve_stdio(McpServer(context, identify).build())
