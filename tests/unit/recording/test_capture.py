"""Whatever Python can hold becomes something that every journal can store."""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.journal.codec import MAX_LEVELS, decode_payload, encode_payload
from longwatch.recording.capture import (
    FULL,
    SUMMARY,
    Capture,
    CaptureLimits,
    capture_fields,
    capture_value,
    error_text,
)
from longwatch.recording.secret_names import REDACTED, SecretNames
from longwatch.storage.dynamodb.values import to_map

SECRETS = SecretNames()


def captured(value: object, limits: CaptureLimits = FULL) -> object:
    return Capture(limits, SECRETS).value(value)


class Colour(Enum):
    RED = "red"
    PALE = (1, 2.5)


class Level(IntEnum):
    HIGH = 3


@dataclass
class Order:
    number: int
    password: str = "hunter2"
    lines: list[str] = field(default_factory=list)


Point = namedtuple("Point", "x y")


class Model:
    """The interface of pydantic's models."""

    def model_dump(self) -> dict[str, object]:
        return {"a": 1, "api_key": "k"}


class Sullen:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Named(str):
    __slots__ = ()


def function() -> None: ...


@pytest.mark.parametrize(
    ("value", "stand_in"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (Named("text"), "text"),
        (7, 7),
        (1.5, 1.5),
        (2.0, 2),
        (-0.0, 0),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (5e-324, "5e-324"),
        (sys.float_info.max, "1.7976931348623157e+308"),
        (10**38 - 1, 10**38 - 1),
        (10**38, "1" + "0" * 38),
        (-(10**38), "-1" + "0" * 38),
        (Decimal("1.10"), 1.1),
        (Decimal("3.00"), 3),
        (Decimal("0.1234567890123456789"), Decimal("0.1234567890123456789")),
        (Decimal("9" * 38), 10**38 - 1),
        (Decimal("1." + "1" * 37 + "0"), Decimal("1." + "1" * 37)),
        (Decimal("1." + "1" * 38), "1." + "1" * 38),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "sNaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (Decimal("1E+126"), "1E+126"),
        (Decimal("1E-131"), "1E-131"),
        (Decimal("1E+99999"), "1E+99999"),
        (Decimal("0E-500"), 0),
        (Fraction(1, 3), "Fraction(1, 3)"),
        (1 + 2j, "(1+2j)"),
        (b"raw", b"raw"),
        (bytearray(b"raw"), b"raw"),
        (memoryview(b"raw"), b"raw"),
        ((1, 2), [1, 2]),
        ({1, 2, 3}, {1, 2, 3}),
        ({1, 2.5, Decimal("0.1234567890123456789")}, {1, 2.5, Decimal("0.1234567890123456789")}),
        ({"a"}, {"a"}),
        ({b"a"}, {b"a"}),
        (set(), "set()"),
        (frozenset(), "set()"),
        ({1, "a"}, ["a", 1]),
        ({True, "a"}, ["a", True]),
        ({None}, [None]),
        ({float("nan")}, {"nan"}),
        ({(1, 2)}, [[1, 2]]),
        ({frozenset({1})}, [{1}]),
        ({1: "a", "1": "b"}, {"1": "a", "1′1": "b"}),
        ({None: 1, (1, 2): 2}, {"None": 1, "(1, 2)": 2}),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        (Colour.PALE, [1, 2.5]),
        (Level.HIGH, 3),
        (Point(1, [2]), {"x": 1, "y": [2]}),
        (Order(5), {"number": 5, "password": REDACTED, "lines": []}),
        (Model(), {"a": 1, "api_key": REDACTED}),
        (datetime(2026, 11, 15, 10, tzinfo=UTC), "2026-11-15T10:00:00+00:00"),
        (date(2026, 11, 15), "2026-11-15"),
        (time(10, 30), "10:30:00"),
        (timedelta(minutes=1.5), 90),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a/b"), "a/b"),
        (ValueError("bad"), "ValueError: bad"),
        (KeyError(), "KeyError"),
        (int, "<class int>"),
        (function, "<function function>"),
        (Sullen(), "<Sullen that cannot be shown: RuntimeError>"),
        (range(3), "range(0, 3)"),
        ("\ud800", "\\ud800"),
        ({"\udcff": "a\udc80b"}, {"\\udcff": "a\\udc80b"}),
        (Path("bad\udcff"), "bad\\udcff"),
    ],
)
def test_a_value_is_copied_or_has_a_readable_stand_in(value: object, stand_in: object) -> None:
    found = captured(value)

    assert found == stand_in
    assert type(found) is type(stand_in)
    assert decode_payload(encode_payload({"v": found})) == {"v": found}


