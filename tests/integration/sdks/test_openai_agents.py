"""OpenAI Agents, recorded through the adapter, with its scripted model and a local model server."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    Model,
    RunConfig,
    RunHooks,
    Runner,
    add_trace_processor,
    function_tool,
    input_guardrail,
    set_trace_processors,
)
from agents.exceptions import ModelBehaviorError, UserError
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor
from agents.usage import Usage

import longwatch
from longwatch.integrations import openai_agents
from longwatch.recording.open_call import OpenCall
from tests.integration.sdks.recorded import Recorded

_ids = itertools.count(1)


@pytest.fixture(autouse=True)
def _attached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # without one the SDK sends no traces
    openai_agents.install()


@longwatch.tool
def measure(what: str) -> int:
    return len(what)


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b + measure("") * 0


@function_tool
async def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    await asyncio.sleep(0)
    return a * b


@function_tool(failure_error_function=None)
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


@function_tool(needs_approval=True)
def deploy(target: str) -> str:
    """Deploy."""
    return f"deployed to {target}"


def calls(name: str, arguments: dict[str, Any]) -> Any:
    return function_call(name, arguments, call_id=f"c{next(_ids)}")


def scripted(*steps: Any) -> ScriptedModel:
    usage = Usage(requests=1, input_tokens=12, output_tokens=7, total_tokens=19)
    return ScriptedModel(list(steps), default_usage=usage)


class Endless(Model):
    """Never responds."""

    model = "Endless"

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()

    async def get_response(self, *args: Any, **options: Any) -> Any:
        self.is_asked.set()
        await asyncio.Event().wait()

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def calculator(*steps: Any, **options: Any) -> Agent[Any]:
    tools: list[Any] = [add, multiply, divide, deploy]
    return Agent(name="Calculator", instructions="Be brief.", model=scripted(*steps), tools=tools, **options)


async def test_a_run_has_its_agent_tools_and_models(recorded: Recorded) -> None:
    agent = calculator([calls("add", {"a": 1, "b": 2})], [assistant_message("3")])

    await Runner.run(agent, "1 + 2?")

    assert recorded.tree() == [
        "agent Calculator completed",
        "  model ScriptedModel completed",
        "  tool add completed",
        "    tool measure completed",
        "  model ScriptedModel completed",
    ]
    assert recorded.start("agent", "Calculator").agent_name == "Calculator"
    assert recorded.start("agent", "Calculator").payload["input"] == {"input": "1 + 2?"}
    assert recorded.end("agent", "Calculator").payload["output"] == "3"
    assert recorded.start("tool", "add").payload["input"] == {"a": 1, "b": 2}
    assert recorded.end("tool", "add").payload["output"] == 3
    (start,) = recorded.events("workflow_start")
    (end,) = recorded.events("workflow_complete")
    assert (start.payload["name"], end.payload["result"]) == ("Calculator", "3")
    assert longwatch.current_run_id() is None


async def test_a_model_call_has_its_messages_and_tokens(recorded: Recorded) -> None:
    agent = calculator([calls("add", {"a": 1, "b": 2})], [assistant_message("3")])

    await Runner.run(agent, "1 + 2?")

    first_start, first_end, start, end = recorded.events("model_call")
    assert first_start.payload["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 2?"},
    ]
    assert first_start.payload["parameters"] == {"tools": ["add", "multiply", "divide", "deploy"]}
    (call,) = first_end.payload["output"][0]["content"]  # type: ignore[index]
    assert (call["name"], call["arguments"]) == ("add", {"a": 1, "b": 2})
    assert start.payload["input"][-1]["content"][0]["result"] == "3"  # type: ignore[index]
    assert end.payload["output"] == [{"role": "assistant", "content": "3"}]
    assert (end.payload["input_tokens"], end.payload["output_tokens"]) == (12, 7)
    assert "reasoning_tokens" not in end.payload


async def test_parallel_tools_are_siblings(recorded: Recorded) -> None:
    wanted = [calls("multiply", {"a": 2, "b": 3}), calls("add", {"a": 1, "b": 2})]

    await Runner.run(calculator(wanted, [assistant_message("6 and 3")]), "both")

    assert [line for line in recorded.tree() if "tool" in line] == [
        "  tool multiply completed",
        "  tool add completed",
        "    tool measure completed",
    ]


async def test_a_handoff_is_a_step_between_two_agents_of_one_run(recorded: Recorded) -> None:
    writer = Agent(name="Writer", model=scripted([assistant_message("written")]))
    chief = Agent(name="Chief", model=scripted([calls("transfer_to_writer", {})]), handoffs=[writer])

    await Runner.run(chief, "write")

    assert recorded.tree() == [
        "agent Chief completed",
        "  model ScriptedModel completed",
        "  node handoff completed",
        "agent Writer completed",
        "  model ScriptedModel completed",
    ]
    end = recorded.end("node", "handoff")
    assert (end.payload["from_agent"], end.payload["to_agent"]) == ("Chief", "Writer")


async def test_a_guardrail_that_trips_fails_the_run(recorded: Recorded) -> None:
    @input_guardrail
    async def polite(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = calculator([assistant_message("3")], input_guardrails=[polite])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(agent, "!")

    assert recorded.end("node", "polite").payload["triggered"] is True
    assert recorded.events("workflow_error")


async def test_a_tool_that_raises_fails_with_its_agent(recorded: Recorded) -> None:
    with pytest.raises(Exception, match="division by zero"):
        await Runner.run(calculator([calls("divide", {"a": 1, "b": 0})]), "1 / 0?")

    assert [line for line in recorded.tree() if line.endswith("failed")] == [
        "agent Calculator failed",
        "  tool divide failed",
    ]
    assert "division by zero" in str(recorded.end("tool", "divide").payload["error_message"])


async def test_a_program_that_replaces_the_trace_processors_is_recorded(recorded: Recorded) -> None:
    set_trace_processors([])

    await Runner.run(calculator([assistant_message("3")]), "1 + 2?")

    assert recorded.tree() == ["agent Calculator completed", "  model ScriptedModel completed"]


async def test_an_error_that_the_sdk_redacts_is_recorded_as_the_exception(recorded: Recorded) -> None:
    @function_tool
    def read(path: str) -> str:
        raise FileNotFoundError(path)

    agent = Agent(
        name="Reader",
        model=scripted([calls("read", {"path": "a.txt"})], [assistant_message("?")]),
        tools=[read],
    )

    await Runner.run(agent, "read")

    end = recorded.end("tool", "read").payload
    assert (end["status"], end["error_message"]) == ("failed", "FileNotFoundError: a.txt")
    assert "traceback" in end
    assert recorded.end("agent", "Reader").payload["status"] == "completed"


@pytest.mark.parametrize("is_disabled", [False, True])
async def test_an_unknown_tool_fails_the_agent(recorded: Recorded, is_disabled: bool) -> None:
    config = RunConfig(tracing_disabled=is_disabled)
    try:
        raise KeyError("handled by the program while it runs the agent")
    except KeyError:
        with pytest.raises(ModelBehaviorError):
            await Runner.run(calculator([calls("unknown", {})]), "1 + 2?", run_config=config)
        await Runner.run(Agent(name="Next", model=scripted([assistant_message("3")])), "1 + 2?")

    ends = [event for event in recorded.all_events() if event.type == "agent_end"]
    (failed,) = [event for event in ends if event.payload["status"] == "failed"]
    assert failed.agent_name == "Calculator"
    assert "unknown not found" in str(failed.payload["error_message"])


async def test_a_cancelled_run_fails_its_agent_and_its_model(recorded: Recorded) -> None:
    model = Endless()
    run = asyncio.create_task(Runner.run(Agent(name="Slow", model=model), "hello"))
    await model.is_asked.wait()

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert recorded.tree() == ["agent Slow failed", "  model Endless failed"]
    assert recorded.end("agent", "Slow").payload["error_message"] == "CancelledError"


async def test_a_streamed_run_that_is_cancelled_has_completed(recorded: Recorded) -> None:
    result = Runner.run_streamed(calculator([assistant_message("one two")]), "count")
    async for _ in result.stream_events():
        result.cancel()

    assert recorded.tree()[0] == "agent Calculator completed"


async def test_a_model_that_raises_fails_its_call(recorded: Recorded) -> None:
    with pytest.raises(ConnectionError):
        await Runner.run(calculator(ConnectionError("no route")), "hello")

    end = recorded.end("model", "ScriptedModel")
    assert (end.payload["status"], end.payload["error_message"]) == ("failed", "ConnectionError: no route")


async def test_a_streamed_run_ends_with_its_last_event(recorded: Recorded) -> None:
    result = Runner.run_streamed(calculator([assistant_message("one two")]), "count")

    seen = [longwatch.current_run_id() async for _ in result.stream_events()]

    assert set(seen) == {None}
    assert recorded.tree() == ["agent Calculator completed", "  model ScriptedModel completed"]
    assert recorded.events("workflow_complete")


async def test_an_approval_is_a_wait_until_the_run_is_resumed(recorded: Recorded) -> None:
    agent = calculator([calls("deploy", {"target": "production"})], [assistant_message("done")])

    with longwatch.run("release"):
        result = await Runner.run(agent, "deploy")
        assert [event.payload["reason"] for event in recorded.events("waiting_started")] == ["approval"]
        assert recorded.events("waiting_ended") == []
        state = result.to_state()
        state.approve(result.interruptions[0])
        await Runner.run(agent, state)

    (started,) = recorded.events("waiting_started")
    (ended,) = recorded.events("waiting_ended")
    assert (started.call_id, started.payload["detail"]) == (ended.call_id, "deploy")
    tools = [event.payload for event in recorded.events("tool_call")]
    assert [(each["status"], each.get("output")) for each in tools] == [
        ("started", None),
        ("completed", None),
        ("started", None),
        ("completed", "deployed to production"),
    ]
    assert tools[0]["input"] == {"target": "production"}


async def test_an_agent_used_as_a_tool_is_inside_the_tool(recorded: Recorded) -> None:
    expert = Agent(name="Expert", model=scripted([assistant_message("42")]))
    ask = expert.as_tool("ask_expert", "Ask an expert.")
    chief = Agent(
        name="Chief",
        model=scripted([calls("ask_expert", {"input": "?"})], [assistant_message("42")]),
        tools=[ask],
    )

    await Runner.run(chief, "ask")

    assert recorded.tree() == [
        "agent Chief completed",
        "  model ScriptedModel completed",
        "  tool ask_expert completed",
        "    agent Expert completed",
        "      model ScriptedModel completed",
        "  model ScriptedModel completed",
    ]


async def test_hooks_of_the_program_are_called_as_before(recorded: Recorded) -> None:
    called: list[str] = []

    class OwnHooks(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            called.append(f"start {agent.name}")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            called.append("model")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            called.append(f"{tool.name} {result}")

    agent = calculator([calls("add", {"a": 1, "b": 2})], [assistant_message("3")])
    await Runner.run(agent, "1 + 2?", hooks=OwnHooks())

    assert called == ["start Calculator", "model", "add 3", "model"]


async def test_concurrent_runs_are_separate(recorded: Recorded) -> None:
    agents = [calculator([calls("add", {"a": 1, "b": n})], [assistant_message(str(n))]) for n in range(3)]

    with longwatch.run("batch"):
        await asyncio.gather(*(Runner.run(agent, "add") for agent in agents))

    lines = recorded.tree()
    assert lines.count("agent Calculator completed") == 3
    assert lines.count("  tool add completed") == 3


def test_a_synchronous_run_in_a_thread_is_recorded(recorded: Recorded) -> None:
    def work() -> None:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        Runner.run_sync(calculator([assistant_message("3")]), "1 + 2?", run_config=RunConfig())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert recorded.tree() == ["agent Calculator completed", "  model ScriptedModel completed"]


class SpanCounter(TracingProcessor):
    """Counts the spans that the SDK exports."""

    def __init__(self) -> None:
        self.spans = 0

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_end(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...

    def on_span_start(self, span: Any) -> None:
        self.spans += 1


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_with_tracing_disabled_the_same_is_recorded_and_nothing_is_exported(
    recorded: Recorded, is_streamed: bool
) -> None:
    exported = SpanCounter()
    add_trace_processor(exported)
    inner = Agent(name="Adder", model=scripted([assistant_message("3")]))
    tools: list[Any] = [multiply, inner.as_tool("ask", "Ask")]
    steps = [
        [calls("multiply", {"a": 2, "b": 3}), calls("ask", {"input": "1 + 2?"})],
        [assistant_message("9")],
    ]
    agent = Agent(name="Calculator", model=scripted(*steps), tools=tools)
    config = RunConfig(tracing_disabled=True)

    if is_streamed:
        streamed = Runner.run_streamed(agent, "2 * 3 + 1 + 2?", run_config=config)
        async for _ in streamed.stream_events():
            pass
    else:
        await Runner.run(agent, "2 * 3 + 1 + 2?", run_config=config)

    assert recorded.tree() == [
        "agent Calculator completed",
        "  model ScriptedModel completed",
        "  tool multiply completed",
        "  tool ask completed",
        "    agent Adder completed",
        "      model ScriptedModel completed",
        "  model ScriptedModel completed",
    ]
    assert recorded.events("workflow_complete")
    assert exported.spans == 0


async def test_with_tracing_disabled_failures_and_handoffs_are_recorded(recorded: Recorded) -> None:
    divider = calculator([calls("divide", {"a": 1, "b": 0})])
    handoff = function_call("transfer_to_calculator", {}, call_id="h1")
    triage = Agent(name="Triage", model=scripted([handoff]), handoffs=[divider])
    config = RunConfig(tracing_disabled=True)

    with longwatch.run("report"), pytest.raises(UserError):
        await Runner.run(triage, "1 / 0?", run_config=config)

    assert recorded.tree() == [
        "agent Triage completed",
        "  model ScriptedModel completed",
        "  node handoff completed",
        "agent Calculator failed",
        "  model ScriptedModel completed",
        "  tool divide failed",
    ]


@pytest.mark.parametrize("step", ["start", "_capture", "_queue_end"])
async def test_a_fault_of_recording_does_not_reach_the_run(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("a fault of recording")

    monkeypatch.setattr(OpenCall, step, fail)
    agent = calculator([calls("add", {"a": 1, "b": 2})], [assistant_message("3")])

    assert (await Runner.run(agent, "1 + 2?")).final_output == "3"
