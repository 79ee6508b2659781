"""smolagents, recorded through the adapter, with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, Model, TokenUsage, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

import longwatch
from longwatch.integrations import smolagents
from tests.integration.sdks.recorded import Recorded

smolagents.install()


class ScriptedModel(Model):  # type: ignore[misc]
    """Gives one reply after the other: text, tool calls, or an exception."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(model_id="scripted-1")
        self._replies = iter(replies)

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        usage = TokenUsage(input_tokens=12, output_tokens=7)
        if isinstance(reply, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=reply, token_usage=usage)
        calls = [
            ChatMessageToolCall(
                id=f"c{number}",
                type="function",
                function=ChatMessageToolCallFunction(name=name, arguments=arguments),
            )
            for number, (name, arguments) in enumerate(reply)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls, token_usage=usage)


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


@tool  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: a number
        b: another number
    """
    return a + b + measure("") * 0


@tool  # type: ignore[untyped-decorator]
def divide(a: int, b: int) -> float:
    """Divide two numbers.

    Args:
        a: a number
        b: another number
    """
    return a / b


def calculator(*replies: Any) -> ToolCallingAgent:
    return ToolCallingAgent(
        tools=[add, divide], model=ScriptedModel(*replies), name="calculator", verbosity_level=0
    )


def test_an_agent_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    calculator([("add", {"a": 1, "b": 2})], [("final_answer", {"answer": 3})]).run("1 + 2?")

    assert recorded.tree() == [
        "agent calculator completed",
        "  model scripted-1 completed",
        "  tool add completed",
        "    tool measure completed",
        "  model scripted-1 completed",
        "  tool final_answer completed",
    ]
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == 3
    assert recorded.end("agent", "calculator").payload["output"] == 3
    assert longwatch.current_run_id() is None


def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    calculator([("final_answer", {"answer": 3})]).run("1 + 2?")

    start, end = recorded.events("model_call")
    assert start.payload["input"][0]["role"] == "system"  # type: ignore[index]
    assert start.payload["parameters"]["tools"] == ["add", "divide", "final_answer"]  # type: ignore[index]
    (call,) = end.payload["output"][0]["content"]  # type: ignore[index]
    assert (call["name"], call["arguments"]) == ("final_answer", {"answer": 3})
    assert (end.payload["input_tokens"], end.payload["output_tokens"]) == (12, 7)


def test_parallel_tools_are_siblings(recorded: Recorded) -> None:
    both = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]

    calculator(both, [("final_answer", {"answer": 3})]).run("both")

    lines = recorded.tree()
    assert lines.count("  tool add completed") == 2
    assert lines.count("    tool measure completed") == 2


def test_a_tool_that_raises_fails_its_call_only(recorded: Recorded) -> None:
    calculator([("divide", {"a": 1, "b": 0})], [("final_answer", {"answer": "no"})]).run("1 / 0?")

    assert [line for line in recorded.tree() if "failed" in line] == ["  tool divide failed"]
    assert recorded.end("tool", "divide").payload["error_message"] == "ZeroDivisionError: division by zero"


def test_a_model_that_raises_fails_its_call_and_its_agent(recorded: Recorded) -> None:
    with pytest.raises(Exception, match="no route"):
        calculator(ConnectionError("no route")).run("hello")

    assert recorded.tree() == ["agent calculator failed", "  model scripted-1 failed"]


def test_the_consumer_of_a_stream_is_outside_the_run(recorded: Recorded) -> None:
    agent = calculator([("add", {"a": 1, "b": 2})], [("final_answer", {"answer": 3})])

    inside = {longwatch.current_run_id() for _ in agent.run("1 + 2?", stream=True)}

    assert inside == {None}
    assert recorded.tree()[0] == "agent calculator completed"
    assert recorded.events("workflow_complete")


def test_tools_in_code_are_recorded(recorded: Recorded) -> None:
    code = "Thought: add\n<code>\nfinal_answer(add(a=1, b=2))\n</code>"

    CodeAgent(tools=[add], model=ScriptedModel(code), name="coder", verbosity_level=0).run("1 + 2?")

    assert "  tool add completed" in recorded.tree()
