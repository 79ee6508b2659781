"""Amazon Bedrock's Converse and ConverseStream on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from longwatch.testing.model_server.event_stream import encode_event
from longwatch.testing.model_server.script import (
    ModelApi,
    ModelFailure,
    ModelReply,
    ModelRequest,
    WireFormat,
    halves,
)

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
ERROR_TYPES = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
LATENCY_MS = 1


def respond(request: ModelRequest, reply: ModelReply, number: int) -> Mapping[str, object]:
    """The response of Converse."""
    return {
        "output": {"message": {"role": "assistant", "content": _content(reply, number)}},
        "stopReason": STOP_REASONS[reply.reason],
        "usage": _usage_of(reply),
        "metrics": {"latencyMs": LATENCY_MS},
    }


def stream(request: ModelRequest, reply: ModelReply, number: int) -> Iterator[bytes]:
    """The events of ConverseStream, from `messageStart` to `metadata`."""
    yield encode_event("messageStart", {"role": "assistant"})
    for index, block in enumerate(_content(reply, number)):
        if "toolUse" in block:
            start = {name: block["toolUse"][name] for name in ("toolUseId", "name")}
            yield encode_event("contentBlockStart", {"start": {"toolUse": start}, "contentBlockIndex": index})
        for delta in _deltas(block, reply):
            yield encode_event("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})
        yield encode_event("contentBlockStop", {"contentBlockIndex": index})
    yield encode_event("messageStop", {"stopReason": STOP_REASONS[reply.reason]})
    yield encode_event("metadata", {"usage": _usage_of(reply), "metrics": {"latencyMs": LATENCY_MS}})


def describe_failure(failure: ModelFailure) -> Mapping[str, object]:
    kind = ERROR_TYPES.get(failure.status, "InternalServerException")
    return {"__type": kind, "message": failure.message}


def _usage_of(reply: ModelReply) -> dict[str, object]:
    """Bedrock counts cached tokens apart from the other input tokens, and has no response without usage."""
    cached = reply.cache_read_tokens + reply.cache_write_tokens
    given = reply.input_tokens or 0
    usage: dict[str, object] = {
        "inputTokens": max(0, given - cached),
        "outputTokens": reply.output_tokens,
        "totalTokens": given + reply.output_tokens,
    }
    if cached:
        usage["cacheReadInputTokens"] = reply.cache_read_tokens
        usage["cacheWriteInputTokens"] = reply.cache_write_tokens
    return usage


def _content(reply: ModelReply, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        reasoning = {"text": reply.reasoning, "signature": "c2lnbmVk"}
        blocks.append({"reasoningContent": {"reasoningText": reasoning}})
    if reply.text or not reply.tool_calls:
        blocks.append({"text": reply.text})
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"tooluse_{number}_{index}"
        blocks.append({"toolUse": {"toolUseId": call_id, "name": call.name, "input": dict(call.arguments)}})
    return blocks


def _deltas(block: Mapping[str, Any], reply: ModelReply) -> Iterator[dict[str, object]]:
    if "text" in block:
        for piece in reply.pieces():
            yield {"text": piece}
    elif "toolUse" in block:
        for half in halves(json.dumps(block["toolUse"]["input"])):
            yield {"toolUse": {"input": half}}
    else:
        yield {"reasoningContent": {"text": block["reasoningContent"]["reasoningText"]["text"]}}


CONVERSE = WireFormat(
    ModelApi.CONVERSE,
    re.compile(r"/model/(?P<model>[^/]+)/converse(?P<stream>-stream)?$"),
    respond,
    stream,
    describe_failure,
    stream_type="application/vnd.amazon.eventstream",
)
