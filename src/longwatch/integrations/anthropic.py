"""Records the client `anthropic`: messages, also those through Bedrock and Vertex."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longwatch.integrations.client_calls import Message, ModelResponse, parameters_of, plain, read
from longwatch.integrations.generated_clients import ClientApi, ClientLibrary
from longwatch.recording.model_calls import ModelUsage
from longwatch.telemetry.messages import message_of

CONTENT_FIELDS = ("model", "messages", "system", "tools")
INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
OUTPUT_COUNTS = ("output_tokens", "output_tokens_details")


def install() -> None:
    """Record every client, those that exist already included."""
    import anthropic

    LIBRARY.install(anthropic.Anthropic, anthropic.AsyncAnthropic)


def read_parameters(body: Mapping[str, Any]) -> dict[str, object]:
    found = parameters_of(body, content=CONTENT_FIELDS)
    tools = [read(tool, "name") or read(tool, "type") for tool in body.get("tools") or ()]
    return {**found, "tools": tools} if tools else found


def read_input(body: Mapping[str, Any]) -> list[Message]:
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    return [message_of(plain(each), role="user") for each in [*system, *(body.get("messages") or ())]]


def read_response(response: object) -> ModelResponse:
    reason = read(response, "stop_reason")
    content = plain(read(response, "content"))
    return ModelResponse(
        response_id=read(response, "id"),
        response_model=read(response, "model"),
        finish_reasons=[str(reason)] if reason else None,
        usage=read_usage(read(response, "usage")),
        output=[message_of({"content": content}, role="assistant")] if content else None,
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


class MessageStream:
    """Collects the events of a message."""

    def __init__(self) -> None:
        self._message: object = None
        self._usage: dict[str, object] = {}
        self._blocks: dict[int, tuple[object, list[str]]] = {}  # as it began, and its pieces
        self._reason: str | None = None

    def add(self, event: object) -> bool:
        kind = read(event, "type")
        if kind == "message_start":
            self._message = read(event, "message")
            self._add_usage(read(self._message, "usage"), INPUT_COUNTS)  # its output count is a first guess
        elif kind == "content_block_start":
            self._blocks[read(event, "index")] = read(event, "content_block"), []
        elif kind == "content_block_delta":
            delta = read(event, "delta")
            piece = read(delta, "text") or read(delta, "partial_json") or read(delta, "thinking")
            if piece:
                self._blocks[read(event, "index")][1].append(piece)
            return bool(piece)
        elif kind == "message_delta":
            self._reason = read(read(event, "delta"), "stop_reason") or self._reason
            self._add_usage(read(event, "usage"), (*INPUT_COUNTS, *OUTPUT_COUNTS))
        return False

    def _add_usage(self, usage: object, names: Iterable[str]) -> None:
        """Later counts replace earlier ones: they are totals."""
        self._usage |= {name: count for name in names if (count := read(usage, name)) is not None}

    def response(self) -> ModelResponse:
        blocks = [_streamed_block(block, "".join(pieces)) for block, pieces in self._blocks.values()]
        return ModelResponse(
            response_id=read(self._message, "id"),
            response_model=read(self._message, "model"),
            finish_reasons=[self._reason] if self._reason else None,
            usage=read_usage(self._usage) if self._usage else None,
            output=[message_of({"content": blocks}, role="assistant")] if blocks else None,
        )


def _streamed_block(block: object, text: str) -> object:
    """The block with its pieces. Its tool input is JSON, which may be cut off."""
    value: Any = plain(block)
    field = {"text": "text", "thinking": "thinking"}.get(value["type"], "input")
    return {**value, field: text} if text or field != "input" else value


LIBRARY = ClientLibrary(
    "anthropic",
    (ClientApi("/v1/messages", "chat", read_input, read_parameters, read_response, MessageStream),),
)
