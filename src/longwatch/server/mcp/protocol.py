"""The MCP server: which requests it handles, and how errors reach the client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)

from longwatch.errors import LongwatchError, NotWorthAnotherTry
from longwatch.server.context import ServerContext
from longwatch.server.mcp import resources, tools
from longwatch.server.mcp.box import OwnRunName, ToolBox
from longwatch.server.mcp.results import NOTICE

log = logging.getLogger("longwatch.server")

NAME = "longwatch"
INSTRUCTIONS = (
    "longwatch records what long-running work does: a run is one piece of work, with its calls of agents, "
    "tools and models as events. Start with list_runs; explain_run states why a run failed or is still open, "
    "show_run has its calls, my_run is about your own run. Only an event ends a run: silence does not. "
    + NOTICE
)

Request = ServerRequestContext[Any, Any]
IdentifyCaller = Callable[[Request], tuple[OwnRunName | None, bool]]
"""The run that the caller of a request is part of, and whether it may write."""


class McpServer:
    """Tools and resources over the parts of a server."""

    def __init__(self, context: ServerContext, identify: IdentifyCaller) -> None:
        self._context = context
        self._identify = identify

    def build(self) -> Server[Any]:
        """A server of the SDK with these handlers."""
        return Server(
            NAME,
            version=version("longwatch"),
            title="longwatch",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=_input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, request: Request, params: PaginatedRequestParams | None) -> ListToolsResult:
        _, may_write = self._identify(request)
        return ListToolsResult(
            tools=[tools.listed(each) for each in tools.TOOLS.values() if may_write or not each.writes]
        )

    async def _call_tool(self, request: Request, params: CallToolRequestParams) -> CallToolResult:
        entry = tools.TOOLS.get(params.name)
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool {params.name[:100]!r}. tools/list lists them.")
        box = self._box(request)
        if entry.writes and not box.may_write:
            return _failed(
                f"{entry.name} writes, and this server is read-only for you. Start `longwatch mcp` with "
                "--write; over HTTP, set server.mcp_write and send a token with the write scope."
            )
        try:
            return await tools.call(entry, box, params.arguments or {})
        except LongwatchError as error:
            return _failed(f"{error}\n\n{NOTICE}")  # it may quote names of calls
        except Exception:
            log.exception("internal error in %s %s", request.method, entry.name)
            return _failed("Internal error; the server's log has the details.")

    async def _list_resources(
        self, request: Request, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        with _protocol_errors():
            return await resources.list_resources(self._box(request), params.cursor if params else None)

    async def _list_templates(
        self, request: Request, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return resources.TEMPLATES

    async def _read_resource(self, request: Request, params: ReadResourceRequestParams) -> ReadResourceResult:
        with _protocol_errors():
            return await resources.read_resource(self._box(request), str(params.uri))

    def _box(self, request: Request) -> ToolBox:
        own_run, may_write = self._identify(request)
        return ToolBox(
            context=self._context,
            may_write=may_write,
            own_run=own_run,
            client=_client_name(request),
            report_progress=request.session.report_progress,
        )


def _input_schema(name: str) -> Mapping[str, Any] | None:
    entry = tools.TOOLS.get(name)
    return None if entry is None else tools.listed(entry).input_schema


def _client_name(request: Request) -> str:
    params = request.session.client_params
    return params.client_info.name if params is not None else "an MCP client"


def _failed(message: str) -> CallToolResult:
    """An error that the model can read and act on."""
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Our own errors as errors of the protocol, for requests whose results have no place for one."""
    try:
        yield
    except NotWorthAnotherTry as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
    except LongwatchError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error
