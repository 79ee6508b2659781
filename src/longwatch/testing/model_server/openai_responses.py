"""OpenAI's responses API on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from longwatch.testing.model_server.openai_chat import CREATED, describe_failure
from longwatch.testing.model_server.script import (
    ModelApi,
    ModelReply,
    ModelRequest,
    WireFormat,
    halves,
    server_sent_event,
)

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def respond(request: ModelRequest, reply: ModelReply, number: int) -> Mapping[str, object]:
    """A `response` object."""
    return _response(request, reply, number, _output(reply, number))


def stream(request: ModelRequest, reply: ModelReply, number: int) -> Iterator[bytes]:
    """The events of a response, from `response.created` to `response.completed`."""
    sequence = count()

    def event(kind: str, **fields: object) -> bytes:
        return server_sent_event({"type": kind, "sequence_number": next(sequence), **fields}, kind)

    begun = {**_response(request, reply, number, []), "status": "in_progress", "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    output = _output(reply, number)
    for index, item in enumerate(output):
        yield event("response.output_item.added", output_index=index, item=_empty(item))
        for kind, fields in _deltas(item, reply):
            yield event(kind, output_index=index, item_id=item["id"], **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    ended = _response(request, reply, number, output)
    yield event(f"response.{ended['status']}", response=ended)


def _response(
    request: ModelRequest, reply: ModelReply, number: int, output: list[dict[str, Any]]
) -> dict[str, object]:
    incomplete = INCOMPLETE.get(reply.reason)
    return {
        "id": reply.response_id or f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if incomplete else "completed",
        "model": reply.model or request.model,
        "output": output,
        "error": None,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": request.body.get("temperature", 1.0),
        "tool_choice": request.body.get("tool_choice", "auto"),
        "tools": request.body.get("tools", []),
        "top_p": 1.0,
        "usage": _usage_of(reply),
    }


def _usage_of(reply: ModelReply) -> dict[str, object] | None:
    if reply.input_tokens is None:
        return None
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {
            "cached_tokens": reply.cache_read_tokens,
            "cache_write_tokens": reply.cache_write_tokens,
        },
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _output(reply: ModelReply, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    if reply.text or not reply.tool_calls:
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "status": "completed",
                "role": "assistant",
                "content": [text],
            }
        )
    for index, call in enumerate(reply.tool_calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": call.id or f"call_{number}_{index}",
                "name": call.name,
                "arguments": call.json,
                "status": "completed",
            }
        )
    return items


def _empty(item: Mapping[str, Any]) -> dict[str, object]:
    """The item before its content has arrived."""
    if item["type"] == "reasoning":
        return {**item, "summary": []}
    emptied: dict[str, object] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {**item, "status": "in_progress", **emptied}


def _deltas(item: Mapping[str, Any], reply: ModelReply) -> Iterator[tuple[str, dict[str, object]]]:
    if item["type"] == "message":
        part = item["content"][0]
        yield "response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}}
        for piece in reply.pieces():
            yield "response.output_text.delta", {"content_index": 0, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {"content_index": 0, "text": reply.text, "logprobs": []}
        yield "response.content_part.done", {"content_index": 0, "part": part}
    elif item["type"] == "function_call":
        for half in halves(item["arguments"]):
            yield "response.function_call_arguments.delta", {"delta": half}
        ended = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", ended
    else:
        part = item["summary"][0]
        yield "response.reasoning_summary_part.added", {"summary_index": 0, "part": {**part, "text": ""}}
        yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": part["text"]}
        yield "response.reasoning_summary_text.done", {"summary_index": 0, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {"summary_index": 0, "part": part}


RESPONSES = WireFormat(ModelApi.RESPONSES, re.compile(r"/responses$"), respond, stream, describe_failure)
