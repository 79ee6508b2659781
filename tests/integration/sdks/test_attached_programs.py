"""`longwatch run -- python program.py` records a program that does not mention longwatch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.model.calls import NO_CALLS
from longwatch.model.event import Event

LANGGRAPH = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict):
    number: int

graph = StateGraph(State)
graph.add_node("double", lambda state: {"number": state["number"] * 2})
graph.add_edge(START, "double")
print(graph.compile(name="doubling").invoke({"number": 4}))
"""

LANGCHAIN = """
from langchain_core.tools import tool

@tool
def double(number: int) -> int:
    "Double a number."
    return number * 2

print(double.invoke({"number": 4}))
"""

PYDANTIC_AI = """
import asyncio
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(), name="greeter")

@agent.tool_plain
def double(number: int) -> int:
    return number * 2

print(asyncio.run(agent.run("Hello")).output)
"""

MCP = """
import asyncio
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("numbers")

@server.tool()
def double(number: int) -> int:
    return number * 2

async def main():
    async with Client(server) as client:
        print(await client.call_tool("double", {"number": 4}))

asyncio.run(main())
"""

OPENAI_AGENTS = """
from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

@function_tool
def double(number: int) -> int:
    return number * 2

steps = [[function_call("double", {"number": 4}, call_id="c1")], [assistant_message("8")]]
agent = Agent(name="Doubler", model=ScriptedModel(steps), tools=[double])
print(Runner.run_sync(agent, "4?").final_output)
"""

STREAMS = """
import openai
from longwatch.testing import ModelReply, ModelServer

server = ModelServer(*[ModelReply("one two three")] * 2)
server.__enter__()
client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
question = [{"role": "user", "content": "Count."}]
for chunk in client.chat.completions.create(model="gpt-5", messages=question, stream=True):
    break
left = client.chat.completions.create(model="gpt-5", messages=question, stream=True)
next(left)
"""

PROGRAMS = {
    "langgraph": (LANGGRAPH, {"agent doubling", "node double"}),
    "langchain": (LANGCHAIN, {"tool double"}),
    "pydantic_ai": (PYDANTIC_AI, {"agent greeter", "model test", "tool double"}),
    "openai_agents": (OPENAI_AGENTS, {"agent Doubler", "model ScriptedModel", "tool double"}),
    "mcp": (MCP, {"tool double"}),
}


def record(program: str, tmp_path: Path) -> tuple[list[Event], str]:
    """The events of the run of a program, and what it printed to stderr."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    (tmp_path / "program.py").write_text(program)

    command = [sys.executable, "-m", "longwatch", "run", "--journal", journal, "--", sys.executable]
    done = subprocess.run(
        [*command, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )

    reader = open_journal(journal)
    (run,) = reader.find_runs().runs
    return list(reader.read(run.run_id, limit=1_000).events), done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unmodified_program_is_recorded(name: str, tmp_path: Path) -> None:
    program, expected = PROGRAMS[name]

    events, stderr = record(program, tmp_path)

    calls = NO_CALLS.plus(events).by_id().values()
    assert {f"{call.kind} {call.name}" for call in calls} == expected, stderr
    assert {call.status for call in calls} == {"completed"}


def test_streams_that_are_open_when_the_program_ends_end_with_it(tmp_path: Path) -> None:
    events, stderr = record(STREAMS, tmp_path)

    assert "Traceback" not in stderr
    calls = NO_CALLS.plus(events).by_id().values()
    assert [(call.name, call.status) for call in calls] == [("gpt-5", "completed")] * 2
    assert len({event.producer for event in events}) == sum(
        event.type == "producer_closed" for event in events
    )
