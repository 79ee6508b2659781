"""Spans of the real OpenTelemetry SDK become the events of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.trace import Status, StatusCode

from longwatch.model.run import Status as RunStatus
from longwatch.model.run import fold
from tests.integration.otel.bench import AGENT, CHAT, TOOL, Bench


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
    ending = next(event for event in bench.events() if event.type == "workflow_complete")
    assert (ending.occurred_at, ending.payload["execution_time_ms"]) == (1_794_736_802_623, 2500)


def test_a_model_call_records_its_model_and_its_tokens(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("chat large", attributes=CHAT) as span:
        span.set_attribute("gen_ai.usage.input_tokens", 12)
        span.set_attribute("gen_ai.usage.output_tokens", 34)
        span.set_attribute("gen_ai.response.finish_reasons", ["stop"])

    payloads = [event.payload for event in bench.events() if event.type == "model_call"]
    assert payloads[0] == {
        "status": "started",
        "operation": "chat",
        "model": "large",
        "provider": "acme",
        "recorded_by": "otel",
    }
    assert {**payloads[1], "duration_ms": 0} == {
        **payloads[0],
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

    started, ended = (event.payload for event in bench.events() if event.type == "tool_call")
    assert started["input"] == {"query": "tides", "api_key": "[redacted]"}
    assert "output" not in started
    assert "input" not in ended  # its start has it
    assert ended["output"] == "[not JSON after all"
    assert (ended["operation"], ended["tool_call_id"]) == ("search", "t-1")


def test_messages_that_are_set_after_the_start_are_in_the_end(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("chat large", attributes=CHAT) as span:
        span.set_attribute("gen_ai.input.messages", '[{"role": "user", "content": "1+2?"}]')
        span.set_attribute("gen_ai.output.messages", '[{"role": "assistant", "content": "3"}]')

    started, ended = (event.payload for event in bench.events() if event.type == "model_call")
    assert "input" not in started
    assert ended["input"] == [{"role": "user", "content": "1+2?"}]
    assert ended["output"] == [{"role": "assistant", "content": "3"}]


def test_spans_of_other_dialects_are_recorded_too(bench: Bench) -> None:
    chain, llm = {"openinference.span.kind": "CHAIN"}, {"openinference.span.kind": "LLM"}
    task = {"traceloop.span.kind": "task", "traceloop.entity.name": "fetch"}
    with (
        bench.tracer.start_as_current_span("LangGraph", attributes=chain),
        bench.tracer.start_as_current_span("fetch.task", attributes=task),
        bench.tracer.start_as_current_span("ChatModel", attributes={**llm, "llm.model_name": "large"}),
    ):
        pass

    run = fold(bench.events())
    assert run is not None
    assert run.summary.name == "LangGraph"
    assert [event.type for event in bench.events()[:3]] == ["workflow_start", "node_start", "model_call"]


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
    claim_end = [event.payload for event in bench.events() if event.payload.get("status") == "failed"]
    assert [end["error_message"] for end in claim_end] == ["ValueError: boom", "ValueError: boom"]
    assert bench.statuses()[-2] == ("workflow_error", "failed")


@pytest.mark.parametrize(
    ("status", "exception", "expected"),
    [
        (None, None, ("completed", None)),
        (Status(StatusCode.ERROR, "no such key"), None, ("failed", "no such key")),
        (Status(StatusCode.ERROR), None, ("failed", "timeout")),
        (Status(StatusCode.ERROR, "x"), KeyError("k"), ("failed", "KeyError: 'k'")),
        (None, KeyError("k"), ("failed", "KeyError: 'k'")),
        (Status(StatusCode.OK), KeyError("handled"), ("completed", None)),
    ],
)
def test_a_span_with_an_error_status_has_failed(
    bench: Bench, status: Status | None, exception: Exception | None, expected: tuple[str, str | None]
) -> None:
    with bench.tracer.start_as_current_span("tool", attributes={**TOOL, "error.type": "timeout"}) as span:
        if exception is not None:
            span.record_exception(exception)
        if status is not None:
            span.set_status(status)

    end = bench.events()[2].payload
    assert (end["status"], end.get("error_message")) == expected


def test_a_workflow_span_is_the_run_itself_or_a_node_inside_one(bench: Bench) -> None:
    workflow = {"gen_ai.operation.name": "invoke_workflow"}
    with (
        bench.tracer.start_as_current_span("invoke_workflow nightly", attributes=workflow),
        bench.tracer.start_as_current_span("invoke_workflow part", attributes=workflow),
    ):
        bench.processor.force_flush()
        while_open = bench.statuses()

    assert while_open == [("workflow_start", None), ("node_start", "started")]
    assert bench.statuses()[2:4] == [("node_stop", "completed"), ("workflow_complete", "completed")]
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

    assert bench.statuses()[1:5] == [
        ("model_call", "started"),
        ("model_call", "completed"),
        ("tool_call", "started"),
        ("tool_call", "completed"),
    ]


def test_a_trace_without_any_such_span_is_not_a_run(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("GET /health"), bench.tracer.start_as_current_span("SELECT"):
        pass

    assert bench.run_ids() == []


def test_all_spans_are_recorded_on_request(tmp_path: Path) -> None:
    bench = Bench(tmp_path, include="all")

    with bench.tracer.start_as_current_span("GET /health", attributes={"http.route": "/health"}):
        pass

    assert bench.statuses()[1:3] == [("span", "started"), ("span", "completed")]
    assert bench.events()[1].payload["attributes"] == {"http.route": "/health"}
    bench.close()
