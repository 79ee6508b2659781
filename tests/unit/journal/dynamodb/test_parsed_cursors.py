"""Cursors that have their progress at hand: quicker to resume from, and otherwise like any other."""

from __future__ import annotations

import copy
import pickle

import pytest

from longwatch.errors import InvalidCursor
from longwatch.journal.dynamodb.layout import layout_named
from longwatch.journal.dynamodb.read_progress import (
    ParsedCursor,
    ReadProgress,
    Scan,
    from_cursor,
    next_cursor,
    to_cursor,
)
from longwatch.model.event import START, Cursor
from longwatch.model.numbering import NumberSet

NOW = 1_700_000_000_000
WORKFLOW, SESSION = layout_named("workflow"), layout_named("session")


def some_progress() -> ReadProgress:
    return ReadProgress(
        numbers={"p-1": NumberSet(((1, 3),))}, high=NOW, floor=NOW - 30_000, scan=Scan(wide=True, low=None)
    )


def test_a_parsed_cursor_is_the_same_text_and_the_same_progress() -> None:
    parsed = next_cursor(some_progress(), WORKFLOW, after=START)

    assert parsed == to_cursor(some_progress())
    assert from_cursor(parsed, WORKFLOW) == from_cursor(Cursor(str(parsed)), WORKFLOW) == some_progress()


def test_resuming_from_a_parsed_cursor_leaves_it_unchanged() -> None:
    parsed = next_cursor(some_progress(), WORKFLOW, after=START)

    progress = from_cursor(parsed, WORKFLOW)
    progress.numbers["p-2"] = NumberSet(((1, 1),))
    progress.keys[NOW] = NOW
    progress.other_keys.add("odd")
    progress.late.append((1, 2))
    assert progress.scan is not None
    progress.scan.position = NOW

    assert from_cursor(parsed, WORKFLOW) == some_progress()


def test_a_read_that_found_nothing_gives_back_the_cursor_it_was_given() -> None:
    parsed = next_cursor(some_progress(), WORKFLOW, after=START)

    assert next_cursor(from_cursor(parsed, WORKFLOW), WORKFLOW, after=parsed) is parsed


def test_a_read_that_found_something_gives_another_cursor() -> None:
    parsed = next_cursor(some_progress(), WORKFLOW, after=START)
    progress = from_cursor(parsed, WORKFLOW)
    progress.high = NOW + 1

    assert next_cursor(progress, WORKFLOW, after=parsed) == to_cursor(progress) != parsed


def test_no_progress_is_the_start() -> None:
    assert next_cursor(ReadProgress(), WORKFLOW, after=START) == START


def test_a_parsed_cursor_of_the_other_layout_is_refused_like_its_text() -> None:
    parsed = next_cursor(ReadProgress(keys={"EVENT#2026-11-15": NOW}), SESSION, after=START)

    with pytest.raises(InvalidCursor):
        from_cursor(parsed, WORKFLOW)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda parsed: pickle.loads(pickle.dumps(parsed))])
def test_a_copy_of_a_parsed_cursor_is_just_the_text(copied: object) -> None:
    parsed = next_cursor(some_progress(), WORKFLOW, after=START)

    text = copied(parsed)  # type: ignore[operator]

    assert text == parsed
    assert not isinstance(text, ParsedCursor)
