"""The rules every event keeps, and the typed views of well-known ones."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields, replace
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given

from longwatch.errors import InvalidEvent
from longwatch.model.event import (
    CALL_WORDS,
    MAX_OCCURRED_AT,
    MAX_RUN_ID_BYTES,
    MAX_WHOLE,
    AgentSpan,
    Event,
    ToolCall,
    call_status,
    new_event_id,
    number_of,
    stored_event,
    text_of,
)
from tests.strategies import events, times


def event(**fields: object) -> Event:
    return Event(**{"run_id": "wf-1", "event_id": "e1", "type": "note", "occurred_at": 1000, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run_id": ""}, "names no run"),
        ({"event_id": ""}, "lacks its id or its type"),
        ({"type": ""}, "lacks its id or its type"),
        ({"run_id": "longwatch#runs"}, "reserved"),
        ({"run_id": "x" * (MAX_RUN_ID_BYTES + 1)}, "longer than 1024 bytes"),
        ({"run_id": "é" * (MAX_RUN_ID_BYTES // 2 + 1)}, "longer than 1024 bytes"),
        ({"run_id": 7}, "must be text"),
        ({"run_id": None}, "must be text"),
        ({"agent_name": 7}, "must be text"),
        ({"event_id": "half \ud83d"}, "UTF-8 cannot hold"),
        ({"call_id": "half \udc00"}, "UTF-8 cannot hold"),
        ({"occurred_at": -1}, "whole milliseconds"),
        ({"occurred_at": 1000.0}, "whole milliseconds"),
        ({"occurred_at": True}, "whole milliseconds"),
        ({"occurred_at": "1000"}, "whole milliseconds"),
        ({"occurred_at": MAX_OCCURRED_AT + 1}, "before the year 10000"),
        ({"producer": "p"}, "both a producer and a number"),
        ({"number": 1}, "both a producer and a number"),
        ({"producer": "p", "number": 0}, "whole number from 1"),
        ({"producer": "p", "number": 1.0}, "whole number from 1"),
        ({"producer": "p", "number": MAX_WHOLE + 1}, "whole number from 1"),
        ({"ttl": -1}, "whole seconds"),
        ({"ttl": 1.5}, "whole seconds"),
        ({"ttl": MAX_WHOLE + 1}, "whole seconds"),
        ({"payload": ["a"]}, "must be a map, not list"),
        ({"payload": None}, "must be a map, not NoneType"),
    ],
)
def test_an_event_no_journal_may_hold_is_refused_with_the_reason(
    fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(InvalidEvent, match=reason):
        event(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"run_id": "x" * MAX_RUN_ID_BYTES},
        {"run_id": "é" * (MAX_RUN_ID_BYTES // 2)},
        {"occurred_at": 0},
        {"occurred_at": MAX_OCCURRED_AT},
        {"producer": "p", "number": MAX_WHOLE},
        {"ttl": 0},
        {"ttl": MAX_WHOLE},
        {"payload": MappingProxyType({"a": 1})},
        {"agent_name": "Zoë 🦊"},
    ],
)
def test_an_event_at_the_edge_of_what_is_allowed_is_accepted(fields: dict[str, object]) -> None:
    made = event(**fields)

    assert {name: getattr(made, name) for name in fields} == fields


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        event().type = "other"  # type: ignore[misc]


@given(events())
def test_an_event_can_be_copied_pickled_and_put_into_a_set(any_event: Event) -> None:
    assert pickle.loads(pickle.dumps(any_event)) == any_event
    assert copy.deepcopy(any_event) == any_event
    assert any_event in {any_event}


def test_events_without_a_payload_can_go_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(event())) == event()


def test_the_text_of_a_payload_makes_no_difference_between_events() -> None:
    assert event(encoded="{}") == event()
    assert "encoded" not in repr(event(encoded="{}"))


def test_events_are_ordered_by_time_then_producer_then_number_then_id() -> None:
    in_order = [
        event(occurred_at=999, event_id="z", producer="z", number=9),
        event(event_id="a"),
        event(event_id="b"),
        event(event_id="y", producer="p", number=2),
        event(event_id="x", producer="p", number=10),
        event(event_id="w", producer="q", number=1),
        event(occurred_at=1001, event_id="a"),
    ]

    assert [one.order for one in in_order] == sorted(one.order for one in in_order)


@given(times, times)
def test_new_ids_sort_by_time(one: int, other: int) -> None:
    earlier, later = sorted([one, other])

    assert earlier == later or new_event_id(earlier) < new_event_id(later)


def test_new_ids_of_one_millisecond_differ() -> None:
    ids = {new_event_id(1000) for _ in range(1000)}

    assert len(ids) == 1000
    assert {len(name) for name in ids} == {32}


@pytest.mark.parametrize(("word", "status"), CALL_WORDS.items())
def test_every_spelling_of_a_call_status_is_read(word: str, status: str) -> None:
    assert call_status(word) == call_status(word.upper()) == status


@pytest.mark.parametrize("word", ["started", "completed", "failed", "skipped", "cancelled"])
def test_our_own_statuses_and_unknown_ones_stay(word: str) -> None:
    assert call_status(word) == word


def test_a_tool_call_is_read_in_our_own_spelling() -> None:
    payload = {
        "system": "web",
        "operation": "search",
        "status": "failed",
        "input": {"q": 1},
        "output": [1],
        "error_message": "boom",
        "duration_ms": 12.5,
    }

    call = ToolCall.of(event(type="tool_call", agent_name="writer", call_id="c1", payload=payload))

    assert call == ToolCall("c1", "writer", "web", "search", "failed", {"q": 1}, [1], "boom", 12.5)


@pytest.mark.parametrize(
    ("payload", "attribute", "value"),
    [
        ({"tool_name": "search"}, "operation", "search"),
        ({"name": "search"}, "operation", "search"),
        ({"operation": "", "name": "search"}, "operation", "search"),
        ({}, "operation", "tool"),
        ({"status": "success"}, "status", "completed"),
        ({"status": "ERROR"}, "status", "failed"),
        ({}, "status", "started"),
        ({"output": 0}, "status", "completed"),
        ({"error": "boom"}, "status", "failed"),
        ({"error": "boom", "status": "completed"}, "status", "completed"),
        ({"error": "boom"}, "error_message", "boom"),
        ({"error_message": "boom", "error": "other"}, "error_message", "boom"),
        ({"execution_time_ms": 3}, "duration_ms", 3),
        ({"duration_ms": 1, "execution_time_ms": 3}, "duration_ms", 1),
        ({"agent_name": "writer"}, "agent_name", "writer"),
    ],
)
def test_a_tool_call_is_read_in_other_spellings(
    payload: Mapping[str, object], attribute: str, value: object
) -> None:
    call = ToolCall.of(event(type="tool_call", payload=payload))

    assert getattr(call, attribute) == value


@pytest.mark.parametrize(
    ("type", "payload", "attribute", "value"),
    [
        ("agent_start", {}, "status", "started"),
        ("agent_start", {"status": "completed"}, "status", "started"),
        ("agent_start", {}, "ended", False),
        ("agent_end", {}, "ended", True),
        ("agent_end", {}, "status", "completed"),
        ("agent_end", {"status": "success"}, "status", "completed"),
        ("agent_end", {"error": "boom"}, "status", "failed"),
        ("agent_end", {"error_message": "boom"}, "error_message", "boom"),
        ("agent_end", {"agent_name": "writer"}, "agent_name", "writer"),
        ("agent_end", {"node_name": "writer"}, "agent_name", "writer"),
        ("agent_end", {}, "agent_name", "agent"),
        ("agent_end", {"role": "editor"}, "role", "editor"),
        ("agent_end", {"output": "text"}, "output", "text"),
        ("agent_end", {"execution_time_ms": 3}, "duration_ms", 3),
    ],
)
def test_an_agent_span_is_read_in_every_spelling(
    type: str, payload: Mapping[str, object], attribute: str, value: object
) -> None:
    span = AgentSpan.of(event(type=type, payload=payload))

    assert getattr(span, attribute) == value


def test_the_name_on_the_event_beats_the_one_in_its_payload() -> None:
    named = event(type="agent_end", agent_name="writer", payload={"agent_name": "critic"})

    assert AgentSpan.of(named).agent_name == ToolCall.of(named).agent_name == "writer"


def test_only_text_is_read_as_text() -> None:
    assert text_of({"a": 1, "b": "", "c": "found"}, "a", "b", "c", "d") == "found"
    assert text_of({"a": 1}, "a", "b") is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (2.5, 2.5),
        (Decimal("2.5"), 2.5),
        (True, None),
        ("3", None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("NaN"), None),
        (Decimal("sNaN"), None),
        (Decimal("1e400"), None),
        (10**400, None),
    ],
)
def test_only_finite_numbers_are_read_as_numbers(value: object, number: float | None) -> None:
    assert number_of({"a": value}, "a") == number


def test_an_event_made_of_stored_values_is_like_any_other() -> None:
    made = Event(
        run_id="wf-1", event_id="e", type="t", occurred_at=1, payload={"a": 1}, producer="p", number=2
    )
    values = tuple(getattr(made, each.name) for each in fields(Event))

    stored = stored_event(values)

    assert type(stored) is Event
    assert stored == made
    assert hash(stored) == hash(made)
    assert pickle.loads(pickle.dumps(stored)) == made
    assert replace(stored, type="other").type == "other"
    with pytest.raises(FrozenInstanceError):
        stored.type = "other"  # type: ignore[misc]
