"""What the log events of coding agents say.

The fixtures were sent by Claude Code 2.1.197 and Codex 0.169.0, which ran a command against a scripted model;
identities and unused attributes are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longwatch.model.event import Event
from longwatch.model.run import Run, fold
from longwatch.recording.secret_names import SecretNames
from longwatch.telemetry.agent_logs import log_events
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.otlp import ExportBatch, LogRecord
from longwatch.telemetry.otlp_json import decode_logs

FIXTURES = Path(__file__).parents[2] / "fixtures" / "otlp"
CLAUDE = "claude-code-1a6940ef-1fde-448e-80b5-226c30692ce1"
CODEX = "codex-01a1ef07-1c19-7f51-a27b-75cc7cb16d50"
AT_NS = 1_794_736_800_000_000_000
BUILDER = EventBuilder(secrets=SecretNames())


def recorded(name: str) -> list[Event]:
    batch = decode_logs((FIXTURES / f"{name}-logs.json").read_bytes())
    assert batch.rejected == 0
    return log_events(batch, BUILDER)


def events_of(record: LogRecord) -> list[Event]:
    return log_events(ExportBatch([record]), BUILDER)


def folded(events: Sequence[Event]) -> Run:
    run = fold(events)
    assert run is not None
    return run


def logged(name: str, **attributes: Any) -> list[Event]:
    """The events of one record, as the published format has it: synthetic."""
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    agent = {"session.id": "s-1", "conversation.id": "c-1", "event.name": name}
    return events_of(LogRecord(name, AT_NS, {**agent, **given}))


@pytest.mark.parametrize(
    ("fixture", "run_id", "name", "tool", "models"),
    [
        ("claude-code", CLAUDE, "Claude Code", "Bash", ["claude-opus-4-8"] * 2),
        ("codex", CODEX, "Codex", "exec_command", ["gpt-5-codex"] * 2),
    ],
)
def test_a_session_is_a_run_with_its_model_calls_and_tools(
    fixture: str, run_id: str, name: str, tool: str, models: list[str]
) -> None:
    events = recorded(fixture)

    run = folded(events)
    assert (run.run_id, run.summary.name, run.status) == (run_id, name, "running")
    assert [call.name for call in run.tool_calls] == [tool]
    assert run.tool_calls[0].status == "completed"
    assert [call.name for call in run.ordered_calls() if call.kind == "model"] == models
    prompt = next(event.payload for event in events if event.type == "user_prompt")
    assert prompt["prompt"] == "Say hi with echo"
    given = next(event.payload["input"] for event in events if event.type == "tool_call")
    assert "echo hi" in json.dumps(given)


@pytest.mark.parametrize("fixture", ["claude-code", "codex"])
def test_tokens_are_those_of_each_request(fixture: str) -> None:
    ends = [
        event.payload
        for event in recorded(fixture)
        if event.type == "model_call" and event.payload["status"] == "completed"
    ]

    assert [(end["input_tokens"], end["output_tokens"]) for end in ends] == [(10, 5), (10, 5)]


@pytest.mark.parametrize("fixture", ["claude-code", "codex"])
def test_a_record_that_is_sent_again_is_the_same_event(fixture: str) -> None:
    once, again = recorded(fixture), recorded(fixture)

    assert once == again
    assert len({event.event_id for event in once}) == len(once)


def test_cached_tokens_of_anthropic_are_part_of_the_input() -> None:
    start, end = logged(
        "claude_code.api_request",
        model="m",
        input_tokens="3",
        output_tokens=4,
        cache_read_tokens=10,
        cache_creation_tokens=20,
        cost_usd=0.25,
        duration_ms=1500,
    )

    assert start.occurred_at == end.occurred_at - 1500
    assert end.payload == {
        "status": "completed",
        "operation": "chat",
        "provider": "anthropic",
        "model": "m",
        "recorded_by": "otlp",
        "input_tokens": 33,
        "output_tokens": 4,
        "cache_read_tokens": 10,
        "cache_write_tokens": 20,
        "cost_usd": 0.25,
        "duration_ms": 1500,
    }


@pytest.mark.parametrize(
    ("name", "attributes", "error"),
    [
        (
            "claude_code.api_error",
            {"error": "overloaded", "status_code": 529, "duration_ms": 5},
            "overloaded",
        ),
        ("codex.api_request", {"http__response__status_code": 500, "duration_ms": 5}, "HTTP 500"),
        ("codex.sse_event", {"error__message": "idle timeout", "duration_ms": 5}, "idle timeout"),
    ],
)
def test_a_request_that_failed_is_a_failed_model_call(
    name: str, attributes: dict[str, Any], error: str
) -> None:
    _, end = logged(name, model="m", **attributes)

    assert (end.type, end.payload["status"], end.payload["error_message"]) == ("model_call", "failed", error)


@pytest.mark.parametrize(
    ("name", "attributes", "error"),
    [
        ("claude_code.tool_result", {"success": "false", "error": "exit 1", "tool_use_id": "t"}, "exit 1"),
        ("codex.tool_result", {"success": "false", "output": "exit 1", "call_id": "t"}, "exit 1"),
    ],
)
def test_a_failed_tool_has_its_reason(name: str, attributes: dict[str, Any], error: str) -> None:
    start, end = logged(name, tool_name="Bash", duration_ms=7, **attributes)

    assert (start.call_id, end.call_id) == ("t", "t")
    assert (end.payload["status"], end.payload["error_message"]) == ("failed", error)


def test_a_decision_about_a_tool_is_an_event() -> None:
    (event,) = logged("claude_code.tool_decision", tool_name="Bash", decision="reject", source="user_reject")

    assert event.type == "tool_decision"
    assert event.payload == {"tool_name": "Bash", "decision": "reject", "source": "user_reject"}


@pytest.mark.parametrize(
    "record",
    [
        LogRecord("claude_code.api_request", AT_NS, {"model": "m"}),  # of no session
        LogRecord("claude_code.api_request", AT_NS, {"session.id": 3}),
        LogRecord("codex.sse_event", AT_NS, {"conversation.id": "c", "event.kind": "response.created"}),
        LogRecord("something.else", AT_NS, {"session.id": "s"}),
        LogRecord("", AT_NS, {}, body="a line of a log"),
        LogRecord("gen_ai.client.inference.operation.details", AT_NS, {}),  # outside any span
    ],
)
def test_other_records_are_not_recorded(record: LogRecord) -> None:
    assert events_of(record) == []


def test_a_session_joins_the_run_that_its_resource_names() -> None:
    record = LogRecord(
        "claude_code.user_prompt",
        AT_NS,
        {"session.id": "s", "event.sequence": 0, "prompt_length": 3},
        resource={"longwatch.run_id": "wf-1"},
    )

    assert [(event.run_id, event.type) for event in events_of(record)] == [("wf-1", "user_prompt")]


def test_the_details_of_an_inference_are_the_end_of_its_model_call() -> None:
    record = LogRecord(
        "gen_ai.client.inference.operation.details",
        AT_NS,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "large",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "hi"}]}],
        },
        trace_id="ab" * 16,
        span_id="cd" * 8,
    )

    (event,) = events_of(record)

    assert (event.run_id, event.call_id, event.type) == (f"trace-{'ab' * 16}", "cd" * 8, "model_call")
    assert event.payload["status"] == "completed"
    assert (event.payload["model"], event.payload["input_tokens"]) == ("large", 3)
    assert event.payload["output"] == [{"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize(
    "attributes", [{"session.id": "s" * 2000}, {"session.id": "s", "duration_ms": 2**52}]
)
def test_a_record_that_no_journal_can_store_is_rejected_and_the_others_are_recorded(
    attributes: dict[str, Any],
) -> None:
    name = "claude_code.api_request"
    batch = ExportBatch([LogRecord(name, AT_NS, attributes), LogRecord(name, AT_NS, {"session.id": "s"})])

    assert len(log_events(batch, BUILDER)) == 1
    assert batch.rejected == 1
