"""pydantic-ai, recorded through the adapter, with its test models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

import longwatch
from longwatch.integrations import pydantic_ai
from longwatch.integrations.otel import LongwatchSpanProcessor
from tests.integration.sdks.recorded import Recorded


@pytest.fixture(autouse=True)
def _attached() -> None:
    pydantic_ai.install()


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


def scripted(*responses: ModelResponse) -> FunctionModel:
    waiting = iter(responses)

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return next(waiting)

    return FunctionModel(respond, model_name="scripted")


def calculator(model: Any) -> Agent[None, str]:
    agent = Agent(model, name="calculator", instructions="Be brief.")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b + measure("") * 0

    @agent.tool_plain
    async def multiply(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a * b

    @agent.tool_plain
    def divide(a: int, b: int) -> float:
        return a / b

    return agent


async def test_an_agent_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    answer = ModelResponse(
        [TextPart("3")],
        usage=RequestUsage(input_tokens=12, output_tokens=7, cache_read_tokens=4),
        provider_response_id="r-2",
        finish_reason="stop",
    )
    model = scripted(ModelResponse([ToolCallPart("add", {"a": 1, "b": 2}, "c1")]), answer)

    await calculator(model).run("1 + 2?", model_settings={"temperature": 0.5})

    assert recorded.tree() == [
        "agent calculator completed",
        "  model scripted completed",
        "  tool add completed",
        "    tool measure completed",
        "  model scripted completed",
    ]
    assert recorded.start("agent", "calculator").payload["input"] == {"user_prompt": "1 + 2?"}
    assert recorded.end("agent", "calculator").payload["output"] == "3"
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == 3
    assert longwatch.current_run_id() is None


async def test_a_model_call_has_its_messages_parameters_and_tokens(recorded: Recorded) -> None:
    answer = ModelResponse(
        [TextPart("3")],
        usage=RequestUsage(input_tokens=12, output_tokens=7, cache_read_tokens=4),
        provider_response_id="r-2",
        finish_reason="stop",
    )
    model = scripted(ModelResponse([ToolCallPart("add", {"a": 1, "b": 2}, "c1")]), answer)

    await calculator(model).run("1 + 2?", model_settings={"temperature": 0.5})

    start, end = recorded.events("model_call")[-2:]
    assert start.payload["parameters"] == {"temperature": 0.5, "tools": ["add", "multiply", "divide"]}
    assert start.payload["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}],
        },
        {"role": "tool", "content": [{"type": "tool_result", "id": "c1", "result": 3}]},
    ]
    assert end.payload["output"] == [{"role": "assistant", "content": "3"}]
    assert end.payload["response_id"] == "r-2"
    assert end.payload["finish_reasons"] == ["stop"]
    counts = {name: value for name, value in end.payload.items() if name.endswith("_tokens")}
    assert counts == {"input_tokens": 12, "output_tokens": 7, "cache_read_tokens": 4}


async def test_parallel_tools_are_siblings(recorded: Recorded) -> None:
    await calculator(TestModel(call_tools=["add", "multiply"])).run("both")

    assert [line for line in recorded.tree() if "tool" in line] == [
        "  tool add completed",
        "    tool measure completed",
        "  tool multiply completed",
    ]


async def test_a_tool_that_raises_fails_with_its_agent(recorded: Recorded) -> None:
    model = scripted(ModelResponse([ToolCallPart("divide", {"a": 1, "b": 0}, "c1")]))

    with pytest.raises(ZeroDivisionError):
        await calculator(model).run("1 / 0?")

    assert [line for line in recorded.tree() if line.endswith("failed")] == [
        "agent calculator failed",
        "  tool divide failed",
    ]
    assert recorded.events("workflow_error")


async def test_a_model_that_raises_fails_its_call(recorded: Recorded) -> None:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        await calculator(FunctionModel(respond, model_name="far")).run("hello")

    end = recorded.end("model", "far")
    assert (end.payload["status"], end.payload["error_message"]) == ("failed", "ConnectionError: no route")


async def test_a_stream_is_timed_to_its_end(recorded: Recorded) -> None:
    open_calls = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for word in ("one ", "two ", "three"):
            open_calls.append(recorded.events("model_call")[-1].payload["status"])
            yield word

    agent = Agent(FunctionModel(stream_function=respond, model_name="scripted"), name="streamer")
    async with agent.run_stream("count") as result:
        text = "".join([part async for part in result.stream_text(delta=True, debounce_by=None)])

    assert text == "one two three"
    assert open_calls == ["started"] * 3
    end = recorded.end("model", "scripted")
    assert end.payload["output"] == [{"role": "assistant", "content": "one two three"}]
    assert recorded.start("model", "scripted").payload["parameters"] == {"stream": True}
    assert recorded.tree() == ["agent streamer completed", "  model scripted completed"]


async def test_an_agent_that_is_left_early_has_completed(recorded: Recorded) -> None:
    async def respond(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for word in ("one ", "two ", "three"):
            yield word

    agent = Agent(FunctionModel(stream_function=respond, model_name="scripted"), name="streamer")
    async with agent.run_stream("count") as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            break
    async with agent.iter("count") as run:
        async for _ in run:
            break

    ends = [event.payload for event in recorded.all_events() if event.type == "agent_end"]
    assert [end["status"] for end in ends] == ["completed", "completed"]


async def test_a_cancelled_agent_fails(recorded: Recorded) -> None:
    is_asked = asyncio.Event()

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    running = asyncio.create_task(Agent(FunctionModel(respond, model_name="slow"), name="Ada").run("hello"))
    await is_asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert recorded.tree() == ["agent Ada failed", "  model slow failed"]


async def test_a_tool_that_needs_an_approval_did_not_fail(recorded: Recorded) -> None:
    agent = Agent(
        scripted(ModelResponse([ToolCallPart("remove", {"path": "a.txt"}, "c1")])),
        name="cleaner",
        output_type=[str, DeferredToolRequests],
    )

    @agent.tool_plain(requires_approval=True)
    def remove(path: str) -> str:
        return path

    result = await agent.run("clean up")

    assert isinstance(result.output, DeferredToolRequests)
    assert [line for line in recorded.tree() if "failed" in line] == []


async def test_an_approval_is_a_wait_until_a_run_continues_the_messages(recorded: Recorded) -> None:
    wanted = ModelResponse([ToolCallPart("remove", {"path": "/tmp"}, tool_call_id="call-7")])
    agent: Agent[None, Any] = Agent(
        scripted(wanted, ModelResponse([TextPart("done")])),
        name="cleaner",
        output_type=[str, DeferredToolRequests],
    )

    @agent.tool_plain(requires_approval=True)
    def remove(path: str) -> str:
        return path

    with longwatch.run("report"):
        asked = await agent.run("clean up")
        before = [event.payload for event in recorded.events("waiting_started")]
        open_waits = len(before) - len(recorded.events("waiting_ended"))
        answer = await agent.run(
            message_history=asked.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={"call-7": True}),
        )

    assert answer.output == "done"
    assert before == [{"reason": "approval", "detail": "remove"}]
    assert open_waits == 1
    [ended] = recorded.events("waiting_ended")
    assert ended.payload["reason"] == "approval"


@pytest.fixture
def _loop() -> Iterator[None]:
    """pydantic-ai runs synchronous calls in the loop of the thread and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_loop")
