"""Strands Agents, recorded through the adapter, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from strands import Agent, tool
from strands.models import Model

import longwatch
from longwatch.integrations import strands
from tests.integration.sdks.recorded import Recorded

strands.install()


class ScriptedModel(Model):  # type: ignore[misc]
    """Streams one reply after the other: text, tool calls, or an exception."""

    def __init__(self, *replies: Any) -> None:
        self._replies = iter(replies)

    def get_config(self) -> dict[str, object]:
        return {"model_id": "scripted-1", "temperature": 0.5}

    def update_config(self, **config: Any) -> None:
        """Nothing can be set."""

    async def structured_output(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        yield {"messageStart": {"role": "assistant"}}
        for number, (name, arguments) in enumerate([] if isinstance(reply, str) else reply):
            use = {"name": name, "toolUseId": f"t{number}-{id(reply)}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        if isinstance(reply, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(reply, str) else "tool_use"}}
        usage = {"inputTokens": 12, "outputTokens": 7, "totalTokens": 19, "cacheReadInputTokens": 4}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


@tool  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


@tool  # type: ignore[untyped-decorator]
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def calculator(*replies: Any) -> Agent:
    model = ScriptedModel(*replies)
    return Agent(model=model, tools=[add, divide], name="calculator", callback_handler=None)


def test_an_agent_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    calculator([("add", {"a": 1, "b": 2})], "3")("1 + 2?")

    assert recorded.tree() == [
        "agent calculator completed",
        "  model scripted-1 completed",
        "  tool add completed",
        "    tool measure completed",
        "  model scripted-1 completed",
    ]
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == "3"
    assert recorded.end("agent", "calculator").payload["output"] == "3"
    assert longwatch.current_run_id() is None


def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    calculator("3")("1 + 2?")

    start, end = recorded.events("model_call")
    assert start.payload["input"] == [{"role": "user", "content": "1 + 2?"}]
    assert start.payload["parameters"] == {"temperature": 0.5, "tools": ["add", "divide"]}
    assert end.payload["output"] == [{"role": "assistant", "content": "3"}]
    assert end.payload["finish_reasons"] == ["end_turn"]
    counts = [end.payload[f"{name}_tokens"] for name in ("input", "output", "cache_read")]
    assert counts == [16, 7, 4]
    assert end.payload["chunk_count"] == 1
    first, whole = (end.payload[name] for name in ("time_to_first_token_ms", "duration_ms"))
    assert 0 <= first <= whole  # type: ignore[operator]


def test_parallel_tools_are_siblings(recorded: Recorded) -> None:
    calculator([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], "3 and 7")("both")

    lines = recorded.tree()
    assert [line for line in lines if "tool" in line] == [
        "  tool add completed",
        "    tool measure completed",
    ] * 2


def test_a_tool_that_raises_fails_its_call_only(recorded: Recorded) -> None:
    calculator([("divide", {"a": 1, "b": 0})], "impossible")("1 / 0?")

    assert [line for line in recorded.tree() if "failed" in line] == ["  tool divide failed"]
    assert "division by zero" in str(recorded.end("tool", "divide").payload["error_message"])


def test_a_model_that_raises_fails_its_call_and_its_agent(recorded: Recorded) -> None:
    with pytest.raises(ConnectionError):
        calculator(ConnectionError("no route"))("hello")

    assert recorded.tree() == ["agent calculator failed", "  model scripted-1 failed"]
    assert recorded.events("workflow_error")


async def test_an_agent_whose_consumer_stops_reading_has_completed(recorded: Recorded) -> None:
    with longwatch.run("twice"):
        stream = calculator("3").stream_async("1 + 2?")
        async for event in stream:
            if "event" in event:  # the model has begun to respond
                break
        await stream.aclose()
        await calculator("3").invoke_async("1 + 2?")

    assert recorded.tree() == ["agent calculator completed", "  model scripted-1 completed"] * 2


async def test_an_agent_that_is_cancelled_fails_with_its_tool(recorded: Recorded) -> None:
    is_called = asyncio.Event()

    @tool  # type: ignore[untyped-decorator]
    async def wait() -> str:
        """Never returns."""
        is_called.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(model=ScriptedModel([("wait", {})]), tools=[wait], name="slow", callback_handler=None)
    running = asyncio.create_task(agent.invoke_async("wait"))
    await is_called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert recorded.tree() == [
        "agent slow failed",
        "  model scripted-1 completed",
        "  tool wait failed",
    ]


async def test_the_consumer_of_a_stream_is_outside_the_run(recorded: Recorded) -> None:
    stream = calculator([("add", {"a": 1, "b": 2})], "3").stream_async("1 + 2?")

    inside = {longwatch.current_run_id() async for _ in stream}

    assert inside == {None}
    assert recorded.events("workflow_complete")
