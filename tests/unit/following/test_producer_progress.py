"""What a watch counts of a producer's events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.following.progress import ProducerProgress
from longwatch.model.numbering import NumberSet
from longwatch.model.run import ProducerNumbers

NUMBERS = st.lists(st.integers(1, 12), max_size=20)
COUNTS = st.lists(st.integers(0, 14), max_size=3)


def tally_of(numbers: list[int], counts: list[int]) -> ProducerProgress:
    tally = ProducerProgress()
    for number in numbers:
        tally.add(number)
    for count in counts:
        tally.close(count)
    return tally


@given(numbers=NUMBERS, counts=COUNTS)
def test_it_agrees_with_the_immutable_value(numbers: list[int], counts: list[int]) -> None:
    value = ProducerNumbers(NumberSet.of(numbers), max(counts, default=None))

    tally = tally_of(numbers, counts)

    assert tally.tally == value
    assert tally.is_complete == (value.count is not None and not value.missing())


@given(ours=NUMBERS, our_counts=COUNTS, theirs=NUMBERS, their_counts=COUNTS, then=NUMBERS)
def test_merged_progress_has_the_facts_of_both_and_continues_to_count(
    ours: list[int], our_counts: list[int], theirs: list[int], their_counts: list[int], then: list[int]
) -> None:
    tally, other = tally_of(ours, our_counts), tally_of(theirs, their_counts)
    before = other.tally

    tally.merge(other)

    assert tally.tally == ProducerNumbers(NumberSet.of(ours), max(our_counts, default=None)).merged(before)
    for number in then:
        tally.add(number)
    assert tally.seen == NumberSet.of([*ours, *theirs, *then])
    assert other.tally == before


def test_a_row_grows_in_place() -> None:
    tally = tally_of([7, 8], [])
    others = tally._others

    for number in range(9, 1_000):
        tally.add(number)

    assert tally._others is others
    assert tally.seen == NumberSet(((7, 999),))
