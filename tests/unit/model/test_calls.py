"""Starts and ends become calls, by their ids or by what they are about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.calls import NO_CALLS, Call, Mark, mark_of
from longwatch.model.event import Event
from longwatch.model.usage import ModelUsage
from tests.strategies import runs


def event(
    type: str, at: int, *, call_id: str | None = None, agent: str | None = None, **payload: object
) -> Event:
    return Event(
        run_id="wf-1",
        event_id=f"{type}-{at}",
        type=type,
        occurred_at=at,
        agent_name=agent,
        call_id=call_id,
        payload=payload,
    )


def calls_of(*events: Event) -> list[Call]:
    return sorted(NO_CALLS.plus(events).by_id().values(), key=lambda call: (call.started_at, call.call_id))


def spans(*events: Event) -> list[tuple[int | None, int | None]]:
    """When each call started and ended, None without an event."""
    return [
        (call.start.at if call.start else None, call.end.at if call.end else None)
        for call in calls_of(*events)
    ]


def test_a_start_and_an_end_with_one_call_id_are_one_call() -> None:
    start = event("tool_call", 10, call_id="c1", agent="writer", operation="search", status="started")
    end = event("tool_call", 25, call_id="c1", agent="writer", operation="search", status="completed")

    (call,) = calls_of(start, end)

    assert (call.call_id, call.kind, call.name, call.agent_name) == ("c1", "tool", "search", "writer")
    assert (call.status, call.started_at, call.duration_ms) == ("completed", 10, 15)


def test_a_measured_duration_beats_the_time_between_the_events() -> None:
    (call,) = calls_of(
        event("agent_start", 10, call_id="c1"), event("agent_end", 25, call_id="c1", duration_ms=14.2)
    )

    assert call.duration_ms == 14.2


def test_a_call_without_an_end_is_open() -> None:
    (call,) = calls_of(event("tool_call", 10, call_id="c1"))

    assert (call.status, call.end, call.duration_ms) == ("started", None, None)


def test_a_call_without_a_start_began_its_duration_before_its_end() -> None:
    (call,) = calls_of(
        event("tool_call", 1000, call_id="c1", status="failed", error="boom", duration_ms=40.4)
    )

    assert (call.started_at, call.status, call.duration_ms) == (960, "failed", 40.4)
    assert call.end is not None
    assert call.end.error == "boom"


def test_a_duration_longer_than_time_itself_begins_at_its_beginning() -> None:
    (call,) = calls_of(event("tool_call", 1000, call_id="c1", status="failed", duration_ms=10**300))

    assert call.started_at == 0


def test_a_call_without_a_start_or_a_measure_has_no_duration() -> None:
    (call,) = calls_of(event("tool_call", 1000, call_id="c1", status="failed"))

    assert (call.started_at, call.duration_ms) == (1000, None)


def test_an_end_stamped_before_its_start_took_no_time() -> None:
    (call,) = calls_of(event("agent_start", 30, call_id="c1"), event("agent_end", 20, call_id="c1"))

    assert call.duration_ms == 0


def test_of_two_ends_the_earlier_counts() -> None:
    (call,) = calls_of(
        event("agent_end", 30, call_id="c1", status="failed"),
        event("agent_start", 10, call_id="c1"),
        event("agent_end", 20, call_id="c1"),
    )

    assert (call.status, call.duration_ms) == ("completed", 10)


def test_fields_that_only_the_end_has_are_part_of_the_call() -> None:
    start = event("tool_call", 10, call_id="c1")
    end = Event(
        run_id="wf-1",
        event_id="end",
        type="tool_call",
        occurred_at=20,
        agent_name="writer",
        call_id="c1",
        parent_call_id="c0",
        payload={"status": "completed"},
    )

    (call,) = calls_of(start, end)

    assert (call.agent_name, call.parent_call_id) == ("writer", "c0")


def test_an_agent_that_works_twice_without_call_ids_has_two_spans() -> None:
    assert spans(
        event("agent_start", 10, agent="writer"),
        event("agent_end", 20, agent="writer"),
        event("agent_start", 30, agent="writer"),
        event("agent_end", 40, agent="writer"),
    ) == [(10, 20), (30, 40)]


def test_a_node_without_call_ids_is_paired_by_its_id() -> None:
    events = [
        event("node_start", 10, node_id="n1", node_name="Plan"),
        event("node_start", 11, node_id="n2", node_name="Write"),
        event("node_stop", 20, node_id="n1", node_name="Plan", status="skipped"),
        event("node_stop", 30, node_id="n2", node_name="Write", error="boom"),
    ]

    assert [(call.name, call.kind, call.status) for call in calls_of(*events)] == [
        ("Plan", "node", "skipped"),
        ("Write", "node", "failed"),
    ]


def test_a_tool_without_call_ids_is_paired_by_agent_and_operation() -> None:
    assert spans(
        event("tool_call", 10, agent="writer", operation="search"),
        event("tool_call", 11, agent="critic", operation="search"),
        event("tool_call", 20, agent="critic", operation="search", status="completed"),
        event("tool_call", 30, agent="writer", operation="search", status="completed"),
    ) == [(10, 30), (11, 20)]


def test_an_agent_started_again_after_a_crash_leaves_its_first_span_open() -> None:
    assert spans(
        event("agent_start", 10, agent="writer"),
        event("agent_start", 30, agent="writer"),
        event("agent_end", 40, agent="writer"),
    ) == [(10, None), (30, 40)]


def test_an_end_without_any_start_is_a_call_of_its_own() -> None:
    assert spans(event("agent_end", 20, agent="writer"), event("agent_start", 30, agent="writer")) == [
        (None, 20),
        (30, None),
    ]


def test_a_late_start_finds_its_end() -> None:
    ended = NO_CALLS.plus([event("agent_end", 20, agent="writer")])

    whole = ended.plus([event("agent_start", 10, agent="writer")])

    assert [(call.started_at, call.status) for call in whole.by_id().values()] == [(10, "completed")]


def test_calls_without_an_id_are_named_by_their_first_event() -> None:
    (call,) = calls_of(event("agent_start", 10, agent="writer"), event("agent_end", 20, agent="writer"))

    assert call.call_id == "agent:agent_start-10"


@pytest.mark.parametrize("type", ["workflow_start", "node_stream", "note", "AGENT_INVOCATION_STARTED"])
def test_other_events_are_not_part_of_a_call(type: str) -> None:
    assert mark_of(event(type, 10, call_id="c1")) is None


def test_a_call_without_events_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="neither a start nor an end"):
        Call("c1")


marks = st.builds(
    Mark,
    order=st.tuples(st.integers(0, 3), st.sampled_from(["", "p"]), st.integers(0, 2), st.uuids().map(str)),
    kind=st.sampled_from(["agent", "tool"]),
    name=st.sampled_from(["a", "b"]),
    status=st.sampled_from(["started", "completed", "failed"]),
    agent_name=st.sampled_from([None, "writer", "critic"]),
    parent_call_id=st.sampled_from([None, "c0"]),
)
halves = marks.map(lambda mark: Call.of("c1", mark))


@given(halves, halves, halves)
def test_parts_of_a_call_merge_in_any_order_and_grouping(one: Call, two: Call, three: Call) -> None:
    assert one.merged(two) == two.merged(one)
    assert one.merged(two).merged(three) == one.merged(two.merged(three))
    assert one.merged(one) == one


@given(runs())
def test_every_start_and_end_without_an_id_is_in_exactly_one_call(events: list[Event]) -> None:
    unnamed = [event for event in events if event.call_id is None]
    expected = sorted(mark.order for event in unnamed if (found := mark_of(event)) for mark in [found[1]])

    calls = NO_CALLS.plus(unnamed).by_id().values()

    assert sorted(mark.order for call in calls for mark in (call.start, call.end) if mark) == expected


def test_a_tool_that_a_turn_uses_is_a_call_from_its_use_to_its_result() -> None:
    use = event("block", 10, call_id="u1", kind="tool_use", tool_name="Bash", tool_use_id="u1", parameters={})
    result = event("block", 35, call_id="u1", kind="tool_result", tool_use_id="u1", error="no such file")
    words = event("block", 20, kind="content", text="hm")

    (call,) = calls_of(words, result, use)

    assert (call.kind, call.name, call.status, call.duration_ms) == ("tool", "Bash", "failed", 25)
    assert call.end is not None
    assert call.end.error == "no such file"


def test_a_call_without_an_end_is_abandoned_once_its_run_has_ended() -> None:
    begun = Mark((1, "", 0, "a"), "tool", "search", "started")
    done = Mark((2, "", 0, "b"), "tool", "search", "completed")

    assert Call("c", start=begun).status_in(run_has_ended=False) == "started"
    assert Call("c", start=begun).status_in(run_has_ended=True) == "abandoned"
    assert Call("c", start=begun, end=done).status_in(run_has_ended=True) == "completed"


def model_call(
    at: int, call_id: str, recorded_by: str, *, parent: str | None = None, **end: object
) -> list[Event]:
    """The start and the end of a call of a model, by one of the layers that see it."""
    moments = [("started", at, {}), ("completed", at + 5, {"response_id": "r-1", **end})]
    return [
        Event(
            run_id="wf-1",
            event_id=f"{call_id}-{status}",
            type="model_call",
            occurred_at=moment,
            call_id=call_id,
            parent_call_id=parent,
            payload={"status": status, "model": "gpt-4o", "recorded_by": recorded_by, **payload},
        )
        for status, moment, payload in moments
    ]


ADAPTER = model_call(10, "adapter", "langchain", parent="agent", finish_reasons=["stop"])
CLIENT = model_call(11, "client", "openai", parent="adapter", input_tokens=7, output_tokens=2)
SPAN = model_call(12, "span", "otel", parent="client", provider="openai", input_tokens=8, output_tokens=3)


@given(st.permutations([*ADAPTER, *CLIENT, *SPAN]))
def test_records_of_one_response_are_the_call_of_the_outermost_layer(arrived: list[Event]) -> None:
    (call,) = calls_of(*arrived)

    assert (call.call_id, call.parent_call_id, call.started_at) == ("adapter", "agent", 10)
    facts = call.model
    assert facts is not None
    assert (facts.recorded_by, facts.provider, facts.finish_reasons) == ("langchain", "openai", ("stop",))
    assert facts.usage == ModelUsage(7, 2)


def test_a_client_s_record_comes_before_a_span_s() -> None:
    (call,) = calls_of(*SPAN, *CLIENT)

    assert (call.call_id, call.parent_call_id) == ("client", "adapter")


def test_calls_below_a_record_that_is_left_out_belong_to_the_one_that_stays() -> None:
    inner = Event(
        run_id="wf-1",
        event_id="i",
        type="tool_call",
        occurred_at=13,
        call_id="inner",
        parent_call_id="span",
        payload={"status": "started"},
    )

    _, below = calls_of(*CLIENT, *SPAN, inner)

    assert (below.call_id, below.parent_call_id) == ("inner", "client")


def test_a_record_that_names_the_call_of_its_response_needs_no_response_id() -> None:
    first = model_call(10, "one", "openai", response_id=None)
    second = model_call(11, "two", "otel", response_id=None, same_as="one")

    (call,) = calls_of(*first, *second)

    assert call.call_id == "one"


def test_calls_of_one_layer_with_one_response_id_are_two() -> None:
    again = model_call(30, "again", "openai")

    assert [call.call_id for call in calls_of(*CLIENT, *again)] == ["client", "again"]


def test_a_call_has_a_preview_of_its_arguments_and_of_its_result() -> None:
    (call,) = calls_of(
        event("tool_call", 10, call_id="c1", status="started", input={"query": "gas", "timeout": 3}),
        event("tool_call", 20, call_id="c1", status="completed", output=[1, 2]),
    )

    assert (call.input_preview, call.output_preview, call.preview) == ("gas", "1, 2", "gas → 1, 2")


def test_the_preview_of_a_failed_call_ends_with_its_error() -> None:
    (call,) = calls_of(
        event("tool_call", 20, call_id="c1", status="failed", input="x", error_message="E: a\nb"),
    )

    assert (call.input_preview, call.output_preview, call.preview) == ("x", None, "x → E: a b")


def test_fields_of_a_producer_without_input_and_output_are_previewed() -> None:
    (call,) = calls_of(
        event("tool_call", 10, call_id="c1", status="started", ticker="ACME"),
        event("tool_call", 20, call_id="c1", status="completed", rows=12),
    )

    assert call.preview == "ACME → rows=12"
