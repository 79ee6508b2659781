"""Values as DynamoDB holds them."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidEvent
from longwatch.storage.dynamodb.values import from_attribute, number_from, size_of, to_attribute, to_map


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (None, {"NULL": True}),
        (True, {"BOOL": True}),
        (0, {"N": "0"}),
        (-0.0, {"N": "0"}),
        (1.0, {"N": "1"}),
        (0.1, {"N": "0.1"}),
        (1e22, {"N": "10000000000000000000000"}),
        (2.0**60, {"N": "1152921504606846976"}),
        (Decimal("1.50"), {"N": "1.5"}),
        (10**38 - 1, {"N": "9" * 38}),
        (Level.HIGH, {"N": "3"}),
        ("", {"S": ""}),
        ("Grüße", {"S": "Grüße"}),
        (Colour.RED, {"S": "red"}),
        (b"\x00", {"B": b"\x00"}),
        (bytearray(b"x"), {"B": b"x"}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ((), {"L": []}),
        ({"a": {}}, {"M": {"a": {"M": {}}}}),
        ({2: "a", True: "b", None: "c"}, {"M": {"2": {"S": "a"}, "true": {"S": "b"}, "null": {"S": "c"}}}),
        ({"b", "a"}, {"SS": ["a", "b"]}),
        (frozenset({2, 1.5}), {"NS": ["1.5", "2"]}),
        ({Decimal("0.1"), 0.1}, {"NS": ["0.1"]}),
        ({b"b", b"a"}, {"BS": [b"a", b"b"]}),
    ],
)
def test_a_value_is_written_as(value: object, attribute: dict[str, object]) -> None:
    assert to_attribute(value) == attribute


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "inf"),
        (Decimal("NaN"), "NaN"),
        (10**38, "38 digits"),
        pytest.param(10**5000, "38 digits", id="5000 digits"),
        (Decimal("1." + "1" * 38), "38 digits"),
        (1e-200, "1E-130"),
        (1e200, "1E-130"),
        (set(), "empty set"),
        ({"a", 1}, "mixed"),
        ({True}, "mixed"),
        ({None}, "mixed"),
        ("\ud800", "UTF-8"),
        ({"\ud800": 1}, "UTF-8"),
        ({(1, 2): "x"}, "keys must be strings"),
        (object(), "cannot store a value of type"),
    ],
)
def test_values_that_dynamodb_cannot_hold_are_refused(value: object, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        to_attribute(value)


def test_thirty_one_levels_can_be_held_and_no_more() -> None:
    value: object = 1
    for _ in range(30):
        value = [value]

    to_map({"levels": value})
    with pytest.raises(InvalidEvent, match="levels"):
        to_map({"levels": [value]})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("1.0", 1),
        ("1E+2", 100),
        ("0.1", 0.1),
        ("1E-100", 1e-100),
        ("1" + "0" * 100, 1e100),
        ("0.1234567890123456789012345678", Decimal("0.1234567890123456789012345678")),
        ("12345678901234567890123456789012345678", 12345678901234567890123456789012345678),
        ("-0", 0),
    ],
)
def test_a_number_is_read_in_its_simplest_form(text: str, number: object) -> None:
    found = number_from(text)

    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize("key", ["", "∅", "∅∅", "a∅", "∅a"])
def test_an_empty_key_is_distinguished_from_its_stand_in(key: str) -> None:
    attribute = to_map({key: 1})

    assert "" not in attribute["M"]
    assert from_attribute(attribute) == {key: 1}


@given(
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or 1e-130 <= abs(x) < 9.9e125)
)
def test_every_float_comes_back_as_the_same_number(number: float) -> None:
    assert from_attribute(to_attribute(number)) == number


def test_an_attribute_of_unknown_type_is_not_a_value() -> None:
    with pytest.raises(ValueError, match="unknown DynamoDB type"):
        from_attribute({"X": 1})
    with pytest.raises(ValueError):
        from_attribute({})


def test_the_size_counts_names_bytes_and_containers() -> None:
    assert size_of({"ab": {"S": "ü"}}) == 4
    assert size_of({"a": {"L": [{"BOOL": True}]}}) == 1 + 3 + 1 + 1
    assert size_of({"a": {"B": b"123"}, "b": {"NULL": True}}) == 4 + 2
