"""Cursors: small, opaque, and the same again after a round trip."""

from __future__ import annotations

import base64
import json
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidCursor
from longwatch.journal.dynamodb.layout import NO_TIME, StoredEvent, layout_named
from longwatch.journal.dynamodb.read_progress import (
    OLDER_PREFIX,
    PREFIX,
    ReadProgress,
    Scan,
    from_cursor,
    late_range,
    to_cursor,
)
from longwatch.model.event import START, Cursor, Event
from longwatch.model.numbering import NumberSet

NOW = 1_794_736_800_000
WORKFLOW, SESSION = layout_named("workflow"), layout_named("session")

_times = st.one_of(st.none(), st.integers(0, 2**53))
_keys = st.one_of(st.integers(0, 2**53), st.just("1794736800.5"))


def stored(key_ms: int, **fields: object) -> StoredEvent:
    event = Event(run_id="r", event_id=f"e{key_ms}", type="t", occurred_at=key_ms, **fields)  # type: ignore[arg-type]
    return StoredEvent(event, key_ms, key_ms, key_ms)


@given(
    st.builds(
        ReadProgress,
        numbers=st.dictionaries(
            st.text(max_size=5), st.sets(st.integers(1, 99)).map(NumberSet.of), max_size=3
        ),
        keys=st.sets(_keys, max_size=5).map(lambda keys: {key: WORKFLOW.key_ms(key) for key in keys}),
        other_keys=st.sets(st.text(max_size=5), max_size=3),
        keys_from=st.integers(0, 2**53),
        high=_times,
        floor=_times,
        wide_at=_times,
        gap_edge=st.integers(0, 99),
        gap_since=_times,
        late=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2),
        scan=st.one_of(
            st.none(), st.builds(Scan, st.booleans(), _times, _times, _times, st.one_of(st.none(), _keys))
        ),
    )
)
def test_progress_comes_back_from_its_cursor(progress: ReadProgress) -> None:
    cursor = to_cursor(progress)

    assert from_cursor(Cursor(str(cursor)), WORKFLOW) == progress
    assert to_cursor(from_cursor(cursor, WORKFLOW)) == cursor


def test_no_progress_is_the_start() -> None:
    assert to_cursor(ReadProgress()) == START
    assert from_cursor(START, WORKFLOW) == ReadProgress()


@given(st.text(max_size=60), st.sampled_from([PREFIX, OLDER_PREFIX]))
def test_a_cursor_that_was_tampered_with_is_refused(text: str, prefix: str) -> None:
    with pytest.raises(InvalidCursor):
        from_cursor(Cursor(prefix + text), WORKFLOW)


def test_a_cursor_of_the_other_layout_never_crashes() -> None:
    progress = ReadProgress()
    progress.add(stored(NOW))
    progress.keys = {"EVENT#2026-11-15T10:00:00.000Z": NOW}

    with pytest.raises(InvalidCursor):
        from_cursor(to_cursor(progress), WORKFLOW)


def test_the_cursor_of_a_long_run_is_small() -> None:
    progress = ReadProgress(high=NOW, floor=NOW - 30_000, wide_at=NOW)
    for producer in range(5):
        progress.numbers[f"producer-{producer:032x}"] = NumberSet(((1, 100_000),))

    assert len(to_cursor(progress)) < 400


@pytest.mark.parametrize(
    ("count", "characters"), [(200, 800), (2_000, 3_000), (5_000, 5_000), (45_000, 1_000)]
)
def test_no_key_of_a_busy_foreign_run_is_forgotten_and_the_cursor_stays_small(
    count: int, characters: int
) -> None:
    progress = ReadProgress()
    for key in Random(1).sample(range(NOW, NOW + 45_000), count):
        progress.add(stored(key))

    progress.drop_keys_below(NOW)
    cursor = to_cursor(progress)

    assert len(progress.keys) == count
    assert from_cursor(Cursor(str(cursor)), WORKFLOW) == progress
    assert len(cursor) < characters


def test_keys_that_are_texts_are_all_remembered() -> None:
    progress = ReadProgress()
    for index in range(5_000):
        key = f"EVENT#2026-11-15T10:00:{index // 1000:02d}.{index % 1000:03d}456Z"
        key_ms = SESSION.key_ms(key)
        progress.add(StoredEvent(stored(key_ms).event, key, key_ms, key_ms))

    cursor = to_cursor(progress)

    assert from_cursor(Cursor(str(cursor)), SESSION) == progress
    assert len(cursor) < 32_000


@given(st.sets(st.integers(0, 2**63)))
def test_whole_numbers_come_back_however_far_apart_they_are(keys: set[int]) -> None:
    progress = ReadProgress(keys={key: WORKFLOW.key_ms(key) for key in keys})

    assert from_cursor(to_cursor(progress), WORKFLOW) == progress


