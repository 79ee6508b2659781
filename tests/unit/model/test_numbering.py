"""Ranges of numbers behave as the plain set they stand for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.numbering import NO_NUMBERS, NumberSet

some = st.integers(1, 40)
sets = st.sets(some)


def plain(numbers: NumberSet) -> set[int]:
    return {number for low, high in numbers.ranges for number in range(low, high + 1)}


def is_tidy(numbers: NumberSet) -> bool:
    """Sorted, and with at least one number missing between each two ranges."""
    edges = [edge for pair in numbers.ranges for edge in pair]
    apart = all(low > high + 1 for (_, high), (low, _) in pairwise(numbers.ranges))
    return edges == sorted(edges) and apart


@given(st.lists(some))
def test_numbers_added_one_by_one_are_the_set_of_them(added: list[int]) -> None:
    numbers = NO_NUMBERS
    for number in added:
        numbers = numbers.with_number(number)

    assert plain(numbers) == set(added)
    assert is_tidy(numbers)
    assert numbers == NumberSet.of(added)


@given(sets)
def test_a_number_set_behaves_like_a_set(model: set[int]) -> None:
    numbers = NumberSet.of(model)

    assert len(numbers) == len(model)
    assert bool(numbers) == bool(model)
    assert numbers.highest == max(model, default=0)
    assert numbers.lowest == min(model, default=0)
    assert {number for number in range(-2, 45) if number in numbers} == model


@given(sets, sets)
def test_two_sets_together_are_their_union(one: set[int], other: set[int]) -> None:
    both = NumberSet.of(one) | NumberSet.of(other)

    assert plain(both) == one | other
    assert is_tidy(both)


@given(sets, st.none() | st.integers(0, 60))
def test_gaps_are_what_is_missing_up_to_the_highest_number_or_the_stated_one(
    model: set[int], up_to: int | None
) -> None:
    top = max(*model, up_to or 0, 0) if model else up_to or 0

    gaps = NumberSet(tuple(NumberSet.of(model).gaps(up_to=up_to)))

    assert plain(gaps) == set(range(1, top + 1)) - model
    assert is_tidy(gaps)


def test_a_value_other_than_a_number_is_in_no_set() -> None:
    assert "1" not in NumberSet.of([1])
    assert None not in NumberSet.of([1])


def test_a_long_row_is_stored_as_one_range() -> None:
    numbers = NO_NUMBERS
    for number in range(1, 1001):
        numbers = numbers.with_number(number)

    assert numbers.ranges == ((1, 1000),)
