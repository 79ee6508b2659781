"""Which run a span belongs to, when that ends, and what is not recorded at all."""

from __future__ import annotations

import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from longwatch.errors import MissingExtra
from longwatch.integrations import attach
from longwatch.integrations.otel import LongwatchSpanProcessor
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.verify import Completeness
from longwatch.model.run import Status as RunStatus
from longwatch.model.run import fold
from longwatch.recording.active_run import ActiveRun
from longwatch.recording.decorators import tool
from longwatch.recording.model_calls import MODEL_CALL_LAYER, begin_model_call, model_call
from longwatch.recording.open_call import CallBlock
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings
from tests.integration.otel.bench import AGENT, CHAT, TOOL, Bench, verified


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
    agent_call = next(event for event in events if event.payload.get("operation") == "ask")
    model = next(event for event in events if event.type == "model_call")
    assert model.parent_call_id == agent_call.call_id  # the nearer of the two calls around it
    assert model.trace_id == f"{agent.get_span_context().trace_id:032x}"


def test_a_model_call_that_an_outer_layer_records_is_not_recorded_again(bench: Bench) -> None:
    with (
        ActiveRun("mine", run_id="wf-1", recorder=bench.recorder),
        model_call("large", provider="acme"),
        bench.tracer.start_as_current_span("chat large", attributes=CHAT),
    ):
        pass

    calls = [event.payload for event in bench.events("wf-1") if event.type == "model_call"]
    assert [(call["status"], call["recorded_by"]) for call in calls] == [
        ("started", "manual"),
        ("completed", "manual"),
    ]


def test_a_layer_whose_call_has_ended_covers_no_span(bench: Bench) -> None:
    with ActiveRun("mine", run_id="wf-1", recorder=bench.recorder):
        ended = begin_model_call("large", recorded_by="langchain")
        assert ended is not None
        token = MODEL_CALL_LAYER.set(ended)  # an adapter cannot always reset it
        ended.succeed()
        with bench.tracer.start_as_current_span("chat large", attributes=CHAT):
            pass
        MODEL_CALL_LAYER.reset(token)

    calls = [event.payload for event in bench.events("wf-1") if event.type == "model_call"]
    assert [call["recorded_by"] for call in calls] == ["langchain", "langchain", "otel", "otel"]


def test_an_agent_and_a_tool_that_an_adapter_records_are_not_recorded_again(bench: Bench) -> None:
    with (
        ActiveRun("mine", run_id="wf-1", recorder=bench.recorder),
        CallBlock("agent", "Ada"),
        bench.tracer.start_as_current_span("invoke_agent Ada", attributes=AGENT),
        CallBlock("tool", "search"),
        bench.tracer.start_as_current_span("execute_tool search", attributes=TOOL),
        bench.tracer.start_as_current_span(
            "execute_tool other", attributes={**TOOL, "gen_ai.tool.name": "other"}
        ),
    ):
        pass

    run = fold(bench.events("wf-1"))
    assert run is not None
    names = {call_id: call.name for call_id, call in run.calls.items()}
    assert [(call.name, names.get(call.parent_call_id or "")) for call in run.ordered_calls()] == [
        ("Ada", None),
        ("search", "Ada"),
        ("other", "search"),
    ]


def test_spans_of_an_instrumentation_whose_sdk_has_an_adapter_are_not_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "installed", {"langchain"})
    with ActiveRun("mine", run_id="wf-1", recorder=bench.recorder):
        for name in ("langchain", "crewai"):
            tracer = bench.provider.get_tracer(f"openinference.instrumentation.{name}")
            with tracer.start_as_current_span(name, attributes={"openinference.span.kind": "AGENT"}):
                pass

    agents = [event.agent_name for event in bench.events("wf-1") if event.type == "agent_start"]
    assert agents == ["crewai"]


@pytest.mark.parametrize(("late", "count"), [(set(), 0), ({"google_adk"}, 1)])
def test_spans_of_an_sdk_that_traces_itself_are_recorded_if_its_agents_may_be_older(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, late: set[str], count: int
) -> None:
    monkeypatch.setattr(attach, "installed", {"google_adk"})
    monkeypatch.setattr(attach, "attached_late", late)
    with (
        ActiveRun("mine", run_id="wf-1", recorder=bench.recorder),
        bench.provider.get_tracer("gcp.vertex.agent").start_as_current_span(
            "invoke_agent Ada", attributes=AGENT
        ),
    ):
        pass

    assert [event.type for event in bench.events("wf-1")].count("agent_start") == count


def test_a_workflow_of_an_sdk_with_an_adapter_opens_no_second_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "installed", {"google_adk"})
    tracer = bench.provider.get_tracer("gcp.vertex.agent")
    with tracer.start_as_current_span("invocation", attributes={"gen_ai.operation.name": "invoke_workflow"}):
        pass

    assert bench.run_ids() == []


def test_other_spans_inside_a_covered_model_call_are_still_recorded_on_request(tmp_path: Path) -> None:
    bench = Bench(tmp_path, include="all")

    with (
        ActiveRun("mine", run_id="wf-1", recorder=bench.recorder),
        model_call("large"),
        bench.tracer.start_as_current_span("POST"),
    ):
        pass

    assert [event.type for event in bench.events("wf-1")].count("span") == 2
    bench.close()


def test_a_second_record_of_one_response_names_the_first(bench: Bench) -> None:
    response = {**CHAT, "gen_ai.response.id": "resp-of-two-spans"}
    with (
        bench.tracer.start_as_current_span("root"),
        bench.tracer.start_as_current_span("chat large", attributes=response) as outer,
        bench.tracer.start_as_current_span("chat large", attributes=response) as inner,
    ):
        pass

    first, second = (f"{span.get_span_context().span_id:016x}" for span in (inner, outer))
    repeated = {event.call_id: event.payload.get("same_as") for event in bench.events() if event.call_id}
    assert repeated == {first: None, second: first}
    run = fold(bench.events())
    assert run is not None
    assert len([call for call in run.calls.values() if call.kind == "model"]) == 1


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

    assert bench.statuses("wf-9") == [
        ("process_joined", None),
        ("agent_start", "started"),
        ("agent_end", "completed"),
        ("producer_closed", None),
    ]
    bench.close()


def test_a_span_that_outlives_its_trace_is_recorded_and_the_producer_closes_after_it(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("root"):
        late = bench.tracer.start_span("tool", attributes=TOOL)
    late.end()

    events = bench.events()
    assert sorted(event.type for event in events) == sorted(
        ["workflow_start", "tool_call", "tool_call", "workflow_complete", "producer_closed"]
    )
    assert {event.producer for event in events} == {events[0].producer}
    assert verified(events) is Completeness.COMPLETE


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
        assert verified(events) is Completeness.COMPLETE


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
    assert verified(events) is Completeness.COMPLETE


def test_spans_that_the_sampler_drops_are_not_recorded(tmp_path: Path) -> None:
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


def test_spans_that_are_recorded_but_not_exported_are_recorded_here_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sampler=RecordOnly())

    with bench.tracer.start_as_current_span("agent"):
        pass

    assert ("agent_end", "completed") in bench.statuses()
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


def test_a_fault_in_recording_is_reported_and_does_not_reach_the_traced_code(
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


def test_without_the_sdk_the_error_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "longwatch.integrations.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(MissingExtra, match=r"pip install '\.\[otel\]'"):
        importlib.import_module("longwatch.integrations.otel")