def test_a_cursor_of_an_earlier_release_is_read() -> None:
    value = [{"p": [1, 3]}, [NOW, NOW + 7, "1794736800.5"], [], NOW, NOW + 7, NOW, 5, 0, None, [], None]
    packed = base64.urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode().rstrip("=")

    progress = from_cursor(Cursor(f"{OLDER_PREFIX}{packed}"), WORKFLOW)

    assert list(progress.keys) == [NOW, NOW + 7, "1794736800.5"]
    assert progress.numbers == {"p": NumberSet(((1, 3),))}
    assert to_cursor(progress).startswith(PREFIX)


def test_a_numbered_event_is_recognised_by_its_number_wherever_it_is_stored() -> None:
    progress = ReadProgress()
    progress.add(stored(NOW, producer="p", number=4))

    assert not progress.is_new(stored(NOW - 99_000, producer="p", number=4))
    assert progress.is_new(stored(NOW, producer="p", number=3))
    assert progress.is_new(stored(NOW, producer="q", number=4))


def test_an_event_without_a_number_is_recognised_by_its_key() -> None:
    progress = ReadProgress()
    progress.add(stored(NOW))

    assert not progress.is_new(stored(NOW))
    assert progress.is_new(stored(NOW - 1))


def test_below_what_is_remembered_events_without_a_number_count_as_seen() -> None:
    progress = ReadProgress()
    progress.add(stored(NOW))

    progress.drop_keys_below(NOW - 10)

    assert not progress.is_new(stored(NOW - 11))
    assert progress.is_new(stored(NOW - 10))
    assert not progress.is_new(stored(NOW))


def test_keys_that_are_not_times_are_remembered_for_ever() -> None:
    progress = ReadProgress()
    odd = [StoredEvent(stored(NOW).event, f"EVENT#{index}x", NO_TIME, NO_TIME) for index in range(1_001)]
    for each in odd[:-1]:
        progress.add(each)

    progress.drop_keys_below(NOW)

    assert [progress.is_new(each) for each in odd] == [False] * 1_000 + [True]
    assert progress.high is None


def test_a_gap_is_young_again_when_a_new_one_shows() -> None:
    progress = ReadProgress(numbers={"p": NumberSet(((1, 1), (3, 3)))})
    progress.note_gaps(100)
    progress.note_gaps(200)
    first = progress.gap_since
    progress.numbers["p"] = NumberSet(((1, 1), (3, 3), (5, 5)))
    progress.note_gaps(300)
    second = progress.gap_since
    progress.numbers["p"] = NumberSet(((1, 5),))
    progress.note_gaps(400)

    assert (first, second, progress.gap_since) == (100, 300, None)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"from": 5, "to": 9, "count": 1}, (5, 9)),
        ({"from": 5.5, "to": 9}, (5, 9)),
        ({"from": 9, "to": 5}, None),
        ({"from": -1, "to": 5}, None),
        ({"from": "5", "to": 9}, None),
        ({}, None),
    ],
)
def test_an_announcement_names_a_range(payload: dict[str, object], expected: tuple[int, int] | None) -> None:
    assert (
        late_range(Event(run_id="r", event_id="e", type="late_batch", occurred_at=1, payload=payload))
        == expected
    )
    assert late_range(Event(run_id="r", event_id="e", type="other", occurred_at=1, payload=payload)) is None


def progress_that_saw(*seen: StoredEvent, keys_from: int = 0) -> ReadProgress:
    progress = ReadProgress(keys_from=keys_from)
    for each in seen:
        progress.add(each)
    return progress


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        (progress_that_saw(), progress_that_saw(), True),
        (progress_that_saw(stored(NOW)), progress_that_saw(), True),
        (progress_that_saw(), progress_that_saw(stored(NOW)), False),
        (progress_that_saw(keys_from=NOW + 1), progress_that_saw(stored(NOW)), True),
        (
            progress_that_saw(stored(NOW, producer="p", number=1), stored(NOW, producer="p", number=2)),
            progress_that_saw(stored(NOW, producer="p", number=2)),
            True,
        ),
        (
            progress_that_saw(stored(NOW, producer="p", number=2)),
            progress_that_saw(stored(NOW, producer="p", number=1)),
            False,
        ),
        (ReadProgress(), ReadProgress(other_keys={"x"}), False),
        (ReadProgress(other_keys={"x", "y"}), ReadProgress(other_keys={"x"}), True),
    ],
)
def test_progress_has_seen_all_of_another_or_not(
    mine: ReadProgress, other: ReadProgress, expected: bool
) -> None:
    assert mine.has_seen_all_of(other) is expected
