"""Layout `workflow`: our items as the events table requirements have them, and those of other producers."""

from __future__ import annotations

import pytest

from longwatch.journal.dynamodb.workflow_layout import WorkflowLayout
from longwatch.model.event import UNREADABLE, Event
from longwatch.storage.dynamodb.values import AttributeMap, to_attribute

NOW = 1_794_736_800_000
LAYOUT = WorkflowLayout()


def foreign(**attributes: object) -> Event:
    item: AttributeMap = {name: to_attribute(value) for name, value in attributes.items()}
    item = {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": str(NOW)}, **item}
    return LAYOUT.read_event(item, "wf-1").event


def test_an_item_has_the_required_attributes_and_ours() -> None:
    event = Event(
        run_id="wf-1",
        event_id="e1",
        type="tool_call",
        occurred_at=NOW,
        agent_name="planner",
        payload={"a": 1},
        producer="p",
        number=7,
        ttl=NOW // 1000 + 86_400,
    )

    item = LAYOUT.with_key(LAYOUT.encode_event(event), event, NOW)

    assert item == {
        "workflow_id": {"S": "wf-1"},
        "timestamp": {"N": str(NOW)},
        "event_type": {"S": "tool_call"},
        "agent_name": {"S": "planner"},
        "payload": {"M": {"a": {"N": "1"}}},
        "ttl": {"N": str(NOW // 1000 + 86_400)},
        "longwatch": {"N": "1"},
        "event_id": {"S": "e1"},
        "producer": {"S": "p"},
        "number": {"N": "7"},
    }


def test_an_event_that_was_moved_keeps_its_time() -> None:
    event = Event(run_id="wf-1", event_id="e1", type="t", occurred_at=NOW)

    item = LAYOUT.with_key(LAYOUT.encode_event(event), event, NOW + 3)
    stored = LAYOUT.read_event(item, "wf-1")

    assert item["occurred_at"] == {"N": str(NOW)}
    assert (stored.event, stored.key_ms, stored.written_ms) == (event, NOW + 3, NOW)


def test_an_item_of_another_producer_is_named_by_its_key_and_its_event_id_is_a_call_id() -> None:
    event = foreign(event_type="tool_call", agent_name="a", event_id="call-9", payload={"status": "started"})

    assert event.event_id == f"key:wf-1:{NOW}"
    assert (event.call_id, event.type, event.agent_name) == ("call-9", "tool_call", "a")
    assert (event.occurred_at, event.payload) == (NOW, {"status": "started"})
    assert event.producer is None


@pytest.mark.parametrize(
    ("attributes", "payload"),
    [
        ({"payload": '{"a": [1, 2.5]}'}, {"a": [1, 2.5]}),
        ({"payload": "not JSON"}, {"payload": "not JSON"}),
        ({"payload": '{"a": NaN, "b": 1e999}'}, {"a": "NaN", "b": "1e999"}),
        ({"payload": [1]}, {"payload": [1]}),
        ({"payload": None}, {}),
        ({}, {}),
        ({"error": "boom"}, {"error_message": "boom"}),
        ({"error": "boom", "error_message": "boom"}, {"error_message": "boom"}),
        ({"error": {"code": 1}}, {"error": {"code": 1}}),
        ({"turn_number": 3, "session_id": "s"}, {"turn_number": 3, "session_id": "s"}),
        ({"status": "x", "payload": {"status": "y"}}, {"status": "y", "item_status": "x"}),
        ({"agent_name": 5}, {"agent_name": 5}),
        ({"ttl": "tomorrow"}, {"ttl": "tomorrow"}),
    ],
)
def test_nothing_of_an_item_of_another_producer_is_lost(
    attributes: dict[str, object], payload: dict[str, object]
) -> None:
    assert foreign(type="node_stop", **attributes).payload == payload


def test_either_spelling_of_the_type_will_do() -> None:
    assert foreign(event_type="a", type="b").type == "a"
    assert foreign(type="b").type == "b"


def test_an_item_without_a_type_is_an_unreadable_one_that_carries_what_was_there() -> None:
    event = foreign(what="ever", size=3)

    assert event.type == "unreadable_item"
    assert event.payload == {"item": {"what": "ever", "size": 3}}


@pytest.mark.parametrize(
    "item",
    [
        {"longwatch": {"S": "yes"}, "event_type": {"S": ""}},
        {"event_type": {"S": "t"}, "payload": {"X": "?"}},
        {"event_type": {"S": "t"}, "payload": {}},
        {"event_type": {"S": "t"}, "ttl": {"N": "abc"}},
    ],
)
def test_an_item_that_is_wrong_in_any_way_still_reads(item: AttributeMap) -> None:
    stored = LAYOUT.read_event({"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "5.5"}, **item}, "wf-1")

    assert stored.event.type == "unreadable_item"
    assert stored.key == "5.5"


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        ("1794736800000", NOW),
        ("1794736800000.75", NOW),
        ("1794736800.123", NOW + 123),
        ("1794736800", NOW),
        ("1794736800000123", NOW),
        ("1794736800000123456", NOW),
        ("17947368E+5", NOW),
        ("5", 5),
        ("-5", 0),
        ("1E+60", 253_402_300_799_999),
    ],
)
def test_a_timestamp_in_another_unit_is_understood(timestamp: str, at: int) -> None:
    stored = LAYOUT.read_event(
        {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": timestamp}, "type": {"S": "t"}}, "wf-1"
    )

    assert stored.event.occurred_at == at


def test_the_list_of_runs_is_not_a_run() -> None:
    assert LAYOUT.run_of({"workflow_id": {"S": "longwatch#runs#2026-11-15"}}) is None
    assert LAYOUT.run_of({"workflow_id": {"S": "wf-1"}}) == "wf-1"


@pytest.mark.parametrize(
    ("item", "event_id", "number"),
    [
        ({"event_type": {"N": "5"}}, "unreadable:wf-1:5.5", None),
        ({"event_id": {"S": "e"}, "producer": {"S": "p"}, "number": {"N": "3"}}, "e", 3),
        ({"event_id": {"S": "e"}, "producer": {"S": "p"}, "number": {"N": "0"}}, "e", None),
        ({"event_id": {"S": "e"}, "event_type": {"S": "t"}, "payload": {"S": "{"}}, "e", None),
    ],
)
def test_an_item_of_ours_that_cannot_be_decoded_is_an_unreadable_event(
    item: AttributeMap, event_id: str, number: int | None
) -> None:
    key: AttributeMap = {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "5.5"}, "longwatch": {"N": "1"}}

    event = LAYOUT.read_event({**key, **item}, "wf-1").event

    assert (event.type, event.event_id, event.number) == (UNREADABLE, event_id, number)
