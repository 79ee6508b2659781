"""Small edits between two texts, and their places after others have edited too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.documents import text_edits as module
from longwatch.documents.text_edits import TextEdit, apply_edits, byte_offsets, find_edits, rebase_edits

TEXTS = st.lists(
    st.sampled_from(["a", "b", "word ", "\n", "line\n", "é", "e\u0301", "😀", "👩‍👧", ", "]), max_size=30
).map("".join)


@given(TEXTS, TEXTS)
def test_the_edits_of_two_texts_turn_one_into_the_other(old: str, new: str) -> None:
    changes = find_edits(old, new)

    assert apply_edits(old, changes) == new
    ends = [position for change in changes for position in (change.start, change.end)]
    assert ends == sorted(ends)


@given(TEXTS, TEXTS)
def test_byte_offsets_name_the_same_positions(old: str, new: str) -> None:
    data = bytearray(old.encode())

    for start, end, text in byte_offsets(old, find_edits(old, new)):
        data[start:end] = text.encode()

    assert data.decode() == new


@given(TEXTS, TEXTS)
def test_edits_without_a_conflict_stay_the_same(old: str, new: str) -> None:
    changes = find_edits(old, new)

    assert apply_edits(old, rebase_edits(changes, [])) == new


@given(TEXTS, TEXTS, TEXTS)
def test_insertions_and_deletions_of_two_writers_are_all_applied(base: str, mine: str, theirs: str) -> None:
    others, changes = find_edits(base, theirs), find_edits(base, mine)

    moved = rebase_edits(changes, others)
    merged = apply_edits(apply_edits(base, others), moved)

    unchanged = surviving(base, [*changes, *others])
    inserted = sorted("".join(change.new for change in [*changes, *others]))
    assert sorted(merged) == sorted([*unchanged, *inserted])


def surviving(base: str, changes: list[TextEdit]) -> str:
    gone = {position for change in changes for position in range(change.start, change.end)}
    return "".join(each for position, each in enumerate(base) if position not in gone)


@pytest.mark.parametrize(
    ("base", "theirs", "mine", "merged"),
    [
        ("one two three", "one 2 three", "one two 3", "one 2 3"),
        ("one two three", "three", "one two three!", "three!"),
        ("abc\n", "abc\nmore\n", "first\nabc\n", "first\nabc\nmore\n"),
        ("a b c", "a c", "a X b c", "a X c"),
        ("same", "same", "other", "other"),
    ],
)
def test_texts_of_two_writers_are_put_together(base: str, theirs: str, mine: str, merged: str) -> None:
    moved = rebase_edits(find_edits(base, mine), find_edits(base, theirs))

    assert apply_edits(theirs, moved) == merged


def test_an_edit_touches_no_more_than_it_must() -> None:
    old = "def f(x):\n    return x + 1\n\nprint(f(1))\n"
    new = "def f(x):\n    return x + 2\n\nprint(f(1), 'ö')\n"

    assert [(old[each.start : each.end], each.new) for each in find_edits(old, new)] == [
        ("1", "2"),
        ("", ", 'ö'"),
    ]


def test_texts_that_have_nothing_in_common_are_not_compared_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_COMPARISONS", 10)
    old, new = "a\nb\nc\nd\n", "e\nb\nf\nd\ng\n"

    assert find_edits(old, new) == [TextEdit(0, len(old) - 1, new[:-1])]
