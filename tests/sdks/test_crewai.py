"""CrewAI, recorded through the adapter, with its OpenAI client and a local model server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_TRACING_ENABLED": "false",
}

import pytest
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

import longwatch
from longwatch.integrations import crewai
from longwatch.integrations import openai as openai_client
from longwatch.testing.model_server import ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from tests.integration.sdks.recorded import Recorded

crewai.install()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


@tool("add")  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


def office(server: ModelServer, **options: Any) -> Crew:
    url = f"{server.url}/v1"
    model = LLM(model="openai/gpt-test", base_url=url, api_key="test", max_retries=0, **options)
    clerk = Agent(role="Clerk", goal="Add numbers.", backstory="Precise.", llm=model, tools=[add])
    task = Task(name="sum", description="Add 1 and 2.", expected_output="A number.", agent=clerk)
    return Crew(name="office", agents=[clerk], tasks=[task])


def reply(text: str) -> ModelReply:
    return ModelReply(text, input_tokens=12, output_tokens=7)


def use_add(a: int, b: int) -> ModelReply:
    return ModelReply(
        tool_calls=[ScriptedToolCall("add", {"a": a, "b": b})], input_tokens=12, output_tokens=7
    )


def test_a_crew_is_a_run_with_its_tasks_agents_tools_and_models(
    recorded: Recorded, server: ModelServer
) -> None:
    server.add(use_add(1, 2), reply("Thought: I now know the final answer\nFinal Answer: 3"))

    office(server).kickoff(inputs={"topic": "sums"})

    assert recorded.tree() == [
        "agent office completed",
        "  node sum completed",
        "    agent Clerk completed",
        "      model gpt-test completed",
        "      tool add completed",
        "        tool measure completed",
        "      model gpt-test completed",
    ]
    assert recorded.start("agent", "office").payload["input"] == {"topic": "sums"}
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] in (3, "3")
    end = recorded.events("model_call")[-1].payload
    assert (end["input_tokens"], end["output_tokens"]) == (12, 7)
    assert longwatch.current_run_id() is None


def test_a_model_that_fails_fails_everything_around_it(recorded: Recorded, server: ModelServer) -> None:
    server.add(*[ModelFailure(400)] * 4)

    with pytest.raises(Exception):  # noqa: B017 - CrewAI wraps the client's
        office(server).kickoff()

    lines = recorded.tree()
    assert lines[:3] == ["agent office failed", "  node sum failed", "    agent Clerk failed"]
    assert {line.strip() for line in lines[3:]} == {"model gpt-test failed", "agent Clerk failed"}  # retried


def test_a_model_call_is_recorded_once_with_its_client(recorded: Recorded, server: ModelServer) -> None:
    openai_client.install()
    server.add(reply("Thought: I now know the final answer\nFinal Answer: 3"))

    office(server).kickoff()

    assert [line.strip() for line in recorded.tree() if "model" in line] == ["model gpt-test completed"]
    assert {event.payload["recorded_by"] for event in recorded.events("model_call")} == {"crewai"}


async def test_crews_that_run_side_by_side_are_siblings(recorded: Recorded, server: ModelServer) -> None:
    server.add(*[reply("Thought: I now know the final answer\nFinal Answer: 3")] * 2)

    async with longwatch.run("both"):
        await asyncio.gather(office(server).kickoff_async(), office(server).kickoff_async())

    assert (
        recorded.tree()
        == [
            "agent office completed",
            "  node sum completed",
            "    agent Clerk completed",
            "      model gpt-test completed",
        ]
        * 2
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_a_crew_whose_output_is_streamed_is_recorded_once(
    recorded: Recorded, server: ModelServer, is_async: bool
) -> None:
    server.add(reply("Thought: I now know the final answer\nFinal Answer: 3"))
    crew = office(server)
    crew.stream = True

    async def read() -> list[Any]:
        return [chunk async for chunk in await crew.akickoff()]

    with longwatch.run("streamed"):
        chunks = asyncio.run(read()) if is_async else list(crew.kickoff())

    assert len(chunks) > 1
    assert recorded.tree() == [
        "agent office completed",
        "  node sum completed",
        "    agent Clerk completed",
        "      model gpt-test completed",
    ]


def test_parallel_tools_are_below_their_agent(recorded: Recorded, server: ModelServer) -> None:
    uses = [ScriptedToolCall("add", {"a": a, "b": 2}) for a in (1, 3)]
    server.add(ModelReply(tool_calls=uses), reply("Thought: I now know the final answer\nFinal Answer: 3, 5"))

    office(server).kickoff()

    lines = recorded.tree()
    assert lines.count("      tool add completed") == lines.count("        tool measure completed") == 2


def test_a_stream_is_timed_to_its_end(recorded: Recorded, server: ModelServer) -> None:
    server.add(reply("Thought: I now know the final answer\nFinal Answer: 3"))

    office(server, stream=True).kickoff()

    [call] = [each for each in recorded.calls().values() if each.kind == "model"]
    assert call.model is not None
    assert call.model.recorded_by == "crewai"
    assert (call.model.chunk_count or 0) > 1
    assert 0 <= (call.model.time_to_first_token_ms or -1) <= (call.duration_ms or 0)
