"""Events as text: nothing is lost on the way there and back, and nothing else comes in."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidEvent, InvalidInput
from longwatch.journal.codec import (
    MAX_LEVELS,
    decode_payload,
    encode_payload,
    from_line,
    from_wire,
    payload_text,
    to_line,
)
from longwatch.model.event import Event
from tests.strategies import events, payloads

LINE = {"run_id": "wf-1", "event_id": "e1", "type": "note", "occurred_at": 1000}


def event(**fields: Any) -> Event:
    return Event(**{**LINE, **fields})


def nested(levels: int) -> dict[str, object]:
    payload: dict[str, object] = {}
    for _ in range(levels - 1):
        payload = {"in": payload}
    return payload


# There and back


@given(payloads)
def test_a_payload_comes_back_as_it_was_written(payload: dict[str, object]) -> None:
    text = encode_payload(payload)
    again = decode_payload(text)

    assert again == payload
    assert encode_payload(again) == text


@given(events())
def test_an_event_comes_back_from_its_line(any_event: Event) -> None:
    line = to_line(any_event)

    assert "\n" not in line
    assert from_line(line) == any_event
    assert from_line(line.encode()) == any_event
    assert to_line(from_line(line)) == line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, '{"v":{}}'),
        ([], '{"v":[]}'),
        ("", '{"v":""}'),
        (None, '{"v":null}'),
        ("Zoë 🦊 \u2028", '{"v":"Zoë 🦊 \u2028"}'),
        (10**37, '{"v":' + "1" + "0" * 37 + "}"),
        (1.5, '{"v":1.5}'),
        (b"", '{"v":{"$bytes":""}}'),
        (b"\x00\xff", '{"v":{"$bytes":"AP8="}}'),
        (Decimal("1.10"), '{"v":{"$decimal":"1.10"}}'),
        (set(), '{"v":{"$set":[]}}'),
        ({"b", "a"}, '{"v":{"$set":["a","b"]}}'),
        ({b"b", b"a"}, '{"v":{"$set":[{"$bytes":"YQ=="},{"$bytes":"Yg=="}]}}'),
        ({"$set": [1]}, '{"v":{"$map":{"$set":[1]}}}'),
        ({"$map": {"$bytes": "x"}}, '{"v":{"$map":{"$map":{"$map":{"$bytes":"x"}}}}}'),
        ({"$set": [1], "other": 2}, '{"v":{"$set":[1],"other":2}}'),
        ({"$other": 1}, '{"v":{"$other":1}}'),
        ("$set", '{"v":"$set"}'),
    ],
)
def test_each_kind_of_value_has_one_form(value: object, text: str) -> None:
    assert encode_payload({"v": value}) == text
    assert decode_payload(text) == {"v": value}


def test_a_payload_that_resembles_a_tag_comes_back() -> None:
    lookalikes: list[dict[str, object]] = [{"$bytes": "x"}, {"$set": []}, {"$map": {}}, {"$decimal": 1}]

    assert [decode_payload(encode_payload(payload)) for payload in lookalikes] == lookalikes


def test_tuples_and_other_maps_are_stored_as_lists_and_maps() -> None:
    inner = MappingProxyType({"$set": (1, 2)})

    assert decode_payload(encode_payload(MappingProxyType({"a": (1, (2,)), "b": inner}))) == {
        "a": [1, [2]],
        "b": {"$set": [1, 2]},
    }


@given(payloads, st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_difference(payload: dict[str, object], chance: random.Random) -> None:
    assert encode_payload(shuffled(payload, chance)) == encode_payload(payload)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, chance)) for key, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    return value


def test_text_that_is_already_encoded_is_not_encoded_again() -> None:
    assert payload_text(event(payload={"a": 1}, encoded='{"known":1}')) == '{"known":1}'
    assert payload_text(event(payload={"a": 1})) == '{"a":1}'


# What cannot be stored


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        {float("nan")},
        {Decimal("Infinity")},
        {(1, 2)},
        {frozenset({1})},
        object(),
        1j,
        range(3),
        "half \ud83d",
        {"half \ud83d": 1},
        {1: "a", "b": 2},
        {(1, 2): "a"},
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_no_journal_can_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidEvent, match="the payload cannot be stored"):
        encode_payload({"v": value})


def test_a_payload_that_holds_itself_is_refused() -> None:
    circle: dict[str, object] = {}
    circle["again"] = [circle]

    with pytest.raises(InvalidEvent, match="the payload cannot be stored"):
        encode_payload(circle)


def test_a_payload_may_nest_so_deep_and_no_deeper() -> None:
    assert decode_payload(encode_payload(nested(MAX_LEVELS))) == nested(MAX_LEVELS)

    with pytest.raises(InvalidEvent, match=f"nests deeper than {MAX_LEVELS} levels"):
        encode_payload(nested(MAX_LEVELS + 1))


def test_a_wide_payload_is_not_mistaken_for_a_deep_one() -> None:
    wide: dict[str, object] = {str(number): [{}] for number in range(MAX_LEVELS)}

    assert decode_payload(encode_payload(wide)) == wide


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", '{"$set":[]}', '{"a":{"$bytes":"?"}}', '{"a":NaN}', "[" * 100_000]
)
def test_text_that_is_not_a_payload_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode_payload(text)


# Lines from elsewhere


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("note", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ('{"payload":{"a":NaN}}', "NaN is not a JSON number"),
        ('{"payload":{"a":-Infinity}}', "-Infinity is not a JSON number"),
        ("[" * 100_000, "nests deeper than 100 levels"),
        ('{"occurred_at":' + "9" * 5000 + "}", "not JSON"),
        ("null", "a JSON object, not null"),
        ("true", "a JSON object, not true or false"),
        ("[1]", "a JSON object, not an array"),
        ('"x"', "a JSON object, not text"),
        ("1.5", "a JSON object, not a number"),
    ],
)
def test_a_line_that_is_not_an_object_is_refused_with_the_reason(line: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        from_line(line)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run_id": None}, "field run_id is missing"),
        ({"event_id": None}, "field event_id is missing"),
        ({"type": None}, "field type is missing"),
        ({"occurred_at": None}, "field occurred_at is missing"),
        ({"run_id": 7}, "field run_id must be text, not a number"),
        ({"agent_name": ["writer"]}, "field agent_name must be text, not an array"),
        ({"call_id": {}}, "field call_id must be text, not an object"),
        ({"occurred_at": "1000"}, "field occurred_at must be an integer, not text"),
        ({"occurred_at": True}, "field occurred_at must be an integer, not true or false"),
        ({"occurred_at": 1000.5}, "field occurred_at must be an integer, not a number"),
        ({"ttl": "soon"}, "field ttl must be an integer, not text"),
        ({"number": [1]}, "field number must be an integer, not an array"),
        ({"payload": [1]}, "field payload must be an object, not an array"),
        ({"payload": {"$set": []}}, "field payload must be an object, not a tagged value"),
        ({"payload": {"a": {"$bytes": 1}}}, r"invalid value of \$bytes: 1"),
        ({"payload": {"a": {"$bytes": "é"}}}, r"invalid value of \$bytes"),
        ({"payload": {"a": {"$decimal": "x"}}}, r"invalid value of \$decimal: 'x'"),
        ({"payload": {"a": {"$decimal": 1}}}, r"invalid value of \$decimal: 1"),
        ({"payload": {"a": {"$set": "ab"}}}, r"invalid value of \$set: 'ab'"),
        ({"payload": {"a": {"$set": [[]]}}}, r"invalid value of \$set"),
        ({"payload": {"a": {"$map": 1}}}, r"invalid value of \$map: 1"),
        ({"payload": {"a": {"$set": "x" * 1000}}}, "…"),
        (
            {"colour": "red", "agent": "x"},
            "unknown field agent, colour; the fields of an event are run_id, event_id",
        ),
    ],
)
def test_a_line_with_a_wrong_field_is_refused_with_the_reason(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        from_line(json.dumps({**LINE, **fields}))

    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run_id": ""}, "names no run"),
        ({"run_id": "half \ud83d"}, "UTF-8 cannot hold"),
        ({"occurred_at": -1}, "whole milliseconds"),
        ({"number": 1}, "both a producer and a number"),
        ({"payload": {"a": "half \ud83d"}}, "cannot be stored"),
        ({"payload": {"a": {"$decimal": "Infinity"}}}, "cannot be stored"),
    ],
)
def test_a_line_that_breaks_a_rule_of_events_is_refused_with_the_reason(
    fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(InvalidEvent, match=reason):
        from_line(json.dumps({**LINE, **fields}))


def test_a_number_too_large_for_any_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        from_line(json.dumps(LINE)[:-1] + ',"payload":{"a":1e999}}')


def test_a_field_that_is_null_is_as_good_as_absent() -> None:
    assert from_wire({**LINE, "agent_name": None, "ttl": None, "payload": None}) == event()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)  # lone surrogates too, which json.dumps escapes
    | st.sampled_from(["$set", "$bytes", "$decimal", "$map", 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["$set", "$bytes", "$decimal", "$map"]), inner
        )
    ),
    max_leaves=8,
)
fields = st.sampled_from([*Event.__dataclass_fields__, "colour"])


@given(st.dictionaries(fields, json_values, max_size=4), st.booleans())
def test_whatever_an_object_holds_it_is_an_event_or_refused(
    given_fields: dict[str, object], whole: bool
) -> None:
    line = json.dumps({**LINE, **given_fields} if whole else given_fields)

    try:
        read = from_line(line)
    except (InvalidInput, InvalidEvent):
        return
    assert from_line(to_line(read)) == read


@given(st.text() | st.binary() | json_values.map(json.dumps))
def test_whatever_a_line_holds_it_is_refused(line: str | bytes) -> None:
    with pytest.raises((InvalidInput, InvalidEvent)):
        from_line(line)


@given(st.data(), events())
def test_a_line_with_one_character_changed_is_an_event_or_refused(data: st.DataObject, some: Event) -> None:
    line = to_line(some)
    at = data.draw(st.integers(0, len(line) - 1))

    damaged = line[:at] + data.draw(st.characters()) + line[at + 1 :]

    try:
        assert isinstance(from_line(damaged), Event)
    except (InvalidInput, InvalidEvent):
        pass
