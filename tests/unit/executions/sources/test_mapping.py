"""From statuses and fields to jobs, by a declaration; and responses about a later operation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from longwatch.executions.model import Execution, ItemState, Job, JobState, StepState
from longwatch.executions.outcomes import execution_outcome
from longwatch.executions.responses import SourceResponse, apply_response
from longwatch.executions.sources.dates import time_ms
from longwatch.executions.sources.declarations import Declaration as D
from longwatch.executions.sources.declarations import HttpCall, Items, Meaning, normalize, statuses
from longwatch.executions.sources.mapping import (
    MappedStatus,
    RawJob,
    map_job,
    map_status,
    mark_superseded,
    new_execution,
    short_id,
)
from longwatch.executions.sources.shipped import BATCH, CLOUDFORMATION, CODEBUILD, STEP_FUNCTIONS
from longwatch.model.summary import Status

NOW = 1_794_736_800_000  # 2026-11-15T10:00:00Z
CREATED = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
UPDATED = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
STACK = "arn:aws:cloudformation:eu-west-1:123456789012:stack/shop/7c2d"


def stack(status: str, **more: Any) -> RawJob:
    fields = {"StackId": STACK, "StackName": "shop", "StackStatus": status, "CreationTime": CREATED}
    return RawJob({**fields, **more})


def begin(declaration: D, what: str, thing: RawJob) -> Execution:
    mapped = map_status(declaration, thing)
    assert mapped is not None
    return new_execution(declaration, what, thing, mapped, region="eu-west-1", account=None, now=NOW)


def mapped_later(declaration: D, execution: Execution, thing: RawJob) -> MappedStatus:
    mapped = map_status(declaration, thing)
    assert mapped is not None
    return mark_superseded(declaration, execution, thing, mapped)


def ending(execution: Execution, mapped: MappedStatus) -> Status | None:
    (wave,) = execution.stages
    (job,) = wave.jobs
    response = SourceResponse("test:Call", NOW, {job.job_id: map_job(job, mapped)})
    outcome = execution_outcome(apply_response(execution, response), NOW)
    return outcome.status if outcome else None


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("CREATE_IN_PROGRESS", None),
        ("ROLLBACK_IN_PROGRESS", None),
        ("REVIEW_IN_PROGRESS", None),
        ("CREATE_COMPLETE", Status.SUCCEEDED),
        ("ROLLBACK_COMPLETE", Status.FAILED),
        ("CREATE_FAILED", Status.FAILED),
    ],
)
def test_a_stack_that_was_rolled_back_was_not_created(word: str, status: Status | None) -> None:
    thing = stack(word)

    execution = begin(CLOUDFORMATION, "shop", thing)

    assert execution.execution_id == "aws:cloudformation:shop@create-2026-11-15T09:00:00Z"
    assert execution.job_ids() == (STACK,)
    assert ending(execution, mapped_later(CLOUDFORMATION, execution, thing)) is status


@pytest.mark.parametrize(
    ("later", "status"),
    [
        (stack("UPDATE_COMPLETE", LastUpdatedTime=UPDATED), Status.SUCCEEDED),
        (stack("UPDATE_ROLLBACK_COMPLETE", LastUpdatedTime=UPDATED), Status.FAILED),
        (stack("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", LastUpdatedTime=UPDATED), None),
        (stack("UPDATE_IN_PROGRESS", LastUpdatedTime=UPDATED.replace(minute=50)), Status.UNKNOWN),
        (stack("DELETE_COMPLETE", LastUpdatedTime=UPDATED), Status.UNKNOWN),
    ],
)
def test_an_update_has_an_end_of_its_own_and_none_of_a_later_operation(
    later: RawJob, status: Status | None
) -> None:
    execution = begin(CLOUDFORMATION, "shop", stack("UPDATE_IN_PROGRESS", LastUpdatedTime=UPDATED))

    mapped = mapped_later(CLOUDFORMATION, execution, later)

    assert ending(execution, mapped) is status


def test_a_stack_that_was_to_be_deleted_and_is_gone_is_a_success() -> None:
    gone = stack("DELETE_COMPLETE", DeletionTime=UPDATED)

    execution = begin(CLOUDFORMATION, STACK, gone)

    assert execution.stages[0].name == "delete"
    assert execution.started_at == round(UPDATED.timestamp() * 1000)
    assert ending(execution, mapped_later(CLOUDFORMATION, execution, gone)) is Status.SUCCEEDED


def test_a_redriven_execution_is_another_run_than_the_one_that_failed() -> None:
    arn = "arn:aws:states:eu-west-1:123456789012:execution:machine:run-1"
    fields = {"executionArn": arn, "status": "RUNNING", "startDate": CREATED, "stateMachineArn": "machine"}
    first = begin(STEP_FUNCTIONS, arn, RawJob(fields))
    again = RawJob({**fields, "redriveDate": UPDATED})

    second = begin(STEP_FUNCTIONS, arn, again)

    assert (first.execution_id, second.execution_id) == (
        f"aws:step-functions:{arn}",
        f"aws:step-functions:{arn}@2026-11-15T09:30:00Z",
    )
    assert mapped_later(STEP_FUNCTIONS, first, again).meaning is Meaning.ENDED
    assert mapped_later(STEP_FUNCTIONS, second, again).meaning is Meaning.RUNNING
    by_hand = replace(first, execution_id="x-1")
    assert mapped_later(STEP_FUNCTIONS, by_hand, again).meaning is Meaning.RUNNING


def test_a_build_that_waits_for_a_machine_is_pending_and_its_phases_are_steps() -> None:
    phases = [
        {"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"},
        {"phaseType": "QUEUED"},
        {"phaseType": "COMPLETED"},
    ]

    mapped = map_status(
        CODEBUILD, RawJob({"buildStatus": "IN_PROGRESS", "currentPhase": "QUEUED", "phases": phases})
    )

    assert mapped is not None
    assert mapped.meaning is Meaning.PENDING
    assert [(each.name, each.state) for each in mapped.items] == [
        ("SUBMITTED", StepState.SUCCEEDED),
        ("QUEUED", StepState.IN_PROGRESS),
    ]


def test_the_phase_that_failed_is_the_reason_and_the_phases_after_it_make_nothing_partial() -> None:
    phases = [
        {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "make: *** [all]"}]},
        {"phaseType": "POST_BUILD", "phaseStatus": "SUCCEEDED"},
    ]
    thing = RawJob({"id": "demo:1", "buildStatus": "FAILED", "phases": phases})
    execution = begin(CODEBUILD, "demo:1", thing)

    mapped = mapped_later(CODEBUILD, execution, thing)

    assert mapped.reason == "BUILD: make: *** [all]"
    assert ending(execution, mapped) is Status.FAILED


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": "FAILED", "isCancelled": True}, Status.CANCELLED),
        ({"status": "FAILED", "isCancelled": False, "isTerminated": True}, Status.FAILED),
        ({"status": "SUCCEEDED", "isCancelled": True}, Status.SUCCEEDED),
    ],
)
def test_a_batch_job_that_was_cancelled_has_not_failed(fields: dict[str, Any], status: Status) -> None:
    execution = begin(BATCH, "j-1", RawJob(fields))

    assert ending(execution, mapped_later(BATCH, execution, RawJob(fields))) is status


def test_an_unknown_status_stays_open() -> None:
    execution = begin(BATCH, "j-1", RawJob({"status": "HIBERNATING"}))

    mapped = mapped_later(BATCH, execution, RawJob({"status": "HIBERNATING"}))

    assert mapped.meaning is None
    assert ending(execution, mapped) is None
    job = map_job(Job("j-1"), mapped)
    assert (job.state, job.items[0].state) == (JobState.UNKNOWN, ItemState.UNKNOWN)


def test_an_unknown_status_ends_no_operation_of_a_stack() -> None:
    execution = begin(CLOUDFORMATION, STACK, stack("UPDATE_IN_PROGRESS", LastUpdatedTime=UPDATED))

    mapped = mapped_later(CLOUDFORMATION, execution, stack("UPDATE_FROBNICATING", LastUpdatedTime=UPDATED))

    assert mapped.meaning is None
    assert ending(execution, mapped) is None


def test_a_response_without_a_status_is_a_problem() -> None:
    assert map_status(BATCH, RawJob({})) is None
    assert map_status(BATCH, RawJob({"status": ["FAILED"]})) is None


def test_the_reason_stays_when_it_is_no_longer_reported() -> None:
    failing = map_status(CLOUDFORMATION, stack("ROLLBACK_IN_PROGRESS", StackStatusReason="no table"))
    assert failing is not None
    rolled_back = map_status(CLOUDFORMATION, stack("ROLLBACK_COMPLETE"))
    assert rolled_back is not None

    seen = map_job(Job(STACK), failing)
    last = map_job(seen, rolled_back)

    assert last.items[0].reason == "no table"


def test_success_has_no_reason() -> None:
    seen = map_job(Job("j-1"), MappedStatus("RUNNING", Meaning.RUNNING, "pulling the image"))

    done = map_job(seen, MappedStatus("SUCCEEDED", Meaning.SUCCEEDED, "essential container exited"))

    assert done.items[0].reason is None


def test_steps_with_one_name_are_distinguished_and_a_whole_stack_trace_is_cut() -> None:
    declaration = D(
        name="jobs",
        call=HttpCall(),
        status="state",
        statuses=statuses(running="busy", failed="bad"),
        reason=("why",),
        items=Items(at="steps", name="name", status="state", statuses=statuses(failed="bad"), reason="why"),
    )
    steps = [{"name": "copy"}, {"name": "copy", "state": "bad", "why": "x" * 9999}, {"state": "bad"}]

    mapped = map_status(declaration, RawJob({"state": "busy", "steps": steps, "why": 7}))

    assert mapped is not None
    assert [each.run_id for each in mapped.items] == ["copy", "copy#2"]
    assert len(mapped.items[1].reason or "") == 500
    assert mapped.reason == "7"


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (CREATED, 1_794_733_200_000),
        (CREATED.replace(tzinfo=None), 1_794_733_200_000),
        ("2026-11-15T09:00:00Z", 1_794_733_200_000),
        (1_794_733_200, 1_794_733_200_000),
        (1_794_733_200_000, 1_794_733_200_000),
        ("yesterday", None),
        (float("inf"), None),
        (10**20, None),
        (-1, None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_times_come_in_many_forms(value: object, ms: int | None) -> None:
    assert time_ms(value) == ms


@pytest.mark.parametrize(
    ("job_id", "called"),
    [
        ("arn:aws:states:eu-west-1:123456789012:execution:machine:run-1", "machine:run-1"),
        (STACK, "shop/7c2d"),
        ("demo:1", "demo:1"),
        ("arn:odd", "arn:odd"),
    ],
)
def test_an_arn_is_called_by_its_last_part(job_id: str, called: str) -> None:
    assert short_id(job_id) == called


def test_statuses_are_compared_however_they_are_written() -> None:
    assert {normalize("In Progress"), normalize("in-progress"), normalize(" IN_PROGRESS ")} == {"in_progress"}
    assert normalize(True) == "true"
