"""Google's Agent Development Kit, recorded through the adapter, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import longwatch
from longwatch.integrations import google_adk
from tests.integration.sdks.recorded import Recorded

google_adk.install()

USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=12, candidates_token_count=5, thoughts_token_count=2, total_token_count=19
)


class ScriptedModel(BaseLlm):  # type: ignore[misc]
    """Gives one reply after the other: text, tool calls, or an exception."""

    replies: list[Any]

    async def generate_content_async(self, request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            parts = [types.Part.from_text(text=reply)]
        else:
            parts = [types.Part.from_function_call(name=name, args=args) for name, args in reply]
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=USAGE)


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def scripted(*replies: Any) -> ScriptedModel:
    return ScriptedModel(model="scripted-1", replies=list(replies))


class Endless(BaseLlm):  # type: ignore[misc]
    """Responds with one word and never with the next."""

    is_asked: Any

    async def generate_content_async(self, request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        content = types.Content(role="model", parts=[types.Part.from_text(text="one")])
        yield LlmResponse(content=content, partial=True)
        self.is_asked.set()
        await asyncio.Event().wait()


async def ask(agent: LlmAgent) -> list[str | None]:
    """Run the agent; returns the runs that its consumer was in."""
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part.from_text(text="1 + 2?")])
    events = runner.run_async(user_id="u", session_id=session.id, new_message=message)
    return [longwatch.current_run_id() async for _ in events]


def calculator(*replies: Any) -> LlmAgent:
    return LlmAgent(name="calculator", model=scripted(*replies), tools=[add, divide])


async def test_an_agent_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    inside = await ask(calculator([("add", {"a": 1, "b": 2})], "3"))

    assert recorded.tree() == [
        "agent calculator completed",
        "  model scripted-1 completed",
        "  tool add completed",
        "    tool measure completed",
        "  model scripted-1 completed",
    ]
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == 3
    assert set(inside) == {None}


async def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    await ask(calculator("3"))

    start, end = recorded.events("model_call")
    assert start.payload["input"][-1] == {"role": "user", "content": "1 + 2?"}  # type: ignore[index]
    assert start.payload["parameters"]["tools"] == ["add", "divide"]  # type: ignore[index]
    assert end.payload["output"] == [{"role": "assistant", "content": "3"}]
    counts = [end.payload[f"{name}_tokens"] for name in ("input", "output", "reasoning")]
    assert counts == [12, 7, 2]


async def test_parallel_tools_are_siblings(recorded: Recorded) -> None:
    await ask(calculator([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], "3 and 7"))

    lines = recorded.tree()
    assert lines.count("  tool add completed") == 2
    assert lines.count("    tool measure completed") == 2


async def test_a_tool_that_raises_fails_with_its_agent(recorded: Recorded) -> None:
    with pytest.raises(ZeroDivisionError):
        await ask(calculator([("divide", {"a": 1, "b": 0})]))

    assert [line for line in recorded.tree() if "failed" in line] == [
        "agent calculator failed",
        "  tool divide failed",
    ]


async def test_a_model_that_raises_fails_its_call_and_its_agent(recorded: Recorded) -> None:
    with pytest.raises(ConnectionError):
        await ask(calculator(ConnectionError("no route")))

    assert recorded.tree() == ["agent calculator failed", "  model scripted-1 failed"]


async def test_an_agent_that_another_one_transfers_to_is_below_it(recorded: Recorded) -> None:
    writer = LlmAgent(name="writer", description="writes", model=scripted("written"))
    transfer = [("transfer_to_agent", {"agent_name": "writer"})]

    await ask(LlmAgent(name="chief", model=scripted(transfer), sub_agents=[writer]))

    agents = [line for line in recorded.tree() if "agent " in line and "tool" not in line]
    assert [line.strip() for line in agents] == ["agent chief completed", "agent writer completed"]


async def test_an_agent_that_is_cancelled_fails_with_its_model(recorded: Recorded) -> None:
    is_asked = asyncio.Event()
    running = asyncio.create_task(
        ask(LlmAgent(name="slow", model=Endless(model="endless", is_asked=is_asked)))
    )
    await is_asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert recorded.tree() == ["agent slow failed", "  model endless failed"]