def test_a_synchronous_run_joins_the_run_around_it(recorded: Recorded) -> None:
    with longwatch.run("report"):
        calculator(TestModel(call_tools=[])).run_sync("hello")

    assert recorded.tree() == ["agent calculator completed", "  model test completed"]
    assert recorded.events("workflow_start")[0].payload["name"] == "report"


async def test_an_agent_that_was_created_before_the_adapter_was_attached_is_recorded(
    recorded: Recorded,
) -> None:
    agent = object.__new__(Agent)
    Agent.__init__.__wrapped__(agent, TestModel(), name="older")  # type: ignore[attr-defined]

    await agent.run("hello")

    assert recorded.tree() == ["agent older completed", "  model test completed"]


@pytest.fixture
def _spans(recorded: Recorded) -> Iterator[None]:
    """pydantic-ai's own instrumentation of all agents, with the span processor."""
    provider = TracerProvider()
    provider.add_span_processor(LongwatchSpanProcessor())
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    yield
    Agent.instrument_all(False)
    provider.shutdown()


@pytest.mark.usefixtures("_spans")
@pytest.mark.parametrize("is_inside", [True, False], ids=["inside a run", "alone"])
async def test_an_instrumented_agent_is_recorded_once(recorded: Recorded, is_inside: bool) -> None:
    inner = Agent(TestModel(), name="inner")
    agent = Agent(TestModel(), name="outer")

    @agent.tool_plain
    async def ask() -> str:
        return (await inner.run("?")).output

    with longwatch.run("report") if is_inside else nullcontext():
        await agent.run("hello")

    assert recorded.tree() == [
        "agent outer completed",
        "  model test completed",
        "  tool ask completed",
        "    agent inner completed",
        "      model test completed",
        "  model test completed",
    ]


async def test_an_image_is_recorded_by_its_type_and_size(recorded: Recorded) -> None:
    image = BinaryContent(data=b"\x89PNG" * 10, media_type="image/png")

    await Agent(TestModel(), name="viewer").run(["What is this?", image])

    content = recorded.start("model", "test").payload["input"][0]["content"]  # type: ignore[index]
    assert content == [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "media_type": "image/png", "bytes": 40},
    ]
