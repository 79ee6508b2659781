"""OTLP in JSON: every kind of value, and only clear errors whatever is sent."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidInput
from longwatch.telemetry.otlp_json import decode_logs, decode_traces

NAMES = st.sampled_from(
    [
        *(
            "resourceSpans",
            "scopeSpans",
            "spans",
            "resource",
            "attributes",
            "key",
            "value",
            "events",
            "status",
        ),
        *("resourceLogs", "scopeLogs", "logRecords", "body", "code", "flags", "name", "traceId", "spanId"),
        *("stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue"),
        *("values", "startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"),
    ]
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["1", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def span(**fields: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": 1700000000000000002}
    return {"traceId": "AB" * 16, "spanId": "cd" * 8, "name": "x", **times, **fields}


def decoded(each: dict[str, Any]) -> Any:
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [each]}]}]}
    (found,) = decode_traces(json.dumps(body).encode()).items
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"stringValue": ""}, ""),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": -1}, -1),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "Infinity"}, float("inf")),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, b"\x00\x01"),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "b"}]}}, [1, "b"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}, {"k": True}),
        ({}, None),
        ({"newValue": 1}, None),
        (None, None),
    ],
)
def test_every_kind_of_value_is_decoded(value: object, expected: object) -> None:
    found = decoded(span(attributes=[{"key": "a", "value": value}]))

    assert found.attributes == {"a": expected}


def test_ids_times_status_and_flags_are_decoded() -> None:
    found = decoded(
        span(
            parentSpanId="EF" * 8,
            status={"code": 2, "message": "no"},
            flags=0x301,
            traceState="a=b",
            events=[{"name": "exception", "attributes": [], "timeUnixNano": "1"}],
            unknown={"field": 1},
        )
    )

    assert (found.trace_id, found.span_id, found.parent_id) == ("ab" * 16, "cd" * 8, "ef" * 8)
    assert (found.start_ns, found.end_ns) == (1700000000000000001, 1700000000000000002)
    assert (found.status, found.status_message, found.trace_state) == (2, "no", "a=b")
    assert found.events == [("exception", {})]
    assert found.is_parent_remote


@pytest.mark.parametrize(("flags", "is_remote"), [(0, False), (0x1, False), (0x101, False), (0x300, True)])
def test_a_parent_is_remote_only_if_the_sender_states_it(flags: int, is_remote: bool) -> None:
    assert decoded(span(flags=flags)).is_parent_remote is is_remote


def test_an_enum_by_its_name_is_understood() -> None:
    assert decoded(span(status={"code": "STATUS_CODE_ERROR"})).status == 2


def test_values_that_nest_too_deep_are_refused() -> None:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(100):
        value = {"arrayValue": {"values": [value]}}

    with pytest.raises(InvalidInput, match="nested deeper"):
        decoded(span(attributes=[{"key": "a", "value": value}]))


@given(body=ANYTHING)
def test_whatever_is_sent_is_decoded_or_refused_as_invalid_input(body: object) -> None:
    for decode in (decode_traces, decode_logs):
        with suppress(InvalidInput):
            assert decode(json.dumps(body).encode()).rejected >= 0


@given(body=st.binary(max_size=30))
def test_bytes_that_are_not_json_are_refused_as_invalid_input(body: bytes) -> None:
    with suppress(InvalidInput):
        assert decode_traces(body).items == []
