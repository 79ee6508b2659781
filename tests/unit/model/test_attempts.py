"""Starting a run id again opens a new attempt, and nothing of one attempt counts for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.attempts import (
    MAX_CLOSED,
    MAX_ENDINGS,
    MAX_MEMBERS,
    MAX_OWNERS,
    MAX_STARTS,
    Lifecycle,
    lifecycle_of,
)
from longwatch.model.endings import Status, is_activity
from longwatch.model.event import Event
from longwatch.model.process import ProcessIdentity
from longwatch.model.summary import RunSummary, summarise

P1, P2 = ProcessIdentity("h", 1, 10, boot="b"), ProcessIdentity("h", 2, 20, boot="b")


def event(type: str, at: int, *, by: str | None = None, number: Any = 1, **payload: Any) -> Event:
    return Event(
        run_id="wf-1",
        event_id=f"{type}-{at}-{by}-{number}-{payload}",
        type=type,
        occurred_at=at,
        payload=payload,
        producer=by,
        number=None if by is None else number,
    )


def start(
    at: int, attempt: str | None = None, process: ProcessIdentity | None = None, by: str | None = None
) -> Event:
    payload: dict[str, Any] = {} if attempt is None else {"attempt": attempt}
    if process is not None:
        payload["process"] = process.fields
    return event("workflow_start", at, by=by, **payload)


def joined(at: int, process: ProcessIdentity, by: str, attempt: str | None = None) -> Event:
    named: dict[str, Any] = {} if attempt is None else {"attempt": attempt}
    return event("process_joined", at, by=by, process=process.fields, **named)


def closed(at: int, by: str) -> Event:
    return event("producer_closed", at, by=by, number=9, count=9)


def ended(at: int, attempt: str | None = None, by: str | None = None) -> Event:
    named: dict[str, Any] = {} if attempt is None else {"attempt": attempt}
    return event("workflow_complete", at, by=by, number=8, **named)


def initiated(at: int, execution: str) -> Event:
    return event("SESSION_INITIATED", at, execution=execution)


def died(
    at: int, *processes: ProcessIdentity, since: int = 5, until: int | None = 9, attempt: str | None = None
) -> Event:
    payload: dict[str, Any] = {
        "status": "died",
        "written_for": True,
        "error_code": "process_died",
        "processes": [each.id for each in processes],
        "not_before": since,
    }
    if until is not None:
        payload["not_after"] = until
    if attempt is not None:
        payload["attempt"] = attempt
    return event("workflow_error", at, **payload)


def summary_of(*events: Event) -> RunSummary:
    return summarise(events)["wf-1"]


def statuses(*events: Event) -> list[str]:
    return [attempt.status.value for attempt in summary_of(*events).attempts]


A, B = "aaaaaaaa", "bbbbbbbb"


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([start(1)], ["running"]),
        ([start(1), ended(2)], ["succeeded"]),
        # a start that names its attempt opens it
        ([start(1, A), start(5, B)], ["unknown", "running"]),
        ([start(1, A), ended(3, A), start(5, B)], ["succeeded", "running"]),
        ([start(1, A), start(2, A), ended(3, A)], ["succeeded"]),  # wrapper and command, one attempt
        # an ending belongs to the attempt that it names, however late it comes
        ([start(1, A), start(5, B), ended(9, A)], ["succeeded", "running"]),
        ([ended(1, A), start(2, A)], ["succeeded"]),  # a clock was set back
        # one that names none belongs to the attempt that its producer has named last
        ([start(1, A, by="p"), start(5, B, by="q"), ended(9, by="p")], ["succeeded", "running"]),
        ([start(1, A, by="p"), start(5, B, by="p"), ended(9, by="p")], ["unknown", "succeeded"]),
        # starts without an attempt open one only after an ending
        ([start(1), start(5)], ["running"]),
        ([start(1), ended(3), start(5)], ["succeeded", "running"]),
        ([start(1), ended(3), start(5), ended(7)], ["succeeded", "succeeded"]),
        ([start(1, A), start(2), ended(3, A)], ["succeeded"]),  # a third-party command under `longwatch run`
        ([start(1, A), ended(3, A), start(5)], ["succeeded", "running"]),
        # the ending of a run in one millisecond may sort before its start
        ([ended(1), start(1)], ["succeeded"]),
        ([ended(1), start(2)], ["succeeded"]),  # the start came late, and nothing else began before
        (
            [event("SESSION_INITIATED", 1), event("SESSION_FAILED", 2), event("SESSION_INITIATED", 9)],
            ["failed", "running"],
        ),
        # a session and the work inside it are one attempt, whichever of them names it
        ([event("SESSION_INITIATED", 1), start(2, A)], ["running"]),
        ([initiated(1, "e1"), start(2, A)], ["running"]),
        ([initiated(1, "e1"), start(2, A), ended(3, A)], ["succeeded"]),
        ([initiated(1, "e1"), start(2, A), event("SESSION_FAILED", 3, execution="e1")], ["failed"]),
        ([start(1, A), initiated(2, "e1"), event("SESSION_FAILED", 3, execution="e1")], ["failed"]),
        ([initiated(1, "e1"), ended(2, A), start(3, A)], ["succeeded"]),  # a clock was set back
        # but each of them opens one when it comes again, and after an ending
        ([initiated(1, "e1"), start(2, A), initiated(5, "e2"), start(6, B)], ["unknown", "running"]),
        ([initiated(1, "e1"), start(2, A), start(6, B)], ["unknown", "running"]),
        (
            [initiated(1, "e1"), event("SESSION_FAILED", 3, execution="e1"), start(6, A)],
            ["failed", "running"],
        ),
        ([start(1), start(5, A)], ["unknown", "running"]),
        # the clock of the work may be late by as much as clocks may differ, and not more
        ([ended(1), initiated(48_001, "e1")], ["succeeded"]),
        ([ended(1), start(48_001, A)], ["succeeded"]),
        ([start(1, A), ended(20, A), initiated(48_001, "e1")], ["succeeded"]),
        ([start(1, A), ended(20), event("SESSION_INITIATED", 48_001)], ["succeeded"]),
        ([ended(1), initiated(60_002, "e1")], ["succeeded", "running"]),
        ([ended(1), start(60_002)], ["succeeded", "running"]),
        ([start(1, A), ended(20, A), initiated(60_002, "e1")], ["succeeded", "running"]),
        # lists of projects never end, so they are never started again
        ([event("project_added", 1), event("project_added", 2)], ["running"]),
    ],
)
def test_attempts_follow_from_starts_and_endings(events: list[Event], found: list[str]) -> None:
    assert statuses(*events) == found
    assert statuses(*reversed(events)) == found


def test_the_run_stands_as_its_last_attempt_does() -> None:
    run = summary_of(start(1, A), ended(30, A), start(50, B))

    assert (run.status, run.ended_at) == (Status.RUNNING, None)
    assert (run.started_at, run.attempt_started_at) == (1, 50)
    assert run.duration_ms(now_ms=60) == 10


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([start(1, A, P1, "p"), died(4, P1)], Status.DIED),
        # it must cover every process that has not left
        ([start(1, A, P1, "p"), joined(2, P2, "q", A), died(4, P1)], Status.RUNNING),
        ([start(1, A, P1, "p"), died(4, P1), joined(6, P2, "q", A)], Status.RUNNING),
        ([start(1, A, P1, "p"), joined(2, P2, "q", A), died(4, P1, P2)], Status.DIED),
        ([start(1, A, P1, "p"), joined(2, P2, "q", A), closed(3, "q"), died(4, P1)], Status.DIED),
        # the owner does not leave by closing its producer
        ([start(1, A, P1, "p"), closed(3, "p"), died(4, P2)], Status.RUNNING),
        # a process of another attempt is not covered, and need not be
        ([start(1, A, P1, "p"), start(5, B, P2, "q"), died(9, P2, attempt=B)], Status.DIED),
        # any report of an outcome beats it, also one that was written for a process whose exit was seen
        ([start(1, A, P1, "p"), died(4, P1), ended(9)], Status.SUCCEEDED),
        (
            [start(1, A, P1, "p"), died(4, P1), event("workflow_error", 9, written_for=True, exit_code=3)],
            Status.FAILED,
        ),
        # journals of before name no process and no interval
        ([start(1), event("workflow_error", 4, error_code="producer_dead", status="failed")], Status.DIED),
    ],
)
def test_died_is_the_weakest_ending(events: list[Event], status: Status) -> None:
    assert summary_of(*events).status is status
    assert summary_of(*reversed(events)).status is status


def test_two_observers_of_one_death_narrow_the_interval() -> None:
    run = summary_of(start(1, A, P1, "p"), died(4, P1, since=10, until=90), died(5, P1, since=20, until=70))

    assert run.ended_between == (20, 70)
    assert run.duration_between == (19, 69)
    assert (run.ended_at, run.duration_ms(now_ms=100)) == (None, None)


def test_later_events_of_a_process_raise_the_lower_edge() -> None:
    run = summary_of(
        start(1, A, P1, "p"), died(4, P1, since=10, until=90), event("note", 40, by="p", number=2)
    )

    assert run.ended_between == (40, 90)


def test_a_death_of_an_earlier_version_has_no_upper_edge() -> None:
    run = summary_of(start(1), event("note", 7), event("workflow_error", 8, error_code="producer_dead"))

    assert run.ended_between == (7, None)


@pytest.mark.parametrize("observed", ["producer_closed", "late_batch", "notified", "operator_note"])
def test_observer_events_are_not_activity(observed: str) -> None:
    run = summary_of(start(1), event("note", 5), event(observed, 90))

    assert (run.last_event_at, run.last_event_type, run.events) == (5, "note", 3)
    assert summary_of(event(observed, 90)).last_event_type == observed
    assert not is_activity(event(observed, 90))
    assert not is_activity(died(4, P1))


def test_facts_are_bounded_and_merge_to_the_same_in_any_order() -> None:
    events = [
        *(start(at, f"{at:08x}") for at in range(300)),
        *(ended(at) for at in range(300, 400)),
        *(joined(at, ProcessIdentity("h", at, at, boot="b"), f"p{at}") for at in range(400, 700)),
        *(closed(at, f"q{at}") for at in range(700, 1000)),
    ]
    one, other = lifecycle_of(events[::2]), lifecycle_of(events[1::2])

    facts = one.merged(other)

    assert facts == other.merged(one) == lifecycle_of(events)
    assert len(facts.starts) == MAX_STARTS
    assert len(facts.endings) <= MAX_ENDINGS + 1
    assert (len(facts.members), facts.is_crowded) == (MAX_MEMBERS, True)
    assert facts.members[-1].process.pid == 699  # the newest stay
    assert len(facts.closed) == MAX_CLOSED


def test_the_owner_of_the_newest_attempt_is_found_however_often_the_run_was_started() -> None:
    events = [
        start(at, f"{at:08x}", ProcessIdentity("h", at, at, boot="b"), f"p{at}") for at in range(1, 200)
    ]

    current = lifecycle_of(events).current

    assert [each.process.pid for each in current.members] == [199]
    assert len(lifecycle_of(events).members) == MAX_OWNERS


def test_an_attempt_after_a_crowded_one_is_not_crowded() -> None:
    crowd = [joined(at, ProcessIdentity("h", at, at, boot="b"), f"p{at}", A) for at in range(10, 200)]
    before = lifecycle_of([start(1, A, P1, "p"), *crowd])

    after = before.merged(lifecycle_of([start(500, B, P2, "q")]))

    assert (before.is_crowded, after.is_crowded) == (True, False)


@pytest.mark.parametrize("given", ["worker-1", "[redacted]", "", "0123456789ABCDEF"])
def test_an_id_that_is_not_a_digest_does_not_make_two_processes_one(given: str) -> None:
    one, other = (start(at, attempt, None) for at, attempt in ((1, A), (5, B)))
    named = [
        Event(
            **{
                **_fields(each),
                "payload": {**each.payload, "process": {"host": "h", "pid": pid, "id": given}},
            }
        )
        for each, pid in ((one, 4), (other, 9))
    ]

    ids = {member.process.id for member in lifecycle_of(named).members}

    assert len(ids) == 2


def _fields(each: Event) -> dict[str, Any]:
    return {name: getattr(each, name) for name in ("run_id", "event_id", "type", "occurred_at", "payload")}


def test_a_late_ending_of_a_session_belongs_to_its_own_execution() -> None:
    events = [
        event("SESSION_INITIATED", 1, execution="e1"),
        event("SESSION_FAILED", 3, execution="e1"),
        event("SESSION_INITIATED", 5, execution="e2"),
        event("AGENT_BACKGROUND_TASK_COMPLETED", 9, execution="e1"),
    ]

    assert statuses(*events) == ["succeeded", "running"]
    assert statuses(*reversed(events)) == ["succeeded", "running"]


FACTS = st.lists(
    st.one_of(
        st.builds(
            start,
            st.integers(1, 9),
            st.sampled_from([None, A, B]),
            st.sampled_from([None, P1, P2]),
            st.sampled_from(["p", "q"]),
        ),
        st.builds(
            joined,
            st.integers(1, 9),
            st.sampled_from([P1, P2]),
            st.sampled_from(["p", "q", "r"]),
            st.sampled_from([None, A, B]),
        ),
        st.builds(closed, st.integers(1, 9), st.sampled_from(["p", "q", "r"])),
        st.builds(ended, st.integers(1, 9), st.sampled_from([None, A, B])),
        st.builds(died, st.integers(1, 9), st.sampled_from([P1, P2]), since=st.integers(1, 9)),
    ),
    max_size=10,
    unique_by=lambda each: each.event_id,
)


@given(FACTS, FACTS, FACTS)
def test_merging_facts_is_commutative_associative_and_idempotent(
    one: Sequence[Event], two: Sequence[Event], three: Sequence[Event]
) -> None:
    a, b, c = lifecycle_of(one), lifecycle_of(two), lifecycle_of(three)

    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))
    assert a.merged(b).merged(b) == a.merged(b)
    assert a.merged(b) == lifecycle_of([*one, *two])
    assert a.merged(Lifecycle()) == a
