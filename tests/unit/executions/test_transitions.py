"""Every change is an event, with an id that all pollers agree on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobState,
    Stage,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.executions.responses import SourceResponse, apply_response
from longwatch.executions.transitions import deadline_event, end_event, start_event, transition_events
from longwatch.model.event import Event
from longwatch.model.run import fold
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    EVIDENCE,
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    START,
    action,
    drill,
    execution,
    job,
    response,
)

LATER = START + MINUTE


def between(before: Execution, received: SourceResponse) -> list[Event]:
    return list(transition_events(before, apply_response(before, received), received.at))


def moves(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (
            event.payload.get("server_id") or event.payload["job_id"],
            event.payload.get("from"),
            event.payload["to"],
        )
        for event in events
    ]


def test_a_first_observation_has_no_previous_state() -> None:
    fresh = execution(Stage("one", (Job("j-1"),), ("s-1",)))

    assert moves(between(fresh, response(LATER, job(PENDING)))) == [
        ("j-1", None, "started"),
        ("s-1", None, "pending"),
    ]


def test_a_job_that_was_stored_as_pending_is_reported_when_it_is_seen_pending() -> None:
    fresh = execution(Stage("one", (Job("j-1"),)))

    assert moves(between(fresh, response(LATER, Job("j-1")))) == [("j-1", None, "pending")]


def test_each_change_is_one_event() -> None:
    found = between(drill(PENDING, IN_PROGRESS), response(LATER, job(IN_PROGRESS, LAUNCHED)))

    assert moves(found) == [("s-1", "pending", "in_progress"), ("s-2", "in_progress", "launched")]
    assert {event.type for event in found} == {"server_transition"}
    assert {event.occurred_at for event in found} == {LATER}
    assert {event.run_id for event in found} == {"p-1/x-1"}


def test_an_unchanged_execution_has_no_event() -> None:
    assert between(drill(PENDING, LAUNCHED), response(LATER, job(PENDING, LAUNCHED))) == []


def test_two_pollers_that_see_one_change_give_it_one_id() -> None:
    (one,) = between(drill(PENDING), response(LATER, job(LAUNCHED)))
    (other,) = between(drill(PENDING), response(LATER + 7, job(LAUNCHED)))

    assert one.event_id == other.event_id


def test_a_state_that_comes_again_is_another_event() -> None:
    state, ids = drill(PENDING), []

    for number, now in enumerate([IN_PROGRESS, PENDING, IN_PROGRESS, PENDING], 1):
        received = response(LATER + number, job(now))
        ids += [event.event_id for event in between(state, received)]
        state = apply_response(state, received)

    assert len(set(ids)) == 4


def test_a_job_that_is_missing_twice_is_reported_twice() -> None:
    state, ids = drill(PENDING), []

    for number in range(1, 5):
        received = (
            response(LATER + number, missing=("j-1",))
            if number % 2
            else response(LATER + number, job(PENDING))
        )
        ids += [event.event_id for event in between(state, received)]
        state = apply_response(state, received)

    assert len(set(ids)) == 4


def test_a_launch_action_is_reported_with_its_reason() -> None:
    def with_action(state: StepState) -> Job:
        listed = (action(state, reason="no agent" if state is StepState.FAILED else None),)
        return Job("j-1", JobState.STARTED, (WorkItem("s-1", LAUNCHED, steps=listed),))

    running = apply_response(drill(LAUNCHED), response(LATER, with_action(StepState.IN_PROGRESS)))

    (first,) = between(drill(LAUNCHED), response(LATER, with_action(StepState.IN_PROGRESS)))
    (second,) = between(running, response(LATER + 1, with_action(StepState.FAILED)))

    assert first.payload == {
        "wave": "one",
        "job_id": "j-1",
        "server_id": "s-1",
        "action": "install",
        "run_id": "r-1",
        "to": "in_progress",
    }
    assert (second.type, second.payload["from"], second.payload["reason"]) == (
        "action_transition",
        "in_progress",
        "no agent",
    )


def test_executions_do_not_share_ids() -> None:
    one = start_event(execution())
    other = start_event(Execution(execution_id="x-2", plan_id="p-1", started_at=START))

    assert one.event_id != other.event_id


def test_the_start_makes_a_run_of_kind_execution_with_the_name_of_its_plan() -> None:
    run = fold([start_event(drill(PENDING))])

    assert run is not None
    assert (run.summary.kind, run.summary.name, run.status) == ("execution", "p-1", Status.RUNNING)
    assert start_event(drill(PENDING, name="east")).payload["name"] == "east"


def test_a_deadline_is_reported_once() -> None:
    one, other = (
        deadline_event(drill(PENDING), EVIDENCE[0], LATER),
        deadline_event(drill(PENDING), EVIDENCE[0], LATER + 1),
    )

    assert one.event_id == other.event_id
    assert one.payload["evidence"] == {"call": "drs:DescribeJobs", "at": START, "fields": {"jobs": {}}}


def test_the_end_is_reported_from_the_verdict_alone() -> None:
    verdict = Verdict(Status.PARTIAL, LATER, EVIDENCE, "s-1: launch failed", True, ("slow",))

    event = end_event(drill(LAUNCHED), verdict)

    assert (event.type, event.occurred_at) == ("execution_ended", LATER)
    assert event == end_event(drill(LAUNCHED, verdict=verdict, closed=True), verdict)
    assert {key: event.payload[key] for key in ("status", "late", "warnings", "error_message")} == {
        "status": "partial",
        "late": True,
        "warnings": ["slow"],
        "error_message": "s-1: launch failed",
    }


def test_a_correction_beats_the_end_and_the_latest_one_counts() -> None:
    watched = drill(LAUNCHED)
    first = end_event(watched, Verdict(Status.SUCCEEDED, LATER, EVIDENCE))
    second = end_event(watched, Verdict(Status.FAILED, LATER + 1, EVIDENCE, corrects=Status.SUCCEEDED))
    third = end_event(watched, Verdict(Status.PARTIAL, LATER + 2, EVIDENCE, corrects=Status.FAILED))

    run = fold([third, start_event(watched), first, second])

    assert run is not None
    assert (run.status, run.summary.ended_at) == (Status.PARTIAL, LATER + 2)
    assert second.payload["corrects"] == "succeeded"


STATES = st.lists(st.lists(st.sampled_from(ItemState), min_size=2, max_size=2), min_size=1, max_size=8)


@settings(max_examples=100)
@given(responses=STATES)
def test_the_last_event_of_each_server_is_its_state_in_the_record(responses: list[list[ItemState]]) -> None:
    record, events = execution(Stage("one", (Job("j-1"),))), []

    for number, states in enumerate(responses, 1):
        received = response(START + number, job(*states))
        events += between(record, received)
        record = apply_response(record, received)

    assert len({event.event_id for event in events}) == len(events)
    for _, server in record.items():
        mine = [event for event in events if event.payload.get("server_id") == server.item_id]
        assert mine[-1].payload["to"] == server.state
        assert [event.payload.get("from") for event in mine[1:]] == [
            event.payload["to"] for event in mine[:-1]
        ]
