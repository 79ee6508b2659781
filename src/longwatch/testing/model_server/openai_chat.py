"""OpenAI's chat completions and embeddings on the wire."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator, Mapping

from longwatch.testing.model_server.script import (
    ModelApi,
    ModelFailure,
    ModelReply,
    ModelRequest,
    WireFormat,
    halves,
    server_sent_event,
)

CREATED = 1_700_000_000  # epoch seconds
DIMENSIONS = 8
DONE = b"data: [DONE]\n\n"


def usage_of(reply: ModelReply) -> dict[str, object] | None:
    if reply.input_tokens is None:
        return None
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": reply.cache_read_tokens,
            "cache_write_tokens": reply.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def respond(request: ModelRequest, reply: ModelReply, number: int) -> Mapping[str, object]:
    """A `chat.completion` object."""
    message: dict[str, object] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.json},
            }
            for index, call in enumerate(reply.tool_calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": reply.reason, "logprobs": None}
    return {**_head(request, reply, number, "chat.completion"), "choices": [choice], "usage": usage_of(reply)}


def stream(request: ModelRequest, reply: ModelReply, number: int) -> Iterator[bytes]:
    """`chat.completion.chunk` objects; usage comes last, and only if the request asks for it."""
    head = _head(request, reply, number, "chat.completion.chunk")

    def chunk(delta: Mapping[str, object], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return server_sent_event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.pieces():
        yield chunk({"content": piece})
    for index, call in enumerate(reply.tool_calls):
        name = {"name": call.name, "arguments": ""}
        call_id = call.id or f"call_{number}_{index}"
        yield chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": name}]})
        for part in halves(call.json):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, reply.reason)
    options = request.body.get("stream_options") or {}
    if options.get("include_usage"):
        yield server_sent_event({**head, "choices": [], "usage": usage_of(reply)})
    yield DONE


def _head(request: ModelRequest, reply: ModelReply, number: int, kind: str) -> dict[str, object]:
    return {
        "id": reply.response_id or f"chatcmpl-{number}",
        "object": kind,
        "created": CREATED,
        "model": reply.model or request.model,
    }


def describe_failure(failure: ModelFailure) -> Mapping[str, object]:
    kind = "server_error" if failure.status >= 500 else "invalid_request_error"
    code = "rate_limit_exceeded" if failure.status == 429 else None
    return {"error": {"message": failure.message, "type": kind, "param": None, "code": code}}


def embed(request: ModelRequest, reply: ModelReply, number: int) -> Mapping[str, object]:
    """A vector of fixed values for each input, as floats or in base64."""
    given = request.body.get("input") or ""
    count = len(given) if isinstance(given, list) and given and not isinstance(given[0], int) else 1
    size = request.body.get("dimensions") or DIMENSIONS
    values = [round(0.1 * (index + 1), 1) for index in range(size)]
    vector: object = values
    if request.body.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{size}f", *values)).decode()
    body: dict[str, object] = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": vector} for index in range(count)],
        "model": reply.model or request.model,
    }
    if reply.input_tokens is not None:
        body["usage"] = {"prompt_tokens": reply.input_tokens, "total_tokens": reply.input_tokens}
    return body


CHAT = WireFormat(ModelApi.CHAT, re.compile(r"/chat/completions$"), respond, stream, describe_failure)
EMBEDDINGS = WireFormat(ModelApi.EMBEDDINGS, re.compile(r"/embeddings$"), embed, None, describe_failure)
