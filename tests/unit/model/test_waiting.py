"""What a run waits for, and how long it has waited."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.run_totals import waits_from_json, waits_to_json
from longwatch.model.event import Event
from longwatch.model.run import Run, RunSummary, conditions, summarise
from longwatch.model.waiting import MAX_WAITS, Wait, merge_waits, waits_of

PROCESS = {"id": "a" * 16, "host": "h", "pid": 1, "boot": "b"}


def event(type_: str, at: int, *, call: str = "w-1", producer: str = "p", **payload: object) -> Event:
    return Event(
        run_id="wf-1",
        event_id=f"{type_}-{at}-{call}",
        type=type_,
        occurred_at=at,
        call_id=call if type_.startswith("waiting") else None,
        producer=producer,
        number=at,
        payload=payload,
    )


START = event("workflow_start", 1, name="deploy", attempt="aaaaaaaa", process=PROCESS)
WAITS = event("waiting_started", 10, reason="approval", detail="deploy to production")
GOES_ON = event("waiting_ended", 700_010, reason="approval", duration_ms=700_000)


def summary(*events: Event) -> RunSummary:
    return summarise(events)["wf-1"]


def names(run: RunSummary, now_ms: int) -> list[str]:
    return [each.name for each in conditions(Run(run), now_ms)]


def test_a_run_that_waits_is_not_silent() -> None:
    run = summary(START, WAITS)

    [condition] = conditions(Run(run), 600_000)
    assert (condition.name, condition.since) == ("waiting", 10)
    assert condition.message == "waiting for approval: deploy to production"


def test_a_run_that_no_longer_waits_can_be_silent() -> None:
    run = summary(START, WAITS, GOES_ON)

    assert names(run, 700_011) == []
    assert names(run, 800_000) == ["silent"]
    assert run.totals.waited_ms == {"approval": 700_000}


def test_a_run_that_has_ended_waits_for_nothing() -> None:
    run = summary(START, WAITS, event("workflow_error", 20, error_message="killed"))

    assert run.waiting == ()


def test_a_producer_that_has_closed_waits_for_nothing() -> None:
    run = summary(START, WAITS, event("producer_closed", 20, count=3))

    assert run.waiting == ()


def test_a_new_attempt_does_not_wait_for_what_the_earlier_one_waited_for() -> None:
    again = event("workflow_start", 50, producer="q", attempt="bbbbbbbb", process=PROCESS)

    assert summary(START, WAITS, again).waiting == ()


def test_waits_of_a_process_that_is_gone_are_dropped() -> None:
    other = event("waiting_started", 12, call="w-2", producer="q", reason="lock")
    run = summary(START, WAITS, other)

    assert [wait.reason for wait in run.waiting] == ["approval", "lock"]
    assert [wait.reason for wait in run.without_waits_of(frozenset({"p"})).waiting] == ["lock"]


@given(st.permutations([START, WAITS, GOES_ON, event("waiting_started", 30, call="w-2", reason="lock")]))
def test_any_order_of_arrival_gives_the_same_waits(arrived: list[Event]) -> None:
    parts = [summary(each) for each in arrived]

    run = reduce(RunSummary.merged, parts)

    assert [wait.reason for wait in run.waiting] == ["lock"]
    assert run.totals.waited_ms == {"approval": 700_000}
    assert set(run.waits) == set(summary(*arrived).waits)


def test_merging_a_part_again_changes_nothing() -> None:
    both, start = waits_of([WAITS, GOES_ON]), waits_of([WAITS])

    assert merge_waits(both, start) == merge_waits(start, both) == both


def test_open_waits_are_preferred_to_ended_ones() -> None:
    ended = [Wait(f"e-{n}", "lock", since=1_000 + n, ended_at=2_000 + n) for n in range(100)]

    found = reduce(merge_waits, [(each,) for each in ended], waits_of([WAITS]))

    assert len(found) == MAX_WAITS
    assert found[0].is_open


def test_stored_waits_are_read_as_they_were() -> None:
    waits = waits_of([WAITS, GOES_ON, event("waiting_started", 30, call="w-2", reason="lock")])

    assert waits_from_json(waits_to_json(waits)) == waits


def test_too_many_reasons_are_one_sum() -> None:
    events = [
        event("waiting_ended", n, call=f"w-{n}", reason=f"retry in {n:02d} s", duration_ms=10)
        for n in range(1, 41)
    ]
    run = reduce(RunSummary.merged, [summary(each) for each in events])

    assert sum(run.totals.waited_ms.values()) == 400
    assert run.totals == summary(*events).totals
    assert len(run.totals.waited_ms) == 21
