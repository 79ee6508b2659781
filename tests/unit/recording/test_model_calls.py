"""The events of model calls, and calls that several layers see."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.model.model_calls import CountedCall, Repeat
from longwatch.recording import model_calls
from longwatch.recording.model_calls import (
    MODEL_CALL_LAYER,
    ModelUsage,
    begin_model_call,
    find_repeated,
    outer_layer,
)
from longwatch.recording.recorder import Recorder
from tests.unit.recording.conftest import MakeRecorder
from tests.unit.recording.recorded import Refusal, events_of, types_of

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def model_events(journal: MemoryJournal, run_id: str) -> list[Event]:
    return [event for event in events_of(journal, run_id) if event.type == "model_call"]


def test_a_call_has_a_start_and_an_end_with_the_response(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with (
        longwatch.run() as run,
        longwatch.model_call(
            "gpt-4o", provider="openai", input=MESSAGES, parameters={"temperature": 0.2, "max_tokens": 50}
        ) as call,
    ):
        call.chunk()
        call.chunk()
        call.succeed(
            usage=ModelUsage(input_tokens=12, output_tokens=3, cache_read_tokens=0),
            output=[{"role": "assistant", "content": "Paris"}],
            response_id="chatcmpl-1",
            response_model="gpt-4o-2024-08-06",
            finish_reasons=["stop"],
        )
    configured.flush()

    start, end = model_events(journal, run.run_id)
    assert start.call_id == end.call_id
    assert start.payload == {
        "status": "started",
        "operation": "chat",
        "provider": "openai",
        "model": "gpt-4o",
        "recorded_by": "manual",
        "input": MESSAGES,
        "parameters": {"temperature": 0.2, "max_tokens": 50},
    }
    measured = {name: end.payload[name] for name in ("duration_ms", "time_to_first_token_ms")}
    assert end.payload == measured | {
        "status": "completed",
        "operation": "chat",
        "provider": "openai",
        "model": "gpt-4o",
        "recorded_by": "manual",
        "response_model": "gpt-4o-2024-08-06",
        "response_id": "chatcmpl-1",
        "finish_reasons": ["stop"],
        "input_tokens": 12,
        "output_tokens": 3,
        "cache_read_tokens": 0,
        "chunk_count": 2,
        "output": [{"role": "assistant", "content": "Paris"}],
    }


def test_a_call_belongs_to_the_call_around_it(configured: Recorder, journal: MemoryJournal) -> None:
    @longwatch.agent
    def writer() -> None:
        with longwatch.model_call("gpt-4o"):
            longwatch.record("note")

    with longwatch.run() as run:
        writer()
    configured.flush()

    start, end = model_events(journal, run.run_id)
    agent, *_ = [event for event in events_of(journal, run.run_id) if event.type == "agent_start"]
    [note] = [event for event in events_of(journal, run.run_id) if event.type == "note"]
    assert {start.parent_call_id, end.parent_call_id} == {agent.call_id}
    assert start.agent_name == "writer"
    assert note.parent_call_id == start.call_id


def test_an_exception_fails_the_call_and_leaves_the_block(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run() as run, pytest.raises(Refusal), longwatch.model_call("gpt-4o"):
        raise Refusal("overloaded")
    configured.flush()

    assert model_events(journal, run.run_id)[1].payload["error_message"] == "Refusal: overloaded"


def test_a_call_ends_once(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run() as run, longwatch.model_call("gpt-4o") as call:
        call.fail("refused")
        call.succeed(output="too late")
    configured.flush()

    assert [event.payload["status"] for event in model_events(journal, run.run_id)] == ["started", "failed"]


def test_a_call_outside_a_run_is_a_run_of_its_own(configured: Recorder, journal: MemoryJournal) -> None:
    async def ask() -> None:
        async with longwatch.model_call("claude-sonnet-4", provider="anthropic") as call:
            call.succeed(output="yes")

    asyncio.run(ask())
    configured.flush()

    [found] = journal.find_runs().runs
    assert (found.name, found.status) == ("claude-sonnet-4", "succeeded")
    assert types_of(journal, found.run_id) == [
        "workflow_start",
        "model_call",
        "model_call",
        "workflow_complete",
    ]


def test_nothing_is_recorded_below_the_layer_that_records_the_call(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run() as run, longwatch.model_call("gpt-4o"):
        assert MODEL_CALL_LAYER.get() == "manual"
        assert begin_model_call("gpt-4o", recorded_by="openai") is None
    configured.flush()

    assert outer_layer() is None
    assert len(model_events(journal, run.run_id)) == 2


def test_the_second_end_with_a_response_id_names_the_call_that_has_the_usage(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run() as run:
        inner = begin_model_call("gpt-4o", recorded_by="openai")
        outer = begin_model_call("gpt-4o", recorded_by="langchain")
        assert inner is not None
        assert outer is not None
        inner.succeed(response_id="chatcmpl-7", usage=ModelUsage(10, 2))
        outer.succeed(response_id="chatcmpl-7", usage=ModelUsage(10, 2))
    configured.flush()

    ends = [event for event in model_events(journal, run.run_id) if event.payload["status"] == "completed"]
    assert [event.payload.get("same_as") for event in ends] == [None, inner.call_id]


def test_calls_of_one_client_with_a_reused_response_id_are_two_calls(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run() as run:
        for _ in range(2):
            call = begin_model_call("llama", recorded_by="openai")
            assert call is not None
            call.succeed(response_id="chatcmpl-8", usage=ModelUsage(10, 2))
    configured.flush()

    ends = [event for event in model_events(journal, run.run_id) if event.payload["status"] == "completed"]
    assert [event.payload.get("same_as") for event in ends] == [None, None]
    found = longwatch.fold(journal.read(run.run_id).events)
    assert found is not None
    assert len(found.ordered_calls()) == 2


def test_response_ids_of_other_runs_are_other_calls() -> None:
    calls = [CountedCall(f"call-{number}", None, has_tokens=number == 3) for number in range(1, 5)]

    assert find_repeated("wf-a", "resp-1", calls[0]) == Repeat()
    assert find_repeated("wf-b", "resp-1", calls[1]) == Repeat()
    assert find_repeated("wf-a", "resp-1", calls[2]) == Repeat("call-1", adds_usage=True)
    assert find_repeated("wf-a", None, calls[3]) == Repeat()


def test_the_number_of_remembered_responses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "MAX_RESPONSES", 3)
    monkeypatch.setattr(model_calls, "_responses", OrderedDict())
    for number in range(10):
        find_repeated("wf-bounded", f"resp-{number}", CountedCall(f"call-{number}", None, has_tokens=True))

    assert len(model_calls._responses) == 3
    again = CountedCall("call-again", None, has_tokens=True)
    assert find_repeated("wf-bounded", "resp-0", again) == Repeat()


@pytest.mark.parametrize(
    ("capture", "text"),
    [("off", None), ("summary", "a" * 1_000 + "…[shortened, 5000 characters]"), ("full", "a" * 5_000)],
)
def test_messages_follow_the_capture_policy(
    make_recorder: MakeRecorder, journal: MemoryJournal, capture: str, text: str | None
) -> None:
    recorder = make_recorder(journal, capture=capture)
    scope = longwatch.recording.scope.RecordingScope(recorder, "wf-1", None, recorder.limits())
    messages = [{"role": "user", "content": "a" * 5_000, "api_key": "sk-very-secret"}]

    call = begin_model_call("gpt-4o", recorded_by="test", input=messages, scope=scope)
    assert call is not None
    call.succeed(usage=ModelUsage(1, 1), output=messages)
    recorder.flush()

    for event, name in zip(model_events(journal, "wf-1"), ("input", "output"), strict=True):
        if text is None:
            assert name not in event.payload
        else:
            assert event.payload[name] == [{"role": "user", "content": text, "api_key": "[redacted]"}]


def test_a_disabled_recorder_records_no_call(make_recorder: MakeRecorder, journal: MemoryJournal) -> None:
    longwatch.configure(journal, settings=make_recorder(journal, enabled=False).settings)

    with longwatch.model_call("gpt-4o") as call:
        call.succeed(output="yes")
    longwatch.flush()

    assert not journal.find_runs().runs


def test_redact_keys_hide_values_and_not_the_facts_of_a_call(
    make_recorder: MakeRecorder, journal: MemoryJournal
) -> None:
    recorder = make_recorder(journal, redact_keys=("model", "input_tokens", "customer"))
    scope = longwatch.recording.scope.RecordingScope(recorder, "wf-1", None, recorder.limits())

    call = begin_model_call(
        "gpt-4o", recorded_by="test", input={"customer": "Ada", "model": "T"}, scope=scope
    )
    assert call is not None
    call.succeed(usage=ModelUsage(12, 3))
    recorder.flush()

    start, end = model_events(journal, "wf-1")
    assert start.payload["input"] == {"customer": "[redacted]", "model": "[redacted]"}
    assert (start.payload["model"], end.payload["input_tokens"]) == ("gpt-4o", 12)
