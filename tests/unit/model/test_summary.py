"""A run in one line: how it began, how it ended, and which of two endings counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.event import Event
from longwatch.model.summary import ENDS, STARTS, STATUS_WORDS, Ending, RunSummary, Status, summarise
from tests.strategies import RUN_ID, batches, runs


def event(type: str, at: int, *, run_id: str = "wf-1", agent: str | None = None, **payload: object) -> Event:
    return Event(
        run_id=run_id, event_id=f"{type}-{at}", type=type, occurred_at=at, agent_name=agent, payload=payload
    )


def summary_of(*events: Event) -> RunSummary:
    (summary,) = summarise(events).values()
    return summary


def test_a_run_without_an_ending_is_running() -> None:
    run = summary_of(event("workflow_start", 10, name="report"), event("tool_call", 30, agent="writer"))

    assert (run.status, run.ended_at, run.error) == (Status.RUNNING, None, None)
    assert (run.kind, run.name) == ("workflow", "report")
    assert (run.started_at, run.last_event_at, run.last_event_type) == (10, 30, "tool_call")
    assert (run.events, run.agents) == (2, frozenset({"writer"}))
    assert run.duration_ms(now_ms=110) == 100


def test_a_run_that_ended_lasts_no_longer() -> None:
    run = summary_of(event("workflow_start", 10), event("workflow_complete", 40), event("node_stream", 50))

    assert (run.status, run.ended_at, run.last_event_at) == (Status.SUCCEEDED, 40, 50)
    assert run.duration_ms(now_ms=10_000) == 30


def test_a_clock_that_runs_behind_makes_no_negative_duration() -> None:
    assert summary_of(event("workflow_start", 10)).duration_ms(now_ms=5) == 0


@pytest.mark.parametrize(("type", "status"), ENDS.items())
def test_every_terminal_event_ends_a_run(type: str, status: Status) -> None:
    assert summary_of(event(type, 10)).status is status


@pytest.mark.parametrize(("word", "status"), STATUS_WORDS.items())
def test_a_terminal_event_can_state_more_in_every_spelling(word: str, status: Status) -> None:
    assert summary_of(event("workflow_complete", 10, status=word)).status is status
    assert summary_of(event("workflow_error", 10, status=word.upper())).status is status


def test_an_unknown_status_leaves_the_meaning_of_the_type() -> None:
    assert summary_of(event("workflow_error", 10, status="melted")).status is Status.FAILED


@pytest.mark.parametrize("field", ["error", "error_message"])
def test_the_error_message_is_read_in_both_spellings(field: str) -> None:
    assert summary_of(event("workflow_error", 10, **{field: "boom"})).error == "boom"


COMPLETE, ERROR = "workflow_complete", "workflow_error"
ENDED, CORRECTED = "execution_ended", "execution_corrected"


@pytest.mark.parametrize(
    ("one", "other", "status", "ended_at"),
    [
        # success beats partial beats failed beats cancelled beats unknown, whichever is first
        (event(ERROR, 10), event(COMPLETE, 20), Status.SUCCEEDED, 20),
        (event(COMPLETE, 10), event(ERROR, 20), Status.SUCCEEDED, 10),
        (event(COMPLETE, 10, status="partial"), event(COMPLETE, 20), Status.SUCCEEDED, 20),
        (event(COMPLETE, 10, status="partial"), event(ERROR, 20), Status.PARTIAL, 10),
        (event(ERROR, 10, status="cancelled"), event(ERROR, 20), Status.FAILED, 20),
        (event("SESSION_UNCONFIRMED", 10), event(ERROR, 20, status="cancelled"), Status.CANCELLED, 20),
        # an agent finishes while its invoker fails
        (
            event("AGENT_ENTRYPOINT_FAILED", 10),
            event("AGENT_BACKGROUND_TASK_COMPLETED", 20),
            Status.SUCCEEDED,
            20,
        ),
        # a producer's own word beats one that was written for it
        (event(COMPLETE, 10, written_for="p"), event(ERROR, 20), Status.FAILED, 20),
        (event(ERROR, 10, written_for="p"), event(COMPLETE, 20), Status.SUCCEEDED, 20),
        (event(ERROR, 10, written_for="p"), event(COMPLETE, 20, written_for="p"), Status.SUCCEEDED, 20),
        # among equals the earliest, so that ending a run twice gives one end time
        (event(COMPLETE, 10), event(COMPLETE, 20), Status.SUCCEEDED, 10),
        (event(ERROR, 10), event("SESSION_FAILED", 20), Status.FAILED, 10),
        # later truth beats everything, and the latest of it counts
        (event(ENDED, 10, status="succeeded"), event(CORRECTED, 20, status="failed"), Status.FAILED, 20),
        (event(ENDED, 30, status="succeeded"), event(CORRECTED, 20, status="failed"), Status.FAILED, 20),
        (event(CORRECTED, 10, status="succeeded"), event(CORRECTED, 20, status="failed"), Status.FAILED, 20),
    ],
)
def test_of_two_terminal_events_one_counts(one: Event, other: Event, status: Status, ended_at: int) -> None:
    for run in (
        summary_of(one, other),
        summary_of(other, one),
        summary_of(one).merged(summary_of(other)),
        summary_of(other).merged(summary_of(one)),
    ):
        assert (run.status, run.ended_at) == (status, ended_at)


@pytest.mark.parametrize(("type", "kind"), STARTS.items())
def test_every_start_names_the_kind_of_run_it_starts(type: str, kind: str) -> None:
    assert summary_of(event(type, 10)).kind == kind


def test_a_start_can_name_a_kind_a_name_and_a_parent() -> None:
    run = summary_of(event("workflow_start", 10, kind="drill", workflow_name="east", parent_run_id="wf-0"))

    assert (run.kind, run.name, run.parent_run_id) == ("drill", "east", "wf-0")


@pytest.mark.parametrize(
    ("type", "kind"),
    [("AGENT_INVOCATION_STARTED", "session"), ("TASK_load_STARTED", "session"), ("tool_call", "workflow")],
)
def test_without_a_start_the_first_event_hints_at_the_kind(type: str, kind: str) -> None:
    assert summary_of(event("note", 20), event(type, 10)).kind == kind


def test_a_start_that_arrives_late_beats_what_was_guessed() -> None:
    guessed = summary_of(event("AGENT_INVOCATION_STARTED", 10))

    run = guessed.merged(summary_of(event("workflow_start", 20, name="report")))

    assert (run.kind, run.name, run.started_at) == ("workflow", "report", 10)


def test_of_two_starts_the_earlier_counts() -> None:
    run = summary_of(event("workflow_start", 20, name="second"), event("workflow_start", 10, name="first"))

    assert run.name == "first"


def test_of_two_events_in_one_millisecond_the_last_is_decided_by_their_order() -> None:
    events = [
        Event(run_id="wf-1", event_id=f"e{n}", type=f"t{n}", occurred_at=10, producer="p", number=n)
        for n in (2, 10, 1)
    ]

    assert summary_of(*events).last_event_type == "t10"


def test_failed_tool_calls_are_counted() -> None:
    run = summary_of(
        event("tool_call", 10, status="started"),
        event("tool_call", 11, status="ERROR"),
        event("tool_call", 12, error_message="boom"),
        event("tool_call", 13, status="completed"),
        event("agent_end", 14, status="failed"),
    )

    assert run.failed_calls == 2


def test_every_run_among_the_events_has_its_own_summary() -> None:
    found = summarise([event("note", 10), event("note", 20, run_id="wf-2"), event("note", 30)])

    assert {run_id: run.events for run_id, run in found.items()} == {"wf-1": 2, "wf-2": 1}
    assert summarise([]) == {}


def test_an_event_that_ends_nothing_is_not_an_ending() -> None:
    assert Ending.of(event("note", 10)) is None


def test_merging_keeps_the_latest_edge_of_what_has_expired() -> None:
    plain = summary_of(event("note", 10))
    edges = [
        RunSummary("wf-1", plain.origin, 10, plain.last_order, "note", 0, expired_before=at) for at in (5, 9)
    ]

    assert plain.merged(edges[0]).merged(edges[1]).expired_before == 9
    assert plain.merged(plain).expired_before is None


@given(st.data(), runs())
def test_summaries_of_parts_merge_to_the_summary_of_the_whole(
    data: st.DataObject, events: list[Event]
) -> None:
    parts = [summarise(part)[RUN_ID] for part in data.draw(batches(events)) if part]

    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part) if data.draw(st.booleans()) else part.merged(merged)

    assert merged == summarise(events)[RUN_ID]


@given(runs(max_size=5), runs(max_size=5), runs(max_size=5))
def test_merging_is_commutative_and_associative(
    one: Sequence[Event], two: Sequence[Event], three: Sequence[Event]
) -> None:
    a, b, c = (
        summary_of(*[_renamed(event, mark) for event in events])
        for mark, events in (("a", one), ("b", two), ("c", three))
    )

    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))


def _renamed(event: Event, mark: str) -> Event:
    """The same event under an id of its own: no two parts of a run hold the same event."""
    return Event(
        **{
            name: getattr(event, name)
            for name in ("run_id", "type", "occurred_at", "agent_name", "payload", "producer", "number")
        },
        event_id=f"{event.event_id}{mark}",
    )


def test_the_vocabulary_is_closed() -> None:
    assert {status.value for status in Status} == {
        "pending",
        "running",
        "succeeded",
        "failed",
        "partial",
        "cancelled",
        "died",
        "unknown",
    }
