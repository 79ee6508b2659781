"""Run summaries as rows of a SQLite file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.sqlite.rows import decode_run, encode_run, has_same_columns, run_to_row
from longwatch.model.event import Event
from longwatch.model.run import summarise
from tests.strategies import RUN_ID, runs


@given(events=runs(), cut=st.integers(1, 10))
def test_what_is_found_alike_has_every_column_but_its_latest_event_in_common(
    events: list[Event], cut: int
) -> None:
    (before,) = summarise(events[:cut]).values()
    (after,) = summarise(events).values()

    first, second = (
        (run_id, started_at, status, kind, search)
        for run_id, started_at, _, status, kind, search, _ in map(run_to_row, (before, after))
    )

    assert first == second or not has_same_columns(before, after)


@given(events=runs())
def test_an_event_that_neither_starts_nor_ends_a_run_leaves_it_where_it_is_found(events: list[Event]) -> None:
    (before,) = summarise(events).values()
    note = Event(run_id=RUN_ID, event_id="n", type="note", occurred_at=before.last_event_at + 1)
    (after,) = summarise([*events, note]).values()

    assert after != before
    assert has_same_columns(before, after)


@given(events=runs())
def test_a_summary_comes_back_from_its_text(events: list[Event]) -> None:
    (run,) = summarise(events).values()

    assert decode_run(run.run_id, encode_run(run)) == run
