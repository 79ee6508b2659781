"""LangGraph and LangChain, recorded through the adapter, with fake chat models."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import Coroutine
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, RetryPolicy, Send, interrupt

import longwatch
from longwatch.integrations import langgraph
from longwatch.recording import decorators
from tests.integration.sdks.recorded import Recorded

USAGE = {
    "input_tokens": 12,
    "output_tokens": 7,
    "total_tokens": 19,
    "input_token_details": {"cache_read": 4},
    "output_token_details": {"reasoning": 2},
}


@pytest.fixture(autouse=True)
def _attached() -> None:
    langgraph.install()


class Steps(TypedDict):
    done: Annotated[list[str], operator.add]


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


@tool
async def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    await asyncio.sleep(0)
    return a * b


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def calls(*wanted: tuple[str, dict[str, Any]]) -> AIMessage:
    tool_calls = [
        {"name": name, "args": args, "id": f"c{number}", "type": "tool_call"}
        for number, (name, args) in enumerate(wanted)
    ]
    return AIMessage("", tool_calls=tool_calls, usage_metadata=USAGE)


def agent_graph(*replies: AIMessage) -> Any:
    model = GenericFakeChatModel(messages=iter(replies))

    def think(state: MessagesState) -> dict[str, object]:
        return {"messages": [model.invoke(state["messages"])]}

    async def think_async(state: MessagesState) -> dict[str, object]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", RunnableLambda(think, think_async))
    graph.add_node("tools", ToolNode([add, multiply, divide], handle_tool_errors=False))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(name="calculator")


QUESTION: Any = {"messages": [HumanMessage("What is 1 + 2?")]}


def test_a_graph_is_a_run_with_its_nodes_tools_and_models(recorded: Recorded) -> None:
    graph = agent_graph(calls(("add", {"a": 1, "b": 2})), AIMessage("3", usage_metadata=USAGE))

    graph.invoke(QUESTION)

    assert recorded.tree() == [
        "agent calculator completed",
        "  node think completed",
        "    model GenericFakeChatModel completed",
        "  node tools completed",
        "    tool add completed",
        "      tool measure completed",
        "  node think completed",
        "    model GenericFakeChatModel completed",
    ]
    assert recorded.start("agent", "calculator").payload["input"] == {
        "messages": [{"role": "user", "content": "What is 1 + 2?"}]
    }
    wanted = {"type": "tool_call", "id": "c0", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert recorded.events("node_stop")[0].payload["output"] == {
        "messages": [{"role": "assistant", "content": [wanted]}]
    }
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == "3"
    assert recorded.events("workflow_start")[0].payload["name"] == "calculator"
    assert recorded.events("workflow_complete")


def test_the_graph_is_recorded_as_nodes_and_edges(recorded: Recorded) -> None:
    agent_graph(AIMessage("3")).invoke(QUESTION)

    (structure,) = recorded.events("graph_structure")
    assert [node["id"] for node in structure.payload["nodes"]] == ["__start__", "think", "tools", "__end__"]  # type: ignore[attr-defined]
    edges = [(edge["from"], edge["to"], "condition" in edge) for edge in structure.payload["edges"]]  # type: ignore[attr-defined]
    assert sorted(edges) == [
        ("__start__", "think", False),
        ("think", "__end__", True),
        ("think", "tools", True),
        ("tools", "think", False),
    ]


def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    agent_graph(AIMessage("3", usage_metadata=USAGE)).invoke(QUESTION)

    start, end = recorded.events("model_call")
    assert start.payload["input"] == [{"role": "user", "content": "What is 1 + 2?"}]
    assert start.payload["recorded_by"] == "langchain"
    assert end.payload["output"] == [{"role": "assistant", "content": "3"}]
    counts = {name: value for name, value in end.payload.items() if name.endswith("_tokens")}
    assert counts == {
        "input_tokens": 12,
        "output_tokens": 7,
        "cache_read_tokens": 4,
        "reasoning_tokens": 2,
    }


async def test_parallel_tools_of_an_async_graph_belong_to_their_nodes(recorded: Recorded) -> None:
    wanted = calls(("multiply", {"a": 2, "b": 3}), ("add", {"a": 1, "b": 2}))

    await agent_graph(wanted, AIMessage("6 and 3")).ainvoke(QUESTION)

    lines = recorded.tree()
    assert [line for line in lines if "tool" in line] == [
        "  node tools completed",
        "    tool multiply completed",
        "    tool add completed",
        "      tool measure completed",
    ]
    assert longwatch.current_run_id() is None


def test_a_tool_that_raises_fails_with_its_node_and_its_graph(recorded: Recorded) -> None:
    with pytest.raises(ZeroDivisionError):
        agent_graph(calls(("divide", {"a": 1, "b": 0}))).invoke(QUESTION)

    assert [line for line in recorded.tree() if line.endswith("failed")] == [
        "agent calculator failed",
        "  node tools failed",
        "    tool divide failed",
    ]
    assert recorded.end("tool", "divide").payload["error_message"] == "ZeroDivisionError: division by zero"
    assert recorded.events("workflow_error")


async def test_a_stream_is_timed_to_its_end_and_its_consumer_is_outside(recorded: Recorded) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))

    seen = [longwatch.current_run_id() async for _ in model.astream("count")]

    end = recorded.events("model_call")[-1]
    assert end.payload["chunk_count"] == len(seen)
    assert end.payload["time_to_first_token_ms"] <= end.payload["duration_ms"]  # type: ignore[operator]
    assert end.payload["output"] == [{"role": "assistant", "content": "one two three"}]
    assert set(seen) == {None}


async def test_a_graph_that_streams_leaves_its_consumer_outside(recorded: Recorded) -> None:
    graph = agent_graph(calls(("add", {"a": 1, "b": 2})), AIMessage("3"))

    inside = [longwatch.current_run_id() async for _ in graph.astream(QUESTION)]

    assert set(inside) == {None}
    assert recorded.events("workflow_complete")


class Endless(GenericFakeChatModel):
    """Never responds."""

    is_asked: Any

    async def _agenerate(self, *args: Any, **options: Any) -> Any:
        self.is_asked.set()
        await asyncio.Event().wait()


@tool
async def wait_for_ever(is_asked: Any) -> str:
    """Never returns."""
    is_asked.set()
    await asyncio.Event().wait()
    return ""


async def cancelled(call: Coroutine[Any, Any, object], is_asked: asyncio.Event) -> None:
    running = asyncio.create_task(call)
    await is_asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancelled_graph_ends_its_node_and_its_model(recorded: Recorded) -> None:
    is_asked = asyncio.Event()
    model = Endless(messages=iter([]), is_asked=is_asked)

    async def think(state: MessagesState) -> dict[str, object]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    await cancelled(graph.compile(name="slow").ainvoke(QUESTION), is_asked)

    assert recorded.tree() == ["agent slow failed", "  node think failed", "    model Endless failed"]
    errors = [event.payload["error_message"] for event in recorded.events("model_call", "node_stop")[1:]]
    assert errors == ["CancelledError", "CancelledError"]


async def test_a_cancelled_model_or_tool_ends(recorded: Recorded) -> None:
    is_asked = asyncio.Event()
    with longwatch.run("both"):
        await cancelled(Endless(messages=iter([]), is_asked=is_asked).ainvoke("hello"), is_asked)
        is_asked.clear()
        await cancelled(wait_for_ever.ainvoke({"is_asked": is_asked}), is_asked)

    assert recorded.tree() == ["model Endless failed", "tool wait_for_ever failed"]


def test_tasks_of_the_functional_api_are_nodes(recorded: Recorded) -> None:
    attempts = itertools.count()

    @task
    def double(number: int) -> int:
        return 2 * number

    def publish_once(total: int) -> int:
        if next(attempts) == 0:
            raise ValueError("busy")
        return total

    policy = RetryPolicy(max_attempts=2, initial_interval=0.001, retry_on=ValueError)
    publish: Any = task(publish_once, name="publish", retry_policy=policy)  # type: ignore[call-overload]

    @entrypoint()
    def report(numbers: list[int]) -> int:
        doubled = [double(number) for number in numbers]
        total: int = publish(sum(each.result() for each in doubled)).result()
        return total

    assert report.invoke([1, 2]) == 6

    lines = recorded.tree()
    assert lines[1] == "  node report completed"
    assert sorted(lines[2:]) == [
        "    node double completed",
        "    node double completed",
        "    node publish completed",
        "    node publish failed",
    ]


def test_steps_that_langgraph_adds_are_not_recorded(recorded: Recorded) -> None:
    graph = StateGraph(Steps)
    graph.add_node("work", lambda state: {"done": [str(state)]})
    graph.add_conditional_edges(START, lambda state: [Send("work", number) for number in (1, 2)], ["work"])

    assert sorted(graph.compile(name="fan").invoke({"done": []})["done"]) == ["1", "2"]

    assert recorded.tree() == ["agent fan completed", "  node work completed", "  node work completed"]


def test_graphs_inside_a_run_join_it(recorded: Recorded) -> None:
    with longwatch.run("report"):
        agent_graph(AIMessage("3")).invoke(QUESTION)

    assert recorded.tree()[0] == "agent calculator completed"
    assert recorded.events("workflow_start")[0].payload["name"] == "report"


def test_a_graph_in_a_graph_is_a_call_of_its_node(recorded: Recorded) -> None:
    inner = agent_graph(AIMessage("3"))
    outer = StateGraph(MessagesState)
    outer.add_node("sums", inner)
    outer.add_edge(START, "sums")
    outer.add_edge("sums", END)

    outer.compile(name="office").invoke(QUESTION)

    assert recorded.tree() == [
        "agent office completed",
        "  node sums completed",
        "    agent calculator completed",
        "      node think completed",
        "        model GenericFakeChatModel completed",
    ]
    assert len(recorded.events("graph_structure")) == 1


def interrupting_graph() -> Any:
    def ask(state: Steps) -> dict[str, list[str]]:
        return {"done": [interrupt("Deploy?")]}

    graph = StateGraph(Steps)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile(name="deployment", checkpointer=InMemorySaver())


def test_an_interrupt_is_a_wait_until_the_graph_is_resumed(recorded: Recorded) -> None:
    graph = interrupting_graph()
    config = {"configurable": {"thread_id": "t-1"}}

    with longwatch.run("release"):
        graph.invoke({"done": []}, config)
        assert [event.payload["reason"] for event in recorded.events("waiting_started")] == ["answer"]
        assert recorded.events("waiting_ended") == []
        graph.invoke(Command(resume="yes"), config)

    (started,) = recorded.events("waiting_started")
    (ended,) = recorded.events("waiting_ended")
    assert started.call_id == ended.call_id
    assert started.payload["detail"] == "Deploy?"
    assert [line for line in recorded.tree() if "failed" in line] == []


def test_an_interrupt_below_a_recorded_command_is_a_wait_until_the_graph_is_resumed(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decorators, "_ambient_run_id", lambda: "wf-command")
    graph, config = interrupting_graph(), {"configurable": {"thread_id": "t-3"}}

    graph.invoke({"done": []}, config)
    graph.invoke(Command(resume="yes"), config)

    assert recorded.run_ids() == ["wf-command"]
    (started,) = recorded.events("waiting_started")
    (ended,) = recorded.events("waiting_ended")
    assert started.call_id == ended.call_id


def test_an_interrupted_graph_outside_a_run_ends_its_run_with_the_wait(recorded: Recorded) -> None:
    interrupting_graph().invoke({"done": []}, {"configurable": {"thread_id": "t-2"}})

    assert recorded.events("waiting_started")
    assert recorded.events("workflow_complete")


def test_batches_in_threads_are_separate_calls(recorded: Recorded) -> None:
    chain = RunnableLambda(lambda text: add.invoke({"a": len(text), "b": 1}))

    with longwatch.run("batch"):
        chain.batch(["a", "bb", "ccc"])

    assert sorted(line for line in recorded.tree() if "tool add" in line) == ["  tool add completed"] * 3


def test_the_capture_policy_holds_for_what_the_adapter_records(recorded: Recorded) -> None:
    with longwatch.run("quiet", capture="off"):
        agent_graph(AIMessage("3", usage_metadata=USAGE)).invoke(QUESTION)

    assert all("input" not in event.payload and "output" not in event.payload for event in recorded.events())
    assert recorded.events("model_call")[-1].payload["input_tokens"] == 12
