"""What an open execution is waiting for, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.explain import waiting_for
from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    EVIDENCE,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    PENDING,
    START,
    action,
    drill,
    execution,
    finished,
    job,
)


def one(*jobs: Job, mode: Mode = Mode.DRILL, expected: tuple[str, ...] = ()) -> Execution:
    return execution(Stage("db", jobs, expected), mode=mode)


def with_action(state: JobState, *actions: StepState) -> Execution:
    server = WorkItem("s-1", LAUNCHED, steps=tuple(action(each) for each in actions), since=START)
    return one(Job("j-1", state, (server,), since=START, finished_at=START), mode=Mode.RECOVERY)


UNSEEN = Job("j-1")
UNKNOWN = Job("j-1", JobState.MISSING, since=START)
FORGOTTEN = job(PENDING, state=JobState.MISSING, source_status="STARTED")
STRANGE = replace(job(), items=(WorkItem("s-1", ItemState.UNKNOWN, source_status="GIZMO", since=START),))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (execution(), "the first wave: none is stored yet"),
        (execution(Stage("db"), total_stages=1), "its job: none is stored yet"),
        (one(UNSEEN), "the first response from drs about job j-1"),
        (one(UNSEEN, expected=("s-1", "s-2")), "the first response from drs about job j-1"),
        (one(UNKNOWN), "job j-1: unknown to drs"),
        (one(FORGOTTEN), "job j-1: drs no longer has it, s-1 (pending)"),
        (one(job()), "job j-1 to list its items"),
        (one(finished()), "job j-1 to list its items: it has finished without any"),
        (drill(LAUNCHED, IN_PROGRESS, PENDING), "s-2 (in progress), s-3 (pending)"),
        (drill(*[PENDING] * 5), "s-1 (pending), s-2 (pending), s-3 (pending), and 2 more items"),
        (one(job(LAUNCHED), expected=("s-1", "s-9")), "s-9 (not listed yet)"),
        (one(STRANGE), "s-1 (unknown status 'GIZMO')"),
        (one(finished(LAUNCHED, PENDING)), "s-2 (pending), not final although its job has finished"),
        (drill(LAUNCHED, LAUNCHED, LAUNCHED), "all 3 items launched, job j-1 not finished"),
        (drill(LAUNCHED), "the only item launched, job j-1 not finished"),
        (drill(LAUNCHED, FAILED), "all 2 items ended, 1 of them not launched, job j-1 not finished"),
        (with_action(JobState.FINISHED, StepState.IN_PROGRESS), "launch action install of s-1"),
        (with_action(JobState.FINISHED, StepState.UNKNOWN), "launch action install of s-1"),
        (one(job(LAUNCHED, state=JobState.UNKNOWN)), "the only item launched, job j-1 not finished"),
        (with_action(JobState.FINISHED), "the launch actions: none is listed yet"),
        (with_action(JobState.STARTED), "the only item launched, job j-1 not finished"),
        (
            execution(Stage("db", (finished(LAUNCHED),)), Stage("web", (job(PENDING),))),
            "web: s-1 (pending)",
        ),
        (
            execution(Stage("db", (job(PENDING),)), Stage("web", (job(job_id="j-2"),))),
            "db: s-1 (pending); web: job j-2 to list its items",
        ),
        (
            execution(*[Stage(name, (job(PENDING),)) for name in "abcd"]),
            "a: s-1 (pending); b: s-1 (pending); c: s-1 (pending); and 1 more wave",
        ),
        (execution(Stage("db", (finished(LAUNCHED),)), total_stages=3), "wave 2 of 3: not stored yet"),
        (
            execution(Stage("db", (finished(LAUNCHED),)), total_stages=None),
            "the number of waves: all stored waves have ended, and more may follow",
        ),
        (execution(Stage("db", (finished(LAUNCHED),))), "the next response from drs, which decides"),
    ],
)
def test_an_open_execution_names_what_it_is_waiting_for(found: Execution, text: str) -> None:
    assert waiting_for(found, START) == text


def test_an_execution_that_has_ended_or_is_closed_waits_for_nothing() -> None:
    ended = drill(LAUNCHED, verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE))

    assert waiting_for(ended, START) is None
    assert waiting_for(drill(PENDING, closed=True), START) is None
