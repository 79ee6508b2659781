"""What the digest of an event covers, and which payloads are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from longwatch.journal.codec import (
    DIGEST_HEX_DIGITS,
    canonical,
    decode_payload,
    digest,
    same_content,
)
from longwatch.model.event import Event
from tests.strategies import events, values

LINE = {"run_id": "wf-1", "event_id": "e1", "type": "note", "occurred_at": 1000}


def event(**fields: Any) -> Event:
    return Event(**{**LINE, **fields})


OTHER: Mapping[str, object] = {
    "run_id": "wf-2",
    "event_id": "e2",
    "type": "other",
    "occurred_at": 1001,
    "agent_name": "critic",
    "payload": {"a": 2},
    "call_id": "c2",
    "parent_call_id": "c3",
    "producer": "q",
    "number": 2,
    "previous_digest": "0" * 32,
    "trace_id": "1" * 32,
}
STORED_ONLY = {"ttl": 5, "encoded": '{"a":1}'}
FULL = event(payload={"a": 1}, producer="p", number=1)


def test_every_field_is_covered_by_the_tests_of_the_digest() -> None:
    assert OTHER.keys() | STORED_ONLY.keys() == Event.__dataclass_fields__.keys()


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_the_digest_changes_with_every_field_that_has_content(name: str, value: object) -> None:
    changed = replace(FULL, **{name: value})  # type: ignore[arg-type]

    assert digest(changed) != digest(FULL)
    assert not same_content(changed, FULL)


@pytest.mark.parametrize(("name", "value"), STORED_ONLY.items())
def test_the_digest_does_not_change_with_how_an_event_is_stored(name: str, value: object) -> None:
    changed = replace(FULL, **{name: value})  # type: ignore[arg-type]

    assert digest(changed) == digest(FULL)
    assert same_content(changed, FULL)


def test_the_digest_of_an_event_stays_what_it_is_from_version_to_version() -> None:
    sample = event(
        payload={"b": [1, 2.5, None, True], "a": "Zoë\n"}, agent_name='"w"', producer="p", number=1
    )

    assert canonical(sample) == (
        '["wf-1","e1","note",1000,"\\"w\\"",null,null,"p",1,null,null]{"a":"Zoë\\n","b":[1,2.5,null,true]}'
    )
    assert digest(sample) == "5c9374728a4228f0fcfc7d4a667b772e"


@given(events())
def test_a_digest_is_short_and_the_canonical_form_is_two_json_values(any_event: Event) -> None:
    head, end = json.JSONDecoder().raw_decode(canonical(any_event))

    assert len(digest(any_event)) == DIGEST_HEX_DIGITS
    assert head[:4] == [any_event.run_id, any_event.event_id, any_event.type, any_event.occurred_at]
    assert decode_payload(canonical(any_event)[end:]) == any_event.payload


def test_two_texts_cannot_trade_characters_without_changing_the_digest() -> None:
    one = event(agent_name='a","b', call_id="c")
    other = event(agent_name="a", call_id='b","c')

    assert digest(one) != digest(other)
    assert digest(event(agent_name=None)) != digest(event(agent_name="null"))


@given(values, values)
def test_only_equal_payloads_are_the_same_content(one: object, other: object) -> None:
    same = same_content(event(payload={"v": one}), event(payload={"v": other}))

    assert same_content(event(payload={"v": one}), event(payload={"v": one}))
    assert not same or one == other


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (1, 1.0, True),
        (Decimal("1.0"), 1, True),
        ([1, {"a": 2.0}], [1.0, {"a": 2}], True),
        ({1, 2}, {1.0, 2.0}, True),
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": 1}, {"a": True}, False),
        ([1], [1, 1], False),
        ({"a": 1}, {"b": 1}, False),
        ("1", 1, False),
        (None, 0, False),
        (b"a", "a", False),
        ([1], {1}, False),
    ],
)
def test_numbers_are_compared_by_value_and_true_is_not_a_number(
    one: object, other: object, is_same: bool
) -> None:
    assert same_content(event(payload={"v": one}), event(payload={"v": other})) is is_same
