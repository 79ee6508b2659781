"""Spans of the real OpenTelemetry SDK become the events of a run."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import Status, StatusCode, Tracer

from longwatch.errors import MissingExtra
from longwatch.events import Event
from longwatch.integrations.otel import LongwatchSpanProcessor
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.verify import Answer, Verifier
from longwatch.recording.active import ActiveRun
from longwatch.recording.decorators import tool
from longwatch.recording.recorder import Recorder
from longwatch.runs import Status as RunStatus
from longwatch.runs import fold
from longwatch.settings import Settings

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Ada"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "t-1"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "large", "gen_ai.provider.name": "acme"}


class Bench:
    """A tracer whose spans are recorded, and what was recorded."""

    def __init__(self, folder: Path, *, sampler: Sampler | None = None, **options: Any) -> None:
        self.journal = MemoryJournal()
        settings = Settings(journal="memory://", outbox=str(folder / "outbox.db"))
        self.recorder = Recorder(self.journal, settings=settings)
        self.processor = LongwatchSpanProcessor(self.recorder, **options)
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def run_ids(self) -> list[str]:
        assert self.processor.force_flush()
        return sorted(run.run_id for run in self.journal.find_runs().runs)

    def events(self, run_id: str | None = None) -> list[Event]:
        """The events of a run, or of the only one."""
        (wanted,) = [run_id] if run_id is not None else self.run_ids()
        assert self.processor.force_flush()
        return list(self.journal.read(wanted, limit=10_000).events)

    def told(self, run_id: str | None = None) -> list[tuple[str, object]]:
        return [(event.type, event.payload.get("status")) for event in self.events(run_id)]

    def close(self) -> None:
        self.provider.shutdown()
        self.recorder.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_a_trace_with_an_agent_is_a_run_from_its_first_span_to_the_end_of_it(bench: Bench) -> None:
    with (
        bench.tracer.start_as_current_span("POST /ask") as root,
        bench.tracer.start_as_current_span("invoke_agent Ada", attributes=AGENT),
        bench.tracer.start_as_current_span("execute_tool search", attributes=TOOL),
    ):
        pass

    events = bench.events()
    trace_id = f"{root.get_span_context().trace_id:032x}"
    assert [(event.type, event.payload.get("status")) for event in events] == [
        ("workflow_start", None),
        ("agent_start", "started"),
        ("tool_call", "started"),
        ("tool_call", "completed"),
        ("agent_end", "completed"),
        ("workflow_complete", "completed"),
        ("producer_closed", None),
    ]
    assert {event.run_id for event in events} == {f"trace-{trace_id}"}
    assert {event.trace_id for event in events[:-1]} == {trace_id}
    run = fold(events)
    assert run is not None
    assert (run.summary.name, run.status) == ("POST /ask", RunStatus.SUCCEEDED)
    assert run.summary.agents == {"Ada"}


def test_calls_know_the_call_around_them_also_through_spans_that_are_not_recorded(bench: Bench) -> None:
    with (
        bench.tracer.start_as_current_span("root"),
        bench.tracer.start_as_current_span("agent", attributes=AGENT) as agent,
        bench.tracer.start_as_current_span("event_loop_cycle"),
        bench.tracer.start_as_current_span("tool", attributes=TOOL) as tool_span,
        bench.tracer.start_as_current_span("chat large", attributes=CHAT),
    ):
        pass

    by_type = {event.type: event for event in bench.events() if event.payload.get("status") == "started"}
    agent_id = f"{agent.get_span_context().span_id:016x}"
    tool_id = f"{tool_span.get_span_context().span_id:016x}"
    assert (by_type["agent_start"].call_id, by_type["agent_start"].parent_call_id) == (agent_id, None)
    assert (by_type["tool_call"].call_id, by_type["tool_call"].parent_call_id) == (tool_id, agent_id)
    assert by_type["model_call"].parent_call_id == tool_id
    assert by_type["model_call"].agent_name == "Ada"


def test_times_are_the_spans_own(bench: Bench) -> None:
    span = bench.tracer.start_span("agent", attributes=AGENT, start_time=1_794_736_800_123_456_789)
    span.end(end_time=1_794_736_802_623_456_789)

    start, agent_start, *_ = bench.events()
    end = next(event for event in bench.events() if event.type == "agent_end")
    assert start.occurred_at == agent_start.occurred_at == 1_794_736_800_123
    assert (end.occurred_at, end.payload["duration_ms"]) == (1_794_736_802_623, 2500)


def test_a_model_call_tells_its_model_and_its_tokens(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("chat large", attributes=CHAT) as span:
        span.set_attribute("gen_ai.usage.input_tokens", 12)
        span.set_attribute("gen_ai.usage.output_tokens", 34)
        span.set_attribute("gen_ai.response.finish_reasons", ["stop"])

    said = [event.payload for event in bench.events() if event.type == "model_call"]
    assert said[0] == {"status": "started", "operation": "chat", "model": "large", "provider": "acme"}
    assert {**said[1], "duration_ms": 0} == {
        **said[0],
        "status": "completed",
        "input_tokens": 12,
        "output_tokens": 34,
        "finish_reasons": ["stop"],
        "duration_ms": 0,
    }


def test_arguments_and_results_are_captured_without_their_secrets(bench: Bench) -> None:
    content = {
        "gen_ai.tool.call.arguments": '{"query": "tides", "api_key": "hunter2"}',
        "gen_ai.tool.call.result": "[not JSON after all",
    }
    with bench.tracer.start_as_current_span("tool", attributes={**TOOL, **content}):
        pass

    said = bench.events()[1].payload
    assert said["input"] == {"query": "tides", "api_key": "[redacted]"}
    assert said["output"] == "[not JSON after all"
    assert (said["operation"], said["tool_call_id"]) == ("search", "t-1")


def test_an_exception_fails_the_call_and_reaches_the_traced_code_unchanged(bench: Bench) -> None:
    error = ValueError("boom")

    def work() -> None:
        with (
            bench.tracer.start_as_current_span("root"),
            bench.tracer.start_as_current_span("tool", attributes=TOOL),
        ):
            raise error

    with pytest.raises(ValueError, match="boom") as caught:
        work()

    assert caught.value is error
    ends = [event.payload for event in bench.events() if event.payload.get("status") == "failed"]
    assert [end["error_message"] for end in ends] == ["ValueError: boom", "ValueError: boom"]
    assert bench.told()[-2] == ("workflow_error", "failed")


@pytest.mark.parametrize(
    ("status", "exception", "told"),
    [
        (None, None, ("completed", None)),
        (Status(StatusCode.ERROR, "no such key"), None, ("failed", "no such key")),
        (Status(StatusCode.ERROR), None, ("failed", "timeout")),
        (Status(StatusCode.ERROR, "x"), KeyError("k"), ("failed", "KeyError: 'k'")),
        (None, KeyError("k"), ("failed", "KeyError: 'k'")),
        (Status(StatusCode.OK), KeyError("handled"), ("completed", None)),
    ],
)
def test_a_span_has_failed_if_it_says_so(
    bench: Bench, status: Status | None, exception: Exception | None, told: tuple[str, str | None]
) -> None:
    with bench.tracer.start_as_current_span("tool", attributes={**TOOL, "error.type": "timeout"}) as span:
        if exception is not None:
            span.record_exception(exception)
        if status is not None:
            span.set_status(status)

    end = bench.events()[2].payload
    assert (end["status"], end.get("error_message")) == told


def test_a_workflow_span_is_the_run_itself_or_a_node_inside_one(bench: Bench) -> None:
    workflow = {"gen_ai.operation.name": "invoke_workflow"}
    with (
        bench.tracer.start_as_current_span("invoke_workflow nightly", attributes=workflow),
        bench.tracer.start_as_current_span("invoke_workflow part", attributes=workflow),
    ):
        bench.processor.force_flush()
        while_open = bench.told()

    assert while_open == [("workflow_start", None), ("node_start", "started")]
    assert bench.told()[2:4] == [("node_stop", "completed"), ("workflow_complete", "completed")]
    run = fold(bench.events())
    assert run is not None
    assert run.summary.name == "nightly"
    assert [call.name for call in run.ordered_calls()] == ["part"]


def test_attributes_that_come_after_the_start_are_recognised_at_the_end(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("root"):
        with bench.tracer.start_as_current_span("chat") as chat:
            chat.set_attributes(CHAT)
        with bench.tracer.start_as_current_span("execute_tool search") as tool_span:
            tool_span.set_attributes(TOOL)

    assert bench.told()[1:5] == [
        ("model_call", "started"),
        ("model_call", "completed"),
        ("tool_call", "started"),
        ("tool_call", "completed"),
    ]


def test_a_trace_without_any_such_span_is_no_run(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("GET /health"), bench.tracer.start_as_current_span("SELECT"):
        pass

    assert bench.run_ids() == []


def test_all_spans_are_recorded_if_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, include="all")

    with bench.tracer.start_as_current_span("GET /health", attributes={"http.route": "/health"}):
        pass

    assert bench.told()[1:3] == [("span", "started"), ("span", "completed")]
    assert bench.events()[1].payload["attributes"] == {"http.route": "/health"}
    bench.close()


def test_spans_inside_a_run_join_it_and_leave_its_end_to_it(bench: Bench) -> None:
    @tool
    def ask() -> None:
        with bench.tracer.start_as_current_span("chat", attributes=CHAT):
            pass

    with (
        ActiveRun("mine", run_id="wf-1", recorder=bench.recorder),
        bench.tracer.start_as_current_span("agent", attributes=AGENT) as agent,
    ):
        ask()

    events = bench.events("wf-1")
    assert bench.run_ids() == ["wf-1"]
    assert [event.type for event in events if event.type.startswith("workflow")] == [
        "workflow_start",
        "workflow_complete",
    ]
    asked = next(event for event in events if event.payload.get("operation") == "ask")
    model = next(event for event in events if event.type == "model_call")
    assert model.parent_call_id == asked.call_id  # the nearer of the two calls around it
    assert model.trace_id == f"{agent.get_span_context().trace_id:032x}"


def test_spans_of_another_thread_stay_in_the_run_of_the_span_around_them(bench: Bench) -> None:
    with ActiveRun("mine", run_id="wf-1", recorder=bench.recorder):
        span = bench.tracer.start_span("agent", attributes=AGENT)
    context = trace.set_span_in_context(span)

    thread = threading.Thread(
        target=lambda: bench.tracer.start_span("tool", attributes=TOOL, context=context).end()
    )
    thread.start()
    thread.join()
    span.end()

    assert bench.run_ids() == ["wf-1"]
    started = next(event for event in bench.events("wf-1") if event.type == "tool_call")
    assert started.parent_call_id == f"{span.get_span_context().span_id:016x}"


def test_a_chosen_run_gets_all_spans_and_is_closed_at_the_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, run_id="wf-9")
    with bench.tracer.start_as_current_span("agent", attributes=AGENT):
        pass

    bench.provider.shutdown()

    assert bench.told("wf-9") == [
        ("agent_start", "started"),
        ("agent_end", "completed"),
        ("producer_closed", None),
    ]
    bench.close()


def test_a_span_that_outlives_its_trace_is_kept_and_the_producer_closes_after_it(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("root"):
        late = bench.tracer.start_span("tool", attributes=TOOL)
    late.end()

    events = bench.events()
    assert sorted(event.type for event in events) == sorted(
        ["workflow_start", "tool_call", "tool_call", "workflow_complete", "producer_closed"]
    )
    assert {event.producer for event in events} == {events[0].producer}
    assert verified(events) is Answer.COMPLETE


def test_a_trace_that_is_open_at_shutdown_is_ended_for_it(bench: Bench) -> None:
    span = bench.tracer.start_span("agent", attributes=AGENT)

    bench.provider.shutdown()
    span.end()

    events = bench.events()
    assert [event.type for event in events] == [
        "workflow_start",
        "agent_start",
        "workflow_error",
        "producer_closed",
    ]
    assert (events[2].payload["status"], events[2].payload["written_for"]) == ("interrupted", True)


def test_many_traces_at_once_in_many_threads_are_runs_of_their_own(bench: Bench) -> None:
    barrier = threading.Barrier(8)

    def trace_something(number: int) -> None:
        barrier.wait()
        for _ in range(20):
            with (
                bench.tracer.start_as_current_span("root", context=Context()),
                bench.tracer.start_as_current_span(
                    "agent", attributes={**AGENT, "gen_ai.agent.name": f"a{number}"}
                ),
                bench.tracer.start_as_current_span("tool", attributes=TOOL),
            ):
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(trace_something, range(8)))

    bench.processor.force_flush()
    runs = bench.journal.find_runs(limit=1000).runs
    assert len(runs) == 160
    for run in runs:
        events = list(bench.journal.read(run.run_id).events)
        assert len(events) == 7
        assert run.status is RunStatus.SUCCEEDED
        assert verified(events) is Answer.COMPLETE


def test_parallel_spans_of_one_trace_are_one_run_with_one_end_and_a_whole_chain(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("root") as root:
        context = trace.set_span_in_context(root)

        def call(_: int) -> None:
            bench.tracer.start_span("tool", attributes=TOOL, context=context).end()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(200)))

    events = bench.events()
    assert len(events) == 403
    assert [event.type for event in events].count("workflow_complete") == 1
    assert verified(events) is Answer.COMPLETE


def test_what_the_sampler_drops_is_not_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sampler=ALWAYS_OFF)

    with bench.tracer.start_as_current_span("agent", attributes=AGENT):
        pass

    assert bench.run_ids() == []
    bench.close()


class RecordOnly(Sampler):
    """For processors in this process, and not to be exported."""

    def should_sample(self, *arguments: object, **options: object) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY, attributes=AGENT)

    def get_description(self) -> str:
        return "record only"


def test_what_is_recorded_but_not_exported_is_recorded_here_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sampler=RecordOnly())

    with bench.tracer.start_as_current_span("agent"):
        pass

    assert ("agent_end", "completed") in bench.told()
    bench.close()


def test_spans_that_never_end_are_forgotten_and_their_run_is_ended_for_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_open_spans=3)

    spans = [bench.tracer.start_span("agent", attributes=AGENT, context=Context()) for _ in range(5)]

    bench.processor.force_flush()
    ended = [run for run in bench.journal.find_runs().runs if run.status is RunStatus.UNKNOWN]
    assert len(ended) == 2
    for span in spans:
        span.end()
    assert len(bench.run_ids()) == 5
    bench.close()


def test_a_fault_in_recording_is_told_and_does_not_reach_the_traced_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "longwatch")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(LongwatchSpanProcessor(cast(Recorder, object())))

    with provider.get_tracer("tests").start_as_current_span("agent", attributes=AGENT):
        pass
    provider.shutdown()

    assert "could not be recorded" in caplog.text


def test_switched_off_nothing_is_recorded(tmp_path: Path) -> None:
    journal = MemoryJournal()
    settings = Settings(journal="memory://", outbox=str(tmp_path / "outbox.db"), enabled=False)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(LongwatchSpanProcessor(Recorder(journal, settings=settings)))

    with provider.get_tracer("tests").start_as_current_span("agent", attributes=AGENT):
        pass
    provider.shutdown()

    assert journal.find_runs().runs == []


def test_an_unknown_choice_of_spans_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="genai, all"):
        LongwatchSpanProcessor(include="some")


def test_without_the_sdk_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "longwatch.integrations.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(MissingExtra, match=r"pip install 'longwatch\[otel\]'"):
        importlib.import_module("longwatch.integrations.otel")


def verified(events: list[Event]) -> Answer:
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    return verifier.report(events[-1].occurred_at).answer
