"""Records MCP: the tools that a client calls, and those that a server runs.

A client's session is wrapped; a server gets one more middleware. In one process both are one call: the
server, and an agent framework that calls its tools over MCP, record nothing again.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp.client.session import ClientSession
from mcp.server.lowlevel import Server

from longwatch.recording.calls import reported_faults
from longwatch.recording.open_call import CallBlock, is_recorded_as_tool

TOOL_CALL = "tools/call"
OWN_SERVER = "longwatch"  # its tools read a journal: recorded, each call would add to what the next one reads


class RecordingMiddleware:
    """Records the tool calls of one server."""

    def __init__(self, server_name: str) -> None:
        self._server_name = server_name

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        params = ctx.params or {}
        name = params.get("name")
        if ctx.method != TOOL_CALL or not isinstance(name, str) or is_recorded_as_tool(name):
            return await call_next(ctx)
        with CallBlock(
            "tool", name, input=params.get("arguments"), fields={"system": self._server_name}
        ) as block:
            result = await call_next(ctx)
            with reported_faults():
                _read(result, block)
        return result


def _record_client(call_tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(call_tool)
    async def recorded(
        self: ClientSession, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any
    ) -> Any:
        if is_recorded_as_tool(name):
            return await call_tool(self, name, arguments, *args, **options)
        with CallBlock("tool", name, input=arguments, fields={"system": _server_name(self)}) as block:
            result = await call_tool(self, name, arguments, *args, **options)
            with reported_faults():
                _read(result, block)
        return result

    return recorded


def _record_server(initialize: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialize)
    def recorded(self: Server[Any], *args: Any, **options: Any) -> None:
        initialize(self, *args, **options)
        with reported_faults():
            if self.name != OWN_SERVER:
                self.middleware.append(RecordingMiddleware(self.name))

    return recorded


def _read(result: object, block: CallBlock) -> None:
    """Take the output or the error from a result: a model on the client, the JSON of one on the server."""
    is_error = _field(result, "is_error", "isError")
    structured = _field(result, "structured_content", "structuredContent")
    content = _text(_field(result, "content", "content"))
    if is_error is True:
        block.error = content if isinstance(content, str) and content else "the tool reported an error"
    else:
        block.output = _unwrapped(structured) if structured is not None else content


def _field(result: object, name: str, wire_name: str) -> Any:
    return result.get(wire_name) if isinstance(result, Mapping) else getattr(result, name, None)


def _unwrapped(structured: Any) -> object:
    """What the tool returned: the SDK wraps any value but an object as `{"result": value}`."""
    is_wrapped = isinstance(structured, Mapping) and structured.keys() == {"result"}
    return structured["result"] if is_wrapped else structured


def _text(content: Any) -> object:
    """The text of content that is text only; otherwise its parts, with the type and size of each file."""
    if not isinstance(content, Sequence):
        return None
    parts = [_part(item) for item in content]
    texts = [part["text"] for part in parts if part.keys() == {"type", "text"}]
    return "\n".join(map(str, texts)) if len(texts) == len(parts) else parts


def _part(item: object) -> dict[str, object]:
    kind, text, data = (_field(item, name, name) for name in ("type", "text", "data"))
    if text is not None:
        return {"type": "text", "text": text}
    media_type = _field(item, "mime_type", "mimeType")
    found = {"type": kind, "media_type": media_type, "bytes": len(data) * 3 // 4 if data else None}
    return {name: value for name, value in found.items() if value is not None}


def _server_name(session: ClientSession) -> str | None:
    name = getattr(getattr(session, "server_info", None), "name", None)
    return name if isinstance(name, str) else None


def install() -> None:
    """Wrap the method of a client that calls tools, and the creation of servers."""
    if not hasattr(ClientSession.call_tool, "__wrapped__"):
        ClientSession.call_tool = _record_client(ClientSession.call_tool)  # type: ignore[method-assign,assignment]
        Server.__init__ = _record_server(Server.__init__)  # type: ignore[method-assign]