def test_a_number_too_long_to_be_written_is_described_by_its_size() -> None:
    assert captured(10**5000) == "<int of 16610 bits>"


def test_an_iterator_is_not_consumed() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    steps = numbers()

    captured(steps)

    assert next(steps) == 1


def test_a_list_that_contains_itself_is_marked() -> None:
    loop: list[Any] = [1]
    loop.append({"again": loop})

    assert captured(loop) == [1, {"again": "[list that contains itself]"}]


def test_the_same_list_twice_is_not_a_cycle() -> None:
    shared = [1]

    assert captured([shared, shared]) == [[1], [1]]


def test_objects_that_contain_each_other_end_somewhere() -> None:
    one, other = Order(1), Order(2)
    one.lines, other.lines = [other], [one]  # type: ignore[list-item]

    text = encode_payload({"v": captured(one)})

    assert "[Order that contains itself]" in text


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"v": v}, lambda v: (v, v), lambda v: Order(1, v)])
def test_deep_nesting_ends_before_a_store_refuses_it(wrap: Any) -> None:
    value: object = 1
    for _ in range(18 if wrap(1) == (1, 1) else 200):
        value = wrap(value)

    to_map({"input": {"v": captured(value)}})


def test_nested_sets_neither_grow_nor_nest_without_end() -> None:
    nest: frozenset[object] = frozenset({1})
    for _ in range(200):
        nest = frozenset({nest})

    to_map({"input": {"v": captured(nest)}})


def test_a_value_that_is_too_deep_names_its_kind_and_size() -> None:
    assert captured([[[[[1, 2]]]]], SUMMARY) == [[[["[list of 2, nested too deep to keep]"]]]]


def test_long_texts_and_lists_state_how_long_they_were() -> None:
    assert captured("x" * 1500, SUMMARY) == "x" * 1000 + "…[shortened, 1500 characters]"
    assert captured(list(range(25)), SUMMARY) == [*range(20), "[5 more]"]
    assert captured(dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 0), SUMMARY) == {
        **dict.fromkeys("abcdefghijklmnopqrst", 0),
        "…": "[6 more]",
    }
    assert captured(b"x" * 1500, SUMMARY) == [b"x" * 1000, "[1500 bytes in all]"]
    assert len(captured(set(range(25)), SUMMARY)) == 21  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "part",
    [
        [0] * 10_000,
        dict.fromkeys(map(str, range(1_000))),
        set(range(10_000)),
        b"x" * 100_000,
        "x" * 100_000,
        {},
    ],
    ids=["lists", "maps", "sets", "bytes", "texts", "nothing"],
)
def test_memory_is_bounded_whatever_the_values_are_made_of(part: object) -> None:
    capture = Capture(FULL, SECRETS)

    copy = capture.value([part] * 100_000)

    assert capture.weight <= 3 * FULL.total
    assert len(encode_payload({"v": copy})) < 8_000_000


def test_a_long_key_is_shortened() -> None:
    assert captured({"k" * 100_000: 1}) == {"k" * 1000 + "…[shortened, 100000 characters]": 1}


def test_many_keys_that_resemble_each_other_are_all_recorded() -> None:
    class Key:
        def __str__(self) -> str:
            return "same"

    copy = captured({Key(): n for n in range(2_000)})

    assert sorted(copy.values()) == list(range(2_000))  # type: ignore[attr-defined]


def test_a_key_that_cannot_be_shown_costs_only_itself() -> None:
    assert captured({Sullen(): 1, "b": 2}) == {"<Sullen>": 1, "b": 2}


def test_a_secret_under_a_revealing_name_is_blanked_at_every_depth() -> None:
    assert captured({"a": [{"Api-Key": b"k", "n": 1, "token": None}]}) == {
        "a": [{"Api-Key": REDACTED, "n": 1, "token": None}]
    }


