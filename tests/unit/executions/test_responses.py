"""A response makes a new state of an execution; a missing response makes none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.model import Execution, Job, JobState, Stage, StepState, WorkItem
from longwatch.executions.outcomes import GRACE_POLLS
from longwatch.executions.responses import apply_response, record_failure
from tests.unit.executions.samples import (
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    SECOND,
    START,
    action,
    drill,
    execution,
    finished,
    job,
    response,
)

LATER = START + MINUTE


def only_job(found: Execution) -> Job:
    return found.stages[0].jobs[0]


def test_a_response_brings_states_and_their_times() -> None:
    fresh = execution(Stage("one", (Job("j-1", region="eu-west-1"),)))

    updated = apply_response(fresh, response(LATER, job(IN_PROGRESS)))

    assert only_job(updated).state is JobState.STARTED
    assert only_job(updated).region == "eu-west-1"
    assert only_job(updated).since == LATER
    assert only_job(updated).items == (WorkItem("s-1", IN_PROGRESS, since=LATER),)
    assert (updated.last_polled_at, updated.last_answer_at, updated.last_change_at) == (LATER, LATER, LATER)


def test_a_state_that_stays_keeps_its_since() -> None:
    updated = apply_response(drill(PENDING), response(LATER, job(PENDING)))

    assert only_job(updated).items[0].since == START
    assert updated.last_change_at is None


def test_a_stored_state_that_was_never_seen_is_seen_now() -> None:
    stored = execution(Stage("one", (Job("j-1"),)))

    updated = apply_response(stored, response(LATER, Job("j-1")))

    assert only_job(updated).since == LATER


def test_a_server_that_is_no_longer_listed_stays_as_it_was() -> None:
    updated = apply_response(drill(LAUNCHED, PENDING), response(LATER, job(LAUNCHED)))

    assert [server.state for server in only_job(updated).items] == [LAUNCHED, PENDING]


def test_an_instance_that_is_no_longer_named_is_remembered() -> None:
    before = execution(Stage("one", (Job("j-1", items=(WorkItem("s-1", LAUNCHED, "i-1"),)),)))

    updated = apply_response(before, response(LATER, job(LAUNCHED)))

    assert only_job(updated).items[0].instance_id == "i-1"


def test_a_job_is_finished_since_it_was_first_seen_so() -> None:
    once = apply_response(drill(PENDING), response(LATER, finished(PENDING, finished_at=None)))
    twice = apply_response(once, response(LATER + MINUTE, finished(PENDING, finished_at=None)))

    assert only_job(twice).finished_at == LATER


def test_a_job_that_the_source_does_not_list_is_missing_and_keeps_its_servers() -> None:
    updated = apply_response(drill(LAUNCHED), response(LATER, missing=("j-1",)))

    assert only_job(updated).state is JobState.MISSING
    assert only_job(updated).items == only_job(drill(LAUNCHED)).items
    assert apply_response(updated, response(LATER + 1, missing=("j-1",))).stages == updated.stages


def test_a_job_that_was_not_polled_stays_as_it_was() -> None:
    assert apply_response(drill(PENDING), response(LATER)).stages == drill(PENDING).stages


def test_launch_actions_remember_since_when_and_do_not_vanish() -> None:
    def with_steps(*states: StepState) -> Job:
        listed = tuple(action(state, f"r-{n}") for n, state in enumerate(states))
        return Job("j-1", JobState.STARTED, (WorkItem("s-1", LAUNCHED, steps=listed),))

    running = apply_response(
        drill(LAUNCHED), response(LATER, with_steps(StepState.IN_PROGRESS, StepState.SUCCEEDED))
    )
    done = apply_response(running, response(LATER + SECOND, with_steps(StepState.SUCCEEDED)))

    assert [each.since for each in only_job(running).items[0].steps] == [LATER, LATER]
    assert [each.since for each in only_job(done).items[0].steps] == [LATER + SECOND, LATER]


@pytest.mark.parametrize("ahead", [1, 50 * SECOND, 100 * SECOND, 10 * MINUTE])
def test_a_response_counts_whatever_a_clock_that_was_ahead_has_stamped(ahead: int) -> None:
    updated = replace(drill(PENDING), last_answer_at=LATER + ahead, last_polled_at=LATER + ahead)

    after = apply_response(updated, response(LATER, job(LAUNCHED)))

    assert after.last_answer_at == LATER
    assert only_job(after).items[0].state is LAUNCHED


def test_an_observation_has_the_time_of_the_source_and_a_poll_that_of_the_poller() -> None:
    dated = replace(response(LATER, finished(LAUNCHED)), polled_at=LATER + 10 * MINUTE)

    updated = apply_response(drill(PENDING), dated)

    assert (updated.last_answer_at, updated.last_change_at, updated.observed_at) == (LATER, LATER, LATER)
    assert (only_job(updated).finished_at, only_job(updated).since) == (LATER, LATER)
    assert only_job(updated).items[0].since == LATER
    assert updated.last_polled_at == LATER + 10 * MINUTE


def test_the_polls_of_a_finished_job_are_counted_and_are_not_a_change() -> None:
    updated, counts = drill(PENDING), []
    for number in range(5):
        updated = apply_response(updated, response(LATER + number * SECOND, finished(PENDING)))
        counts.append(only_job(updated).finished_polls)

    assert counts == [1, 2, GRACE_POLLS, GRACE_POLLS, GRACE_POLLS]
    assert updated.last_change_at == LATER
    assert only_job(apply_response(updated, response(LATER + MINUTE, job(PENDING)))).finished_polls == 0


def test_polls_of_a_job_that_was_forgotten_after_its_end_are_counted_too() -> None:
    updated = apply_response(drill(PENDING), response(LATER, finished(PENDING)))
    updated = apply_response(updated, response(LATER + 1, missing=("j-1",)))

    assert only_job(updated).finished_polls == 2
    assert only_job(apply_response(drill(PENDING), response(LATER, missing=("j-1",)))).finished_polls == 0


def test_a_job_was_finished_no_later_than_the_earliest_response_that_reports_it() -> None:
    updated = apply_response(drill(PENDING), response(LATER + 10 * MINUTE, finished(PENDING)))

    assert only_job(apply_response(updated, response(LATER, finished(PENDING)))).finished_at == LATER


def test_a_response_ends_a_series_of_failures() -> None:
    failing = record_failure(drill(PENDING), LATER, "throttled", retry_after_ms=9_000)

    updated = apply_response(failing, response(LATER + MINUTE, job(PENDING)))

    assert (updated.failures, updated.last_error, updated.next_poll_at) == (0, None, None)


def test_a_missing_response_leaves_it_open_and_counts() -> None:
    once = record_failure(drill(PENDING), LATER, "throttled", retry_after_ms=9_000)
    twice = record_failure(once, LATER + MINUTE, "no connection", retry_after_ms=None)

    assert once.next_poll_at == LATER + 9_000
    assert (twice.failures, twice.last_error, twice.next_poll_at) == (2, "no connection", None)
    assert twice.is_open
    assert twice.last_answer_at is None


@pytest.mark.parametrize("waves", [(), (Stage("db", ()),)])
def test_an_execution_that_has_no_job_yet_is_polled_and_gets_no_response(waves: tuple[Stage, ...]) -> None:
    updated = apply_response(execution(*waves, total_stages=2), response(LATER))

    assert (updated.last_polled_at, updated.last_answer_at) == (LATER, None)


def test_the_evidence_names_the_call_the_time_and_the_statuses() -> None:
    finished_job = Job(
        "j-1",
        JobState.FINISHED,
        (WorkItem("s-1", LAUNCHED, source_status="LAUNCHED"),),
        source_status="COMPLETED",
    )

    cited = response(LATER, finished_job, missing=("j-2",)).evidence

    assert (cited.call, cited.at) == ("drs:DescribeJobs", LATER)
    assert cited.fields == {
        "jobs": {"j-1": {"status": "COMPLETED", "servers": {"s-1": "LAUNCHED"}}},
        "missing": ["j-2"],
    }
