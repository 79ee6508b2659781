"""Calls that an SDK reports through callbacks."""

from __future__ import annotations

import threading

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.run import Call, fold
from longwatch.recording import call_tracker
from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelUsage
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import SCOPE
from tests.unit.recording.recorded import Refusal, events_of


def calls(journal: MemoryJournal, run_id: str) -> list[Call]:
    run = fold(events_of(journal, run_id))
    assert run is not None
    return run.ordered_calls()


def test_calls_of_every_kind_have_their_parents(configured: Recorder, journal: MemoryJournal) -> None:
    tracker = CallTracker("sdk")
    with longwatch.run() as run:
        tracker.begin("graph", "node", "plan")
        tracker.begin("agent", "agent", "writer", parent="graph", fields={"role": "author"})
        tracker.begin("tool", "tool", "search", parent="agent", input={"query": "x"})
        tracker.end("tool", output=["y"])
        tracker.begin("model", "model", "gpt-4o", parent="agent", fields={"provider": "openai"})
        tracker.chunk("model")
        tracker.end("model", output="z", fields={"usage": ModelUsage(3, 1), "response_id": "r-1"})
        tracker.end("agent")
        tracker.end("graph")
    configured.flush()

    found = calls(journal, run.run_id)
    by_id = {call.call_id: call.name for call in found}
    assert [(call.kind, call.name, by_id.get(call.parent_call_id or ""), call.status) for call in found] == [
        ("node", "plan", None, "completed"),
        ("agent", "writer", "plan", "completed"),
        ("tool", "search", "writer", "completed"),
        ("model", "gpt-4o", "writer", "completed"),
    ]
    facts = found[3].model
    assert facts is not None
    assert (facts.provider, facts.recorded_by, facts.response_id, facts.chunk_count) == (
        *("openai", "sdk", "r-1"),
        1,
    )
    assert facts.usage == ModelUsage(3, 1)
    tool = [event for event in events_of(journal, run.run_id) if event.type == "tool_call"]
    assert [event.payload.get("input") or event.payload.get("output") for event in tool] == [
        {"query": "x"},
        ["y"],
    ]


def test_a_call_without_a_parent_belongs_to_the_current_scope(
    configured: Recorder, journal: MemoryJournal
) -> None:
    tracker = CallTracker("sdk")

    @longwatch.agent
    def writer() -> None:
        tracker.begin(1, "tool", "search", parent="unknown")
        tracker.end(1)

    with longwatch.run() as run:
        writer()
    configured.flush()

    agent, tool = calls(journal, run.run_id)
    assert (tool.parent_call_id, tool.agent_name) == (agent.call_id, "writer")


def test_a_root_call_outside_a_run_opens_a_run_that_ends_with_it(
    configured: Recorder, journal: MemoryJournal
) -> None:
    tracker = CallTracker("sdk")

    tracker.begin("root", "agent", "writer")
    tracker.begin("tool", "tool", "search", parent="root")
    tracker.end("tool", error=Refusal("no"))
    tracker.end("root", error=Refusal("no"))
    configured.flush()

    [found] = journal.find_runs().runs
    assert (found.name, found.status, found.error) == ("writer", "failed", "Refusal: no")
    assert [call.name for call in calls(journal, found.run_id)] == ["writer", "search"]


def test_code_inside_a_call_can_use_its_scope(configured: Recorder, journal: MemoryJournal) -> None:
    tracker = CallTracker("sdk")
    with longwatch.run() as run:
        tracker.begin("agent", "agent", "writer")
        token = SCOPE.set(tracker.scope_of("agent"))
        longwatch.record("note")
        SCOPE.reset(token)
        tracker.end("agent")
    configured.flush()

    [agent] = calls(journal, run.run_id)
    [note] = [event for event in events_of(journal, run.run_id) if event.type == "note"]
    assert (note.agent_name, note.parent_call_id) == ("writer", agent.call_id)
    assert tracker.scope_of("agent") is None


def test_a_model_call_that_an_outer_layer_records_is_left_out(
    configured: Recorder, journal: MemoryJournal
) -> None:
    tracker = CallTracker("sdk")
    with longwatch.run() as run:
        token = MODEL_CALL_LAYER.set("langchain")
        tracker.begin("model", "model", "gpt-4o")
        tracker.begin("tool", "tool", "search")
        MODEL_CALL_LAYER.reset(token)
        tracker.end("model")
        tracker.end("tool")
    configured.flush()

    assert [call.kind for call in calls(journal, run.run_id)] == ["tool"]


def test_calls_may_begin_and_end_in_different_threads(configured: Recorder, journal: MemoryJournal) -> None:
    tracker = CallTracker("sdk")
    with longwatch.run() as run:
        tracker.begin("agent", "agent", "writer")

        def work(number: int) -> None:
            tracker.begin(number, "tool", f"tool-{number}", parent="agent")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(20):
            tracker.end(number)
        tracker.end("agent")
    configured.flush()

    found = calls(journal, run.run_id)
    assert {call.parent_call_id for call in found if call.kind == "tool"} == {found[0].call_id}
    assert {call.status for call in found} == {"completed"}
    assert len(found) == 21


def test_calls_that_never_end_are_dropped_and_end_their_run(
    configured: Recorder, journal: MemoryJournal
) -> None:
    tracker = CallTracker("sdk", max_open=2)

    for number in range(3):
        tracker.begin(number, "agent", f"agent-{number}")
    tracker.end(0, output="too late")
    configured.flush()

    runs = {run.name: run for run in journal.find_runs().runs}
    assert (runs["agent-0"].status, runs["agent-0"].error) == (
        "failed",
        "the end of the call was not reported",
    )
    assert {run.status for run in journal.find_runs().runs if run.name != "agent-0"} == {"running"}


def test_a_fault_of_recording_does_not_reach_the_sdk(
    configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Exception] = []
    monkeypatch.setattr(call_tracker, "report_fault", faults.append)
    tracker = CallTracker("sdk")

    tracker.begin("call", "gadget", "x")
    tracker.begin(["unhashable"], "tool", "x")  # type: ignore[arg-type]
    tracker.end("call")

    assert len(faults) == 2
