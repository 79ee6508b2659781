"""Layout `session`: our items as the session journal requirements have them, and those of other producers."""

from __future__ import annotations

import pytest

from longwatch.journal.dynamodb.layout import NO_TIME
from longwatch.journal.dynamodb.session_layout import SessionLayout
from longwatch.model.event import Event
from longwatch.storage.dynamodb.values import AttributeMap, to_attribute

NOW = 1_794_736_800_000
LAYOUT = SessionLayout()


def foreign(sort: str = "EVENT#2026-11-15T10:00:00.000Z", **attributes: object) -> Event:
    item: AttributeMap = {name: to_attribute(value) for name, value in attributes.items()}
    return LAYOUT.read_event({"PK": {"S": "SESSION#s-1"}, "SK": {"S": sort}, **item}, "s-1").event


def test_an_item_has_the_required_attributes_and_ours() -> None:
    event = Event(
        run_id="s-1",
        event_id="e1",
        type="AGENT_INVOCATION_FAILED",
        occurred_at=NOW,
        payload={"error_message": "ValueError: no"},
        call_id="c",
        producer="p",
        number=7,
    )

    item = LAYOUT.with_key(LAYOUT.encode_event(event), event, NOW + 1)

    assert item == {
        "PK": {"S": "SESSION#s-1"},
        "SK": {"S": "EVENT#2026-11-15T10:00:00.001Z"},
        "Status": {"S": "AGENT_INVOCATION_FAILED"},
        "Timestamp": {"S": "2026-11-15T10:00:00.000Z"},
        "ErrorMessage": {"S": "ValueError: no"},
        "Payload": {"M": {"error_message": {"S": "ValueError: no"}}},
        "Longwatch": {"N": "1"},
        "EventId": {"S": "e1"},
        "CallId": {"S": "c"},
        "Producer": {"S": "p"},
        "Number": {"N": "7"},
    }
    assert LAYOUT.read_event(item, "s-1").event == event


def test_a_failure_without_a_message_still_has_one_for_others_and_none_for_us() -> None:
    event = Event(run_id="s-1", event_id="e1", type="TASK_plan_FAILED", occurred_at=NOW)

    item = LAYOUT.with_key(LAYOUT.encode_event(event), event, NOW)

    assert item["ErrorMessage"] == {"S": "no message"}
    assert LAYOUT.read_event(item, "s-1").event == event


def test_a_long_message_is_copied_in_part_and_stored_whole() -> None:
    event = Event(
        run_id="s-1", event_id="e", type="x", occurred_at=NOW, payload={"error_message": "x" * 100_000}
    )

    item = LAYOUT.with_key(LAYOUT.encode_event(event), event, NOW)

    assert len(item["ErrorMessage"]["S"]) < 5_000
    assert LAYOUT.read_event(item, "s-1").event == event


def test_an_item_of_another_producer_reads_fine() -> None:
    event = foreign(
        Status="AGENT_ENTRYPOINT_FAILED",
        Timestamp="2026-11-15T10:00:00.250Z",
        ErrorMessage="boom",
        Region="eu-west-1",
    )

    assert event.event_id == "key:s-1:EVENT#2026-11-15T10:00:00.000Z"
    assert (event.type, event.occurred_at) == ("AGENT_ENTRYPOINT_FAILED", NOW + 250)
    assert event.payload == {"error_message": "boom", "Region": "eu-west-1"}


@pytest.mark.parametrize(
    ("sort", "at", "key_ms"),
    [
        ("EVENT#2026-11-15T10:00:00.123456Z", NOW + 123, NOW + 123),
        ("EVENT#2026-11-15T10:00:00.123456789Z", NOW + 123, NOW + 123),
        ("EVENT#2026-11-15T10:00:00+00:00", NOW, NOW),
        ("EVENT#2026-11-15T12:00:00.5+02:00", NOW + 500, NOW + 7_200_500),
        ("EVENT#2026-11-15T10:00:00", NOW, NOW),
        ("EVENT#2026-11-15T10:00:00.001Z#abc", NOW + 1, NOW + 1),
        ("EVENT#1794736800000", NOW, NO_TIME),
        ("EVENT#2026-02-31T10:00:00Z", 0, NO_TIME),
        ("EVENT#abc", 0, NO_TIME),
        ("EVENT#", 0, NO_TIME),
    ],
)
def test_a_sort_key_in_another_form_is_understood(sort: str, at: int, key_ms: int) -> None:
    stored = LAYOUT.read_event({"PK": {"S": "SESSION#s-1"}, "SK": {"S": sort}, "Status": {"S": "X"}}, "s-1")

    assert (stored.event.occurred_at, stored.key_ms) == (at, key_ms)
    assert stored.event.event_id == f"key:s-1:{sort}"


@pytest.mark.parametrize(
    "timestamp", [1_794_736_800, 1_794_736_800_000, "1794736800000", "2026-11-15T10:00:00+00:00"]
)
def test_a_timestamp_attribute_in_another_form_is_understood(timestamp: object) -> None:
    assert foreign("EVENT#x", Status="X", Timestamp=timestamp).occurred_at == NOW


def test_bounds_hold_every_form_of_the_second() -> None:
    low, high = LAYOUT.low(NOW + 999)["S"], LAYOUT.high(NOW)["S"]

    for form in ("", "Z", "+00:00", ".000Z", ".999999Z", ".5+02:00", "Z#suffix"):
        assert low <= f"EVENT#2026-11-15T10:00:00{form}" <= high
    assert not low <= "EVENT#2026-11-15T09:59:59.999Z"
    assert LAYOUT.low(0)["S"] < "EVENT#0" < LAYOUT.high()["S"]


def test_an_item_without_a_status_is_an_unreadable_one() -> None:
    assert foreign(Whatever=1).type == "unreadable_item"


def test_only_events_of_sessions_belong_to_runs() -> None:
    def run(partition: str, sort: str) -> str | None:
        return LAYOUT.run_of({"PK": {"S": partition}, "SK": {"S": sort}})

    assert run("SESSION#s-1", "EVENT#2026-11-15T10:00:00.000Z") == "s-1"
    assert run("SESSION#s-1", "META") is None
    assert run("RUNS#2026-11-15", "RUN#2026-11-15T10:00:00.000Z#s-1") is None
    assert run("RUN#s-1", "LISTED") is None


def test_the_entry_of_a_run_with_a_long_id_fits_a_sort_key() -> None:
    key = LAYOUT.entry_key("2026-11-15", NOW, "ü" * 512)

    assert len(key["SK"]["S"].encode()) <= 1_024
