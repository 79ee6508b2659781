"""Messages, replies and checks that the tests of the openai client share."""

from __future__ import annotations

from typing import Any

from longwatch.testing import ModelReply, ScriptedToolCall

MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
REPLY = ModelReply(
    "good day",
    model="gpt-real",
    input_tokens=100,
    output_tokens=20,
    cache_read_tokens=64,
    cache_write_tokens=3,
    reasoning_tokens=7,
)
TOKENS = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_tokens": 64,
    "cache_write_tokens": 3,
    "reasoning_tokens": 7,
}
SEARCH = ModelReply(tool_calls=[ScriptedToolCall("search", {"query": "tides"}, "call_a")])
TOOLS: Any = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
ANSWER = [{"role": "assistant", "content": "good day"}]


def subset(payload: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: payload[name] for name in names if name in payload}


def check_pair(events: list[dict[str, Any]], **expected: object) -> None:
    """Two events of one call, the second with these fields."""
    start, end = events
    assert start["call_id"] == end["call_id"]
    assert (start["status"], start["model"], start["provider"]) == ("started", "gpt", "openai")
    assert start["recorded_by"] == end["recorded_by"] == "openai"
    assert {name: end.get(name) for name in expected} == expected


ENDED = {
    "status": "completed",
    "response_model": "gpt-real",
    "finish_reasons": ["stop"],
    "output": ANSWER,
    **TOKENS,
}
