"""Promises about values: whatever a payload may hold comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.base import Journal
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, new_run

DEEP = 30  # levels of maps in maps

VALUES: dict[str, object] = {
    "nothing": None,
    "truth": [True, False],
    "whole numbers": [0, 1, -1, 10**15, -(10**37), 2**63],
    "38 digits": [12345678901234567890123456789012345678, Decimal("1234567890.1234567890123456789012345678")],
    "fractions": [0.1, 1.5, -2.75, 1e-100, 1.7976931348623157e100, 1e22, 123456.789],
    "decimals": [Decimal("0.1"), Decimal("1E-100"), Decimal("-12.340")],
    "texts": ["", " ", "plain", "two\nlines", "\x00\x1f"],
    "non-ASCII": ["Grüße", "日本語", "🚀", {"schlüssel": "ß"}],
    "lists": [[], [[]], [1, ["two", [3.5, None]]]],
    "maps": {"": "empty key", "nested": {"deeper": {"deepest": []}}, "empty": {}},
    "keys with a dollar": {"$set": [1], "$bytes": "x", "$map": {"$map": {}}, "$": "$"},
    "looks tagged": {"$decimal": "1.5"},
    "sets": [{"a", "b", "ü"}, {1, 2, Decimal("2.5")}, {b"x", b"\x00\xff"}],
    "bytes": [b"", b"\x00\xff", "é".encode()],
    "long text": "x" * 50_000,
}


def alike(value: object) -> object:
    """The value with all numbers in one form: the journal may choose the type of a number."""
    match value:
        case bool():
            return ("truth", value)
        case float() if value.is_integer() and abs(value) < 1e38:
            return Decimal(int(value))
        case int() | float() | Decimal():
            return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        case Mapping():
            return {key: alike(item) for key, item in value.items()}
        case list() | tuple():
            return [alike(item) for item in value]
        case set() | frozenset():
            return frozenset(map(alike, value))
        case _:
            return value


def deep(levels: int) -> object:
    value: object = "bottom"
    for level in range(levels):
        value = {f"level {level}": value} if level % 2 else [value]
    return value


class ValuesContract(Contract):
    """What survives the round trip."""

    @pytest.mark.parametrize("name", [*VALUES, "deep"])
    def test_every_kind_of_value_comes_back_as_it_was(self, journal: Journal, now: int, name: str) -> None:
        value = deep(DEEP - 1) if name == "deep" else VALUES[name]
        stored = event(new_run(), now, payload={"value": value})

        journal.append([stored])

        (found,) = journal.read(stored.run_id).events
        assert alike(found.payload) == alike(stored.payload)
        journal.append([stored])  # a retry recognises it

    def test_any_payload_comes_back_as_it_was(self, open_again: OpenAgain, now: int) -> None:
        journal = open_again()

        @self.hypothesis()
        @given(payload=st.dictionaries(_TEXTS, _values(), max_size=5))
        def check(payload: dict[str, object]) -> None:
            stored = event(new_run(), now, payload=payload)

            journal.append([stored])

            (found,) = journal.read(stored.run_id).events
            assert alike(found.payload) == alike(stored.payload)

        check()


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NUMBERS = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or 1e-130 <= abs(x) <= 9.9e125),
    st.decimals(min_value=Decimal(-(10**20)), max_value=Decimal(10**20), places=10),
)


def _values() -> st.SearchStrategy[object]:
    """Anything that every journal can hold."""
    plain = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS, st.binary(max_size=8))
    sets = st.one_of(
        st.sets(_TEXTS, min_size=1, max_size=3),
        st.sets(st.integers(-1000, 1000), min_size=1, max_size=3),
        st.sets(st.binary(max_size=4), min_size=1, max_size=3),
    )
    return st.recursive(
        st.one_of(plain, sets),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(_TEXTS, st.sampled_from(["$set", "$bytes"])), inner, max_size=3),
        ),
        max_leaves=10,
    )
