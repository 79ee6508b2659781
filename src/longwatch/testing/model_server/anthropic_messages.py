"""Anthropic's messages API on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from longwatch.testing.model_server.script import (
    ModelApi,
    ModelFailure,
    ModelReply,
    ModelRequest,
    WireFormat,
    halves,
    server_sent_event,
)

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def respond(request: ModelRequest, reply: ModelReply, number: int) -> Mapping[str, object]:
    """A `message` object."""
    return _message(request, reply, number) | {
        "content": _content(reply, number),
        "stop_reason": STOP_REASONS[reply.reason],
        "usage": _input_usage(reply) | _output_usage(reply),
    }


def stream(request: ModelRequest, reply: ModelReply, number: int) -> Iterator[bytes]:
    """The events of a message, from `message_start` to `message_stop`."""

    def event(kind: str, **fields: object) -> bytes:
        return server_sent_event({"type": kind, **fields}, kind)

    yield event("message_start", message=_message(request, reply, number))
    for index, block in enumerate(_content(reply, number)):
        yield event("content_block_start", index=index, content_block=_empty(block))
        for delta in _deltas(block, reply):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ended = {"stop_reason": STOP_REASONS[reply.reason], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage=_output_usage(reply))
    yield event("message_stop")


def describe_failure(failure: ModelFailure) -> Mapping[str, object]:
    kind = ERROR_TYPES.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def _message(request: ModelRequest, reply: ModelReply, number: int) -> dict[str, object]:
    """The message before its content has arrived."""
    return {
        "id": reply.response_id or f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _input_usage(reply) | {"output_tokens": 1},
    }


def _input_usage(reply: ModelReply) -> dict[str, object]:
    """Anthropic counts cached tokens apart from the other input tokens, and has no response without usage."""
    cached = reply.cache_read_tokens + reply.cache_write_tokens
    return {
        "input_tokens": max(0, (reply.input_tokens or 0) - cached),
        "cache_creation_input_tokens": reply.cache_write_tokens,
        "cache_read_input_tokens": reply.cache_read_tokens,
    }


def _output_usage(reply: ModelReply) -> dict[str, object]:
    usage: dict[str, object] = {"output_tokens": reply.output_tokens}
    if reply.reasoning_tokens:
        usage["output_tokens_details"] = {"thinking_tokens": reply.reasoning_tokens}
    return usage


def _content(reply: ModelReply, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c2lnbmVk"})
    if reply.text or not reply.tool_calls:
        blocks.append({"type": "text", "text": reply.text})
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"toolu_{number}_{index}"
        blocks.append({"type": "tool_use", "id": call_id, "name": call.name, "input": dict(call.arguments)})
    return blocks


def _empty(block: Mapping[str, Any]) -> dict[str, object]:
    empty: dict[str, dict[str, object]] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty[block["type"]]}


def _deltas(block: Mapping[str, Any], reply: ModelReply) -> Iterator[dict[str, object]]:
    if block["type"] == "text":
        for piece in reply.pieces():
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        yield {"type": "thinking_delta", "thinking": block["thinking"]}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        for half in halves(json.dumps(block["input"])):
            yield {"type": "input_json_delta", "partial_json": half}


MESSAGES = WireFormat(ModelApi.MESSAGES, re.compile(r"/messages$"), respond, stream, describe_failure)
