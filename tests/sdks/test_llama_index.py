"""LlamaIndex, recorded through the adapter, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import (
    ChatMessage,
    CompletionResponse,
    CustomLLM,
    LLMMetadata,
    MockLLM,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.tools import FunctionTool

import longwatch
from longwatch.integrations import llama_index
from tests.integration.sdks.recorded import Recorded

llama_index.install()

ANSWER = "Thought: I can answer without using any more tools.\nAnswer: 3"


def action(name: str, arguments: str) -> str:
    return f"Thought: I use a tool.\nAction: {name}\nAction Input: {arguments}\n"


class ScriptedModel(CustomLLM):  # type: ignore[misc]
    """Gives one reply after the other: text or an exception."""

    replies: list[Any]
    model: str = "scripted-1"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model)

    @llm_completion_callback()  # type: ignore[untyped-decorator]
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return CompletionResponse(text=reply, raw={"usage": {"prompt_tokens": 12, "completion_tokens": 7}})

    @llm_completion_callback()  # type: ignore[untyped-decorator]
    def stream_complete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> Iterator[CompletionResponse]:
        yield self.complete(prompt)


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def calculator(*replies: Any) -> ReActAgent:
    tools = [FunctionTool.from_defaults(add), FunctionTool.from_defaults(divide)]
    return ReActAgent(
        name="calculator", tools=tools, llm=ScriptedModel(replies=list(replies)), streaming=False
    )


async def test_an_agent_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    await calculator(action("add", '{"a": 1, "b": 2}'), ANSWER).run("1 + 2?")

    assert recorded.tree() == [
        "agent calculator completed",
        "  model scripted-1 completed",
        "  tool add completed",
        "    tool measure completed",
        "  model scripted-1 completed",
    ]
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == 3
    assert longwatch.current_run_id() is None


async def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    await calculator(ANSWER).run("1 + 2?")

    start, end = recorded.events("model_call")
    assert start.payload["input"][-1] == {"role": "user", "content": "1 + 2?"}  # type: ignore[index]
    assert end.payload["output"] == [{"role": "assistant", "content": ANSWER}]
    assert (end.payload["input_tokens"], end.payload["output_tokens"]) == (12, 7)


async def test_a_tool_that_raises_fails_its_call_only(recorded: Recorded) -> None:
    await calculator(action("divide", '{"a": 1, "b": 0}'), ANSWER).run("1 / 0?")

    assert [line for line in recorded.tree() if "failed" in line] == ["  tool divide failed"]
    assert "division by zero" in str(recorded.end("tool", "divide").payload["error_message"])


async def test_a_model_that_raises_fails_its_call_and_its_agent(recorded: Recorded) -> None:
    with pytest.raises(ConnectionError):
        await calculator(ConnectionError("no route")).run("hello")

    assert recorded.tree() == ["agent calculator failed", "  model scripted-1 failed"]


def test_a_model_alone_is_recorded_once(recorded: Recorded) -> None:
    with longwatch.run("alone"):
        MockLLM(max_tokens=3).chat([ChatMessage("hello")])

    assert recorded.tree() == ["model MockLLM completed"]
    assert recorded.events("model_call")[-1].payload["output"] == [
        {"role": "assistant", "content": "text text text"}
    ]


def test_a_stream_is_timed_to_its_end(recorded: Recorded) -> None:
    with longwatch.run("alone"):
        chunks = list(MockLLM(max_tokens=3).stream_complete("hello"))

    end = recorded.events("model_call")[-1]
    assert end.payload["chunk_count"] == len(chunks) == 3
    assert end.payload["time_to_first_token_ms"] <= end.payload["duration_ms"]  # type: ignore[operator]


def test_a_stream_whose_consumer_stops_reading_ends(recorded: Recorded) -> None:
    with longwatch.run("alone"):
        for _ in MockLLM(max_tokens=3).stream_complete("hello"):
            break
        MockLLM(max_tokens=3).complete("hello")
        for _ in MockLLM(max_tokens=3).stream_complete("hello"):
            MockLLM(max_tokens=3).complete("between the chunks")

    assert recorded.tree() == ["model MockLLM completed"] * 6


async def test_agents_that_run_side_by_side_are_siblings(recorded: Recorded) -> None:
    agents = [calculator(action("add", '{"a": 1, "b": 2}'), ANSWER) for _ in range(2)]

    async with longwatch.run("both"):
        await asyncio.gather(*(agent.run("1 + 2?") for agent in agents))

    lines = recorded.tree()
    assert [line for line in lines if not line.startswith(" ")] == ["agent calculator completed"] * 2
    assert lines.count("  tool add completed") == lines.count("    tool measure completed") == 2
    assert lines.count("  model scripted-1 completed") == 4
