"""The progress of a watch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.following.progress import RunProgress
from longwatch.model.event import Event
from longwatch.model.run import Status, fold
from tests.strategies import runs


def made(type_: str, at: int, **fields: object) -> Event:
    return Event(run_id="wf-1", event_id=f"{type_}-{at}", type=type_, occurred_at=at, **fields)  # type: ignore[arg-type]


def progress_of(*events: Event) -> RunProgress:
    progress = RunProgress(whole=True)
    progress.add(sorted(events, key=lambda event: event.order))
    return progress


def pids_of(*events: Event) -> set[int]:
    return {each.process.pid for each in progress_of(*events).lifecycle.current.members}


def test_no_progress_has_no_facts() -> None:
    progress = RunProgress()
    progress.add([])

    assert progress.status is Status.PENDING
    assert not progress.is_complete


def test_a_run_without_producers_is_never_complete() -> None:
    assert not progress_of(made("workflow_complete", 1)).is_complete


def test_a_run_is_complete_when_every_producer_has_closed_and_nothing_is_missing() -> None:
    first = made("note", 1, producer="p", number=1)
    second = made("producer_closed", 2, producer="p", number=2, payload={"count": 2})
    other = made("note", 3, producer="q", number=1)
    closed = made("producer_closed", 4, producer="q", number=2, payload={"count": 2})

    assert progress_of(first, second).is_complete
    assert not progress_of(second).is_complete
    assert not progress_of(first, second, other).is_complete
    assert progress_of(first, second, other, closed).is_complete


def test_without_the_history_nothing_is_complete() -> None:
    progress = RunProgress()
    progress.add([made("producer_closed", 1, producer="p", number=1, payload={"count": 1})])

    assert not progress.is_complete
    progress.merge(RunProgress(whole=True))
    assert progress.is_complete


def test_every_process_that_a_start_names_works_on_the_run() -> None:
    first = made("workflow_start", 1, payload={"process": {"host": "h", "pid": 4, "started": 40}})
    again = made("workflow_start", 5, payload={"process": {"host": "h", "pid": 9, "started": 90}})
    unknown = made("workflow_start", 7)

    assert pids_of(first) == {4}
    assert pids_of(first, again) == pids_of(first, again, unknown) == {4, 9}


@given(events=runs(), cut=st.integers(0, 10), overlap=st.integers(0, 10))
def test_merged_progress_equals_that_of_one_reader_of_everything(
    events: list[Event], cut: int, overlap: int
) -> None:
    one, other = progress_of(*events[: cut + overlap]), progress_of(*events[cut:])

    one.merge(other)

    run, whole = fold(events), progress_of(*events)
    assert run is not None
    assert one.status is run.status is whole.status
    assert one.last == whole.last == max(event.order for event in events)
    assert one.active_at == (run.summary.last_event_at if run.summary.is_active else None)
    for progress in (one, whole):
        assert {producer: tally.tally for producer, tally in progress.tallies.items()} == run.producers
    assert one.lifecycle == whole.lifecycle == run.summary.lifecycle


def test_the_process_that_executes_a_turn_is_the_one_that_does_the_work() -> None:
    created = made("turn_created", 1)
    begun = made("turn_started", 2, payload={"process": {"host": "h", "pid": 7, "started": 3}})

    assert pids_of(created, begun) == {7}