def test_a_secret_is_blanked_where_even_its_name_no_longer_fits() -> None:
    tight = CaptureLimits(characters=1_000, items=100, depth=4, total=200)

    text = str(captured({"filler": "x" * 1_000, "pin_password": 123456}, tight))

    assert "123456" not in text


@pytest.mark.parametrize("cut_at", range(960, 1010, 7))
def test_no_half_token_is_left_by_shortening(cut_at: int) -> None:
    token = "sk-" + "a1b2c3d4" * 6
    text = "x" * cut_at + " " + token + "y" * 3_000

    assert "sk-a" not in str(captured(text, SUMMARY))


@pytest.mark.parametrize("cut_at", range(940, 1010, 3))
@pytest.mark.parametrize(
    "secret",
    [
        'password="hunter2 with spaces hunter2"',
        "-----BEGIN PRIVATE KEY-----\nhunter2\nhunter2",
        "Cookie: a=hunter2; b=hunter2",
    ],
)
def test_no_half_of_a_secret_with_spaces_is_left_by_shortening(secret: str, cut_at: int) -> None:
    text = "x" * cut_at + " " + secret + " y" * 3_000

    assert "hunter" not in str(captured(text, SUMMARY))


def test_no_half_token_is_left_by_shortening_the_text_of_an_object() -> None:
    class Client:
        def __repr__(self) -> str:
            return "x" * 185 + " ghp_" + "a1b2c3d4e5" * 4

    assert "ghp_a" not in str(captured(Client()))


def test_a_token_in_bytes_is_blanked() -> None:
    assert captured(b"\xff key=AKIAABCDEFGHIJKLMNOP\x00") == b"\xff key=[redacted]\x00"


def test_a_foreign_decimal_context_changes_nothing() -> None:
    with localcontext(prec=5):
        found = captured(Decimal("1.2345678901234567890123"))

    assert found == Decimal("1.2345678901234567890123")


def test_an_error_whose_text_fails_is_described_by_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(Mute()) == "Mute"


def test_the_fast_path_gives_what_the_slow_path_gives() -> None:
    named = {"a": 1, "b": "text", "password": "p", "c": None, "d": True}

    assert capture_fields(named, FULL, SECRETS) == (Capture(FULL, SECRETS).fields(named), 0)
    assert capture_value("text", FULL, SECRETS) == ("text", 0)


class Strange:
    """Objects as odd as Python allows."""

    def __init__(self, how: int) -> None:
        self.how = how

    def __repr__(self) -> str:
        if self.how == 0:
            raise RuntimeError
        return "\ud800" if self.how == 1 else "strange"

    def __hash__(self) -> int:
        return self.how

    def __eq__(self, other: object) -> bool:
        return self is other


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**60), max_value=10**60)
    | st.floats()
    | st.decimals(allow_nan=False)
    | st.complex_numbers()
    | st.fractions()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Ll"]), max_size=5)
    | st.binary()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([*Colour, *Level, int, ValueError("\udc80")])
    | st.builds(Model)
    | st.builds(Sullen)
    | st.builds(Strange, st.integers(0, 2))
)
hashables = scalars | st.builds(tuple, st.lists(scalars, max_size=3))
keys = hashables | st.sampled_from(["$set", "$map", "$bytes", "$decimal", "", "…"])
anything = st.recursive(
    scalars | st.decimals() | st.sets(hashables, max_size=5) | st.frozensets(scalars, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.builds(tuple, st.lists(inner, max_size=3))
        | st.dictionaries(keys, inner, max_size=5)
        | st.builds(Order, st.integers(), inner)
    ),
    max_leaves=15,
)


@settings(max_examples=250)
@given(anything, st.sampled_from([FULL, SUMMARY]))
def test_any_value_can_be_stored_everywhere_and_comes_back_the_same(
    value: object, limits: CaptureLimits
) -> None:
    payload = {"input": {"v": captured(value, limits)}}

    text = encode_payload(payload)

    assert decode_payload(text) == payload
    assert levels(payload) <= 32
    assert MAX_LEVELS >= 32
    to_map(payload)  # by DynamoDB's rules: digits, range, levels, sets


def levels(value: object) -> int:
    if isinstance(value, Mapping):
        return 1 + max(map(levels, value.values()), default=0)
    if isinstance(value, list | set):
        return 1 + max(map(levels, value), default=0)
    return 0
