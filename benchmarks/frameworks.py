"""What a run of an agent framework costs while it is recorded, beside the framework's OpenTelemetry peer.

Instrumentation changes a framework for the whole process, so each case has a process of its own, and all of
them take turns. A run is an agent that calls its model, two tools and its model again, offline.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Goal, Result

FRAMEWORKS = ("langgraph", "openai_agents", "pydantic_ai")
LAYERS = ("bare", "longwatch", "peer")
LIMIT = 1.15
RUNS = 100  # in a round

Run = Callable[[], Awaitable[object]]


def measure(*, quick: bool) -> list[Result]:
    """The table of frameworks."""
    rounds = 5 if quick else 15
    rows: list[Sequence[object]] = []
    goals = []
    for framework in FRAMEWORKS:
        costs = _measure_framework(framework, rounds)
        for layer, cost in costs.items():
            ratios = [own / peer for own, peer in zip(cost, costs["peer"], strict=True)]
            rows.append((framework, layer, *cost, ratios[0]))
        for position, scope in enumerate(("caller", "process")):
            ratio = costs["longwatch"][position] / costs["peer"][position]
            goals.append(Goal(f"{framework}: longwatch / peer, {scope}", ratio, LIMIT))
    headings = ("framework", "case", "caller CPU µs/run", "process CPU", "wall", "caller / peer")
    notes = [
        "The peer is OpenInference's instrumentor; for pydantic-ai, its own OpenTelemetry.",
        "With longwatch the process also stores what is recorded, in SQLite with FULL.\n",
    ]
    return [Result("One run of an attached framework", headings, rows, goals, notes)]


def _measure_framework(framework: str, rounds: int) -> dict[str, tuple[float, ...]]:
    taken: dict[str, list[tuple[float, ...]]] = {layer: [] for layer in LAYERS}
    workers = {layer: Worker(framework, layer) for layer in LAYERS}
    try:
        for _ in range(rounds):
            for layer, worker in workers.items():
                taken[layer].append(worker.measure())
    finally:
        for worker in workers.values():
            worker.close()
    return {
        layer: tuple(map(statistics.median, zip(*values, strict=True))) for layer, values in taken.items()
    }


class Worker:
    """A process with one framework and at most one instrumentation."""

    def __init__(self, framework: str, layer: str) -> None:
        command = [sys.executable, "-m", "benchmarks.frameworks", framework, layer]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self) -> tuple[float, ...]:
        """Microseconds for each run of a round: CPU of the calling thread, CPU of the process, wall time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("round\n")
        self._process.stdin.flush()
        return tuple(map(float, self._process.stdout.readline().split()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def work(framework: str, layer: str) -> None:
    """Measure a round for each line of stdin."""
    with tempfile.TemporaryDirectory() as folder:
        flush = PREPARE[layer](framework, Path(folder))
        run = RUN_OF[framework]()
        asyncio.run(_rounds(run, flush))


async def _rounds(run: Run, flush: Callable[[], object]) -> None:
    await run()
    for _ in sys.stdin:
        wall, caller, process = time.perf_counter(), time.thread_time(), time.process_time()
        for _ in range(RUNS):
            await run()
        wall, caller = time.perf_counter() - wall, time.thread_time() - caller
        flush()
        process = time.process_time() - process  # with what is stored or exported in the background
        print(*(seconds / RUNS * 1e6 for seconds in (caller, process, wall)), flush=True)


def _leave_alone(framework: str, folder: Path) -> Callable[[], object]:
    return lambda: None


def _attach_longwatch(framework: str, folder: Path) -> Callable[[], object]:
    import longwatch

    recorder = longwatch.configure(f"sqlite:///{folder / 'bench.db'}")
    longwatch.attach(framework)
    return lambda: recorder.flush(60)


def _attach_peer(framework: str, folder: Path) -> Callable[[], object]:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class NullExporter(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None:
            """Nothing to release."""

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NullExporter()))
    if framework == "langgraph":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=provider)
    elif framework == "openai_agents":
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    else:
        from pydantic_ai import Agent
        from pydantic_ai.models.instrumented import InstrumentationSettings

        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    return provider.force_flush


PREPARE = {"bare": _leave_alone, "longwatch": _attach_longwatch, "peer": _attach_peer}


def langgraph_run() -> Run:
    """A graph with a node for its model and one for its tools."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    @tool
    async def forecast(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    cities = [
        {"name": "forecast", "args": {"city": city}, "id": city, "type": "tool_call"}
        for city in ("Oslo", "Rome")
    ]

    def replies() -> Any:
        while True:
            yield AIMessage("", tool_calls=cities)
            yield AIMessage("It is sunny in both.")

    model = GenericFakeChatModel(messages=replies())

    async def think(state: MessagesState) -> dict[str, object]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([forecast]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    compiled = graph.compile(name="weather")
    return lambda: compiled.ainvoke({"messages": [HumanMessage("How is the weather?")]})


def openai_agents_run() -> Run:
    """An agent with a scripted model that traces as OpenAI's own do."""
    import logging

    from agents import Agent, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    @function_tool
    async def forecast(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    logging.getLogger("openai.agents").setLevel(logging.ERROR)  # it has no API key to send traces with

    async def run() -> object:
        calls = [function_call("forecast", {"city": city}, call_id=city) for city in ("Oslo", "Rome")]
        steps = [calls, [assistant_message("It is sunny in both.")]]
        agent = Agent(name="weather", model=ScriptedModel(steps, emit_traces=True), tools=[forecast])
        return await Runner.run(agent, "How is the weather?")

    return run


def pydantic_ai_run() -> Run:
    """An agent with a function as its model."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("It is sunny in both.")])
        return ModelResponse([ToolCallPart("forecast", {"city": city}, city) for city in ("Oslo", "Rome")])

    agent = Agent(FunctionModel(respond, model_name="scripted"), name="weather")

    @agent.tool_plain
    async def forecast(city: str) -> str:
        return f"sunny in {city}"

    return lambda: agent.run("How is the weather?")


RUN_OF: dict[str, Callable[[], Run]] = {
    "langgraph": langgraph_run,
    "openai_agents": openai_agents_run,
    "pydantic_ai": pydantic_ai_run,
}

if __name__ == "__main__":
    work(*sys.argv[1:])
