"""Records the client `anthropic`: messages, also those through Bedrock and Vertex."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longwatch.integrations.client_calls import ModelResponse
from longwatch.integrations.generated_clients import ClientApi, ClientLibrary
from longwatch.integrations.messages import (
    Message,
    Part,
    media_part,
    message,
    parameters_of,
    read,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from longwatch.recording.model_calls import ModelUsage

CONTENT_FIELDS = ("model", "messages", "system", "tools")


def install() -> None:
    """Record every client, those that exist already included."""
    import anthropic

    LIBRARY.install(anthropic.Anthropic, anthropic.AsyncAnthropic)


def read_parameters(body: Mapping[str, Any]) -> dict[str, object]:
    found = parameters_of(body, content=CONTENT_FIELDS)
    tools = [read(tool, "name") or read(tool, "type") for tool in body.get("tools") or ()]
    return {**found, "tools": tools} if tools else found


def read_input(body: Mapping[str, Any]) -> list[Message]:
    system = body.get("system")
    head = [message("system", read_blocks(system))] if system else []
    return [
        *head,
        *(
            message(read(each, "role"), read_blocks(read(each, "content")))
            for each in body.get("messages") or ()
        ),
    ]


def read_blocks(content: object) -> Iterable[Part]:
    """The blocks of a message as parts."""
    if isinstance(content, str):
        yield text_part(content)
        return
    for block in content if isinstance(content, list | tuple) else ():
        kind = str(read(block, "type"))
        if kind == "text":
            yield text_part(read(block, "text"))
        elif kind == "thinking":
            yield reasoning_part(read(block, "thinking"))
        elif kind.endswith("tool_use"):
            yield tool_call_part(read(block, "id"), read(block, "name"), read(block, "input"))
        elif kind.endswith("tool_result"):
            result = read(block, "content")
            plain = message("tool", read_blocks(result))["content"]
            yield tool_result_part(read(block, "tool_use_id"), plain)
        elif kind in ("image", "document"):
            source = read(block, "source")
            name = "image" if kind == "image" else "file"
            yield media_part(name, media_type=read(source, "media_type"), data=read(source, "data"))
        else:
            yield {"type": kind}


def read_response(response: object) -> ModelResponse:
    reason = read(response, "stop_reason")
    content = read(response, "content")
    return ModelResponse(
        response_id=read(response, "id"),
        response_model=read(response, "model"),
        finish_reasons=[str(reason)] if reason else None,
        usage=read_usage(read(response, "usage")),
        output=[message(read(response, "role") or "assistant", read_blocks(content))] if content else [],
    )


def read_usage(usage: object) -> ModelUsage | None:
    """Anthropic counts cached tokens apart from the other input tokens."""
    if usage is None:
        return None
    counts = [read(usage, name) for name in INPUT_COUNTS]
    return ModelUsage(
        input_tokens=None if counts[0] is None else sum(count or 0 for count in counts),
        output_tokens=read(usage, "output_tokens"),
        cache_read_tokens=counts[1],
        cache_write_tokens=counts[2],
        reasoning_tokens=read(read(usage, "output_tokens_details"), "thinking_tokens"),
    )


INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class MessageStream:
    """Collects the events of a message."""

    def __init__(self) -> None:
        self._message: object = None
        self._usage: dict[str, object] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._reason: str | None = None

    def add(self, event: object) -> bool:
        kind = read(event, "type")
        if kind == "message_start":
            self._message = read(event, "message")
            self._add_usage(read(self._message, "usage"), INPUT_COUNTS)  # its output count is a first guess
        elif kind == "content_block_start":
            self._blocks[read(event, "index")] = {"block": read(event, "content_block"), "pieces": []}
        elif kind == "content_block_delta":
            return self._add_delta(self._blocks[read(event, "index")], read(event, "delta"))
        elif kind == "message_delta":
            self._reason = read(read(event, "delta"), "stop_reason") or self._reason
            self._add_usage(read(event, "usage"), (*INPUT_COUNTS, "output_tokens", "output_tokens_details"))
        return False

    def _add_usage(self, usage: object, names: Iterable[str]) -> None:
        """Later counts replace earlier ones: they are totals."""
        self._usage |= {name: count for name in names if (count := read(usage, name)) is not None}

    def _add_delta(self, state: dict[str, Any], delta: object) -> bool:
        piece = read(delta, "text") or read(delta, "partial_json") or read(delta, "thinking")
        if piece:
            state["pieces"].append(piece)
        return bool(piece)

    def response(self) -> ModelResponse:
        parts = [part for state in self._blocks.values() for part in _streamed_parts(state)]
        return ModelResponse(
            response_id=read(self._message, "id"),
            response_model=read(self._message, "model"),
            finish_reasons=[self._reason] if self._reason else None,
            usage=read_usage(self._usage) if self._usage else None,
            output=[message("assistant", parts)] if parts else [],
        )


def _streamed_parts(state: Mapping[str, Any]) -> Iterable[Part]:
    block, text = state["block"], "".join(state["pieces"])
    kind = str(read(block, "type"))
    if kind == "text":
        yield text_part(text)
    elif kind == "thinking":
        yield reasoning_part(text)
    elif kind.endswith("tool_use"):
        yield tool_call_part(read(block, "id"), read(block, "name"), text)
    else:
        yield from read_blocks([block])


LIBRARY = ClientLibrary(
    "anthropic",
    (ClientApi("/v1/messages", "chat", read_input, read_parameters, read_response, MessageStream),),
)
