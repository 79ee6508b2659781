"""How many items are done, and why the others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobKind,
    Mode,
    Stage,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.executions.progress import failure_reason, first_warnings, items_of, progress_of, verdict_text
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    CANCELLED,
    EVIDENCE,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    PENDING,
    START,
    TERMINATED,
    action,
    drill,
    execution,
    finished,
    job,
)

RUNNING_ACTION, FAILED_ACTION = action(StepState.IN_PROGRESS), action(StepState.FAILED)


def of(*servers: WorkItem, mode: Mode = Mode.DRILL, status: Status | None = None) -> Execution:
    verdict = Verdict(status, START, EVIDENCE) if status else None
    listing = replace(finished() if status else job(), items=servers)
    return execution(Stage("one", (listing,)), mode=mode, verdict=verdict)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (drill(), "0 of 0 done"),
        (drill(LAUNCHED, LAUNCHED, LAUNCHED, FAILED, PENDING), "3 of 5 done, 1 failed"),
        (drill(FAILED, FAILED), "0 of 2 done, 2 failed"),
        (drill(LAUNCHED, CANCELLED, FAILED), "1 of 3 done, 1 failed, 1 cancelled"),
        (of(WorkItem("s-1", TERMINATED, "i-1")), "1 of 1 done"),
        (of(WorkItem("s-1", TERMINATED)), "0 of 1 done, 1 failed"),
        (of(WorkItem("s-1", LAUNCHED, steps=(RUNNING_ACTION,))), "1 of 1 done"),
        (of(WorkItem("s-1", LAUNCHED, steps=(RUNNING_ACTION,)), mode=Mode.RECOVERY), "0 of 1 done"),
        (of(WorkItem("s-1", LAUNCHED, steps=(FAILED_ACTION,)), mode=Mode.RECOVERY), "1 of 1 done"),
        (of(WorkItem("s-1", PENDING), status=Status.FAILED), "0 of 1 done, 1 failed"),
        (of(WorkItem("s-1", PENDING), status=Status.CANCELLED), "0 of 1 done, 1 cancelled"),
        (of(WorkItem("s-1", PENDING), status=Status.SUCCEEDED), "0 of 1 done"),  # another writer's verdict
        (of(WorkItem("s-1", ItemState.UNKNOWN), status=Status.UNKNOWN), "0 of 1 done"),
    ],
)
def test_an_item_that_failed_was_cancelled_or_is_unfinished_is_not_done(found: Execution, words: str) -> None:
    assert progress_of(found).text() == words


@pytest.mark.parametrize(
    ("server", "status", "reason"),
    [
        (WorkItem("s-1", FAILED, reason="no capacity"), None, "no capacity"),
        (WorkItem("s-1", FAILED), None, "drs gave no reason"),
        (WorkItem("s-1", TERMINATED), None, "terminated, never seen launched"),
        (
            WorkItem("s-1", PENDING, source_status="PENDING"),
            Status.PARTIAL,
            "still PENDING after its job finished",
        ),
        (WorkItem("s-1", IN_PROGRESS), Status.FAILED, "still in_progress after its job finished"),
        (WorkItem("s-1", PENDING), None, None),
        (WorkItem("s-1", LAUNCHED), Status.PARTIAL, None),
        (WorkItem("s-1", CANCELLED), Status.PARTIAL, None),
    ],
)
def test_every_failed_item_has_a_reason(server: WorkItem, status: Status | None, reason: str | None) -> None:
    found = of(server, status=status)

    assert [failure_reason(each, found, decides) for each, decides in items_of(found.stages[0])] == [reason]


def ended_as(status: Status, *jobs: Job) -> Execution:
    return execution(Stage("one", jobs), verdict=Verdict(status, START, EVIDENCE))


@pytest.mark.parametrize(
    ("found", "words", "reasons"),
    [
        pytest.param(
            ended_as(Status.SUCCEEDED, finished(TERMINATED, kind=JobKind.TERMINATE)),
            "1 of 1 done",
            [None],
            id="terminated as it should be",
        ),
        pytest.param(
            ended_as(
                Status.SUCCEEDED,
                finished(TERMINATED),
                replace(
                    finished(job_id="j-2", kind=JobKind.TERMINATE),
                    items=(WorkItem("s-1", TERMINATED, "i-1"),),
                ),
            ),
            "1 of 1 done",
            [None],
            id="another job names the instance",
        ),
        pytest.param(
            ended_as(Status.PARTIAL, finished(LAUNCHED, PENDING, cancelled=True)),
            "1 of 2 done, 1 cancelled",
            [None, None],
            id="cancelled with its job",
        ),
        pytest.param(
            ended_as(Status.FAILED, job(IN_PROGRESS)),
            "0 of 1 done, 1 failed",
            ["still in_progress when the execution was closed"],
            id="closed while its job ran",
        ),
    ],
)
def test_the_job_that_decides_about_an_item_counts(
    found: Execution, words: str, reasons: list[str | None]
) -> None:
    assert progress_of(found).text() == words
    assert [failure_reason(each, found, by) for each, by in items_of(found.stages[0])] == reasons


@pytest.mark.parametrize(
    ("warnings", "late", "words"),
    [
        ((), False, "succeeded"),
        (("a",), False, "succeeded with 1 warning"),
        (("a", "b"), True, "succeeded with 2 warnings, late"),
    ],
)
def test_a_verdict_names_the_number_of_its_warnings(
    warnings: tuple[str, ...], late: bool, words: str
) -> None:
    assert verdict_text(Verdict(Status.SUCCEEDED, START, EVIDENCE, None, late, warnings)) == words


def test_a_line_names_three_warnings_and_the_number_of_the_others() -> None:
    warnings = tuple(f"s-{number}: launch action failed" for number in range(1_800))

    assert first_warnings(Verdict(Status.SUCCEEDED, START, EVIDENCE, None, False, warnings)) == [
        *warnings[:3],
        "and 1,797 more",
    ]
    assert first_warnings(Verdict(Status.SUCCEEDED, START, EVIDENCE, None, False, warnings[:3])) == [
        *warnings[:3]
    ]
