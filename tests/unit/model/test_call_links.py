"""The parents and agents of calls whose spans arrived in any order."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.event import Event
from longwatch.model.run import Run, fold
from tests import strategies


def event(type: str, call_id: str, parent: str | None, *, agent: str | None = None, at: int = 1) -> Event:
    return Event(
        run_id="r",
        event_id=f"{type}-{call_id}-{parent}",
        type=type,
        occurred_at=at,
        agent_name=agent,
        call_id=call_id,
        parent_call_id=parent,
    )


def folded(*events: Event) -> Run:
    run = fold(events)
    assert run is not None
    return run


def test_a_call_is_inside_the_nearest_recorded_call() -> None:
    run = folded(
        event("tool_call", "tool", "http"),
        event("call_link", "http", "cycle"),
        event("call_link", "cycle", "agent"),
        event("agent_start", "agent", "root", agent="Ada"),
        event("call_link", "root", None),
    )

    assert run.calls["tool"].parent_call_id == "agent"
    assert run.calls["tool"].agent_name == "Ada"
    assert run.calls["agent"].parent_call_id is None


def test_a_call_whose_parent_has_not_arrived_names_the_missing_span() -> None:
    run = folded(event("tool_call", "tool", "http"), event("call_link", "http", "agent"))

    assert run.calls["tool"].parent_call_id == "agent"
    assert run.calls["tool"].agent_name is None


def test_links_in_a_circle_lead_nowhere() -> None:
    run = folded(event("tool_call", "tool", "a"), event("call_link", "a", "b"), event("call_link", "b", "a"))

    assert run.calls["tool"].parent_call_id is None


def test_calls_of_a_recorder_keep_what_they_state() -> None:
    numbered = Event(
        run_id="r",
        event_id="e",
        type="tool_call",
        occurred_at=1,
        call_id="tool",
        parent_call_id="http",
        producer="p",
        number=1,
    )

    run = folded(numbered, event("call_link", "http", "agent"))

    assert run.calls["tool"].parent_call_id == "http"


@given(data=st.data(), events=strategies.linked_calls())
def test_any_order_of_arrival_gives_the_same_tree(data: st.DataObject, events: Sequence[Event]) -> None:
    run: Run | None = None
    for batch in data.draw(strategies.batches(events)):
        run = fold(batch, run)

    assert run == fold(events)
    assert run is not None
    assert run.calls == folded(*events).calls
