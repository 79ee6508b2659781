"""How servers, waves and executions ended, and when that is certain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.executions.model import Execution, ItemState, Job, JobState, Mode, Stage, StepState, WorkItem
from longwatch.executions.outcomes import (
    GRACE_MS,
    Outcome,
    decide_verdict,
    execution_outcome,
    item_outcome,
    stage_outcome,
)
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    CANCELLED,
    EVIDENCE,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    START,
    TERMINATED,
    action,
    drill,
    execution,
    finished,
    job,
)

SOON, PAST_GRACE = START + GRACE_MS - 1, START + GRACE_MS
MISSING = JobState.MISSING


def status_of(outcome: Outcome | None) -> Status | None:
    return outcome.status if outcome else None


@pytest.mark.parametrize(
    ("server", "status"),
    [
        (WorkItem("s-1", LAUNCHED), Status.SUCCEEDED),
        (WorkItem("s-1", FAILED), Status.FAILED),
        (WorkItem("s-1", CANCELLED), Status.CANCELLED),
        (WorkItem("s-1", TERMINATED, instance_id="i-1"), Status.SUCCEEDED),
        (WorkItem("s-1", TERMINATED), Status.FAILED),
        (WorkItem("s-1", PENDING), None),
        (WorkItem("s-1", IN_PROGRESS), None),
        (WorkItem("s-1", ItemState.UNKNOWN), None),
    ],
)
def test_a_server_of_a_drill_is_done_by_its_state(server: WorkItem, status: Status | None) -> None:
    assert status_of(item_outcome(server, job(), Mode.DRILL, PAST_GRACE)) is status


@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS])
def test_a_server_gets_a_grace_after_its_job_and_has_failed_then(state: ItemState) -> None:
    server = WorkItem("s-1", state)

    assert item_outcome(server, finished(), Mode.DRILL, SOON) is None
    assert status_of(item_outcome(server, finished(), Mode.DRILL, PAST_GRACE)) is Status.FAILED


def test_a_server_of_a_cancelled_job_was_cancelled_with_it() -> None:
    over = finished(cancelled=True)

    assert status_of(item_outcome(WorkItem("s-1"), over, Mode.DRILL, PAST_GRACE)) is Status.CANCELLED


def test_a_server_whose_job_is_missing_has_no_end() -> None:
    assert item_outcome(WorkItem("s-1"), job(state=MISSING), Mode.DRILL, PAST_GRACE) is None


def test_a_terminated_server_that_was_there_is_a_success_with_a_warning() -> None:
    outcome = item_outcome(WorkItem("s-1", TERMINATED, instance_id="i-1"), finished(), Mode.DRILL, START)

    assert outcome is not None
    assert outcome.warnings == ("s-1 was terminated afterwards",)


DONE, FAILED_ACTION = StepState.SUCCEEDED, StepState.FAILED


@pytest.mark.parametrize(
    ("actions", "over", "at", "status"),
    [
        ((DONE,), True, START, Status.SUCCEEDED),
        ((FAILED_ACTION,), True, START, Status.SUCCEEDED),
        ((DONE, StepState.IN_PROGRESS), True, PAST_GRACE, None),
        ((DONE,), False, PAST_GRACE, None),  # a job that runs may list more of them
        ((), False, PAST_GRACE, None),
        ((), True, SOON, None),  # none configured, or none begun?
        ((), True, PAST_GRACE, Status.SUCCEEDED),
    ],
)
def test_a_server_of_a_recovery_is_done_when_its_launch_actions_have_ended_too(
    actions: tuple[StepState, ...], over: bool, at: int, status: Status | None
) -> None:
    listed = tuple(action(state, f"r-{n}") for n, state in enumerate(actions))
    server = WorkItem("s-1", LAUNCHED, steps=listed, since=START)

    assert status_of(item_outcome(server, finished() if over else job(), Mode.RECOVERY, at)) is status


def test_a_drill_does_not_wait_for_launch_actions() -> None:
    server = WorkItem("s-1", LAUNCHED, steps=(action(StepState.IN_PROGRESS),))

    assert status_of(item_outcome(server, finished(), Mode.DRILL, START)) is Status.SUCCEEDED


@pytest.mark.parametrize("mode", [Mode.RECOVERY, Mode.DRILL])
def test_a_launch_action_that_failed_is_a_warning_with_its_reason(mode: Mode) -> None:
    server = WorkItem("s-1", LAUNCHED, steps=(action(FAILED_ACTION, reason="no agent"),))

    outcome = item_outcome(server, finished(), mode, START)

    assert outcome == Outcome(Status.SUCCEEDED, (), ("s-1: launch action install failed: no agent",))


@pytest.mark.parametrize(
    ("wave", "at", "status"),
    [
        # empty is never done
        (Stage("one"), PAST_GRACE, None),
        (Stage("one", (), ("s-1",)), PAST_GRACE, None),
        (Stage("one", (job(),)), PAST_GRACE, None),
        (Stage("one", (finished(),)), SOON, None),
        (Stage("one", (finished(),)), PAST_GRACE, Status.FAILED),
        (Stage("one", (job(state=MISSING),)), PAST_GRACE, None),
        # a finished job
        (Stage("one", (finished(LAUNCHED, LAUNCHED),)), START, Status.SUCCEEDED),
        (Stage("one", (finished(LAUNCHED, FAILED),)), START, Status.PARTIAL),
        (Stage("one", (finished(FAILED, FAILED),)), START, Status.FAILED),
        (Stage("one", (finished(CANCELLED, CANCELLED),)), START, Status.CANCELLED),
        (Stage("one", (finished(CANCELLED, FAILED),)), START, Status.FAILED),
        (Stage("one", (finished(CANCELLED, LAUNCHED),)), START, Status.PARTIAL),
        (Stage("one", (finished(LAUNCHED, PENDING),)), SOON, None),
        (Stage("one", (finished(LAUNCHED, PENDING),)), PAST_GRACE, Status.PARTIAL),
        # one that still runs may list more servers, or try one again
        (Stage("one", (job(LAUNCHED),)), PAST_GRACE, None),
        (Stage("one", (job(LAUNCHED),), ("s-1",)), START, Status.SUCCEEDED),
        (Stage("one", (job(LAUNCHED),), ("s-1", "s-2")), PAST_GRACE, None),
        (Stage("one", (job(LAUNCHED, FAILED),), ("s-1", "s-2")), PAST_GRACE, None),
        # the plan names a server that no job listed
        (Stage("one", (finished(LAUNCHED),), ("s-1", "s-2")), SOON, None),
        (Stage("one", (finished(LAUNCHED),), ("s-1", "s-2")), PAST_GRACE, Status.PARTIAL),
        # forgotten by the source after its servers had ended, and before
        (Stage("one", (job(LAUNCHED, state=MISSING, finished_at=START),)), START, Status.SUCCEEDED),
        (Stage("one", (job(LAUNCHED, PENDING, state=MISSING),)), PAST_GRACE, None),
        (Stage("one", (job(state=MISSING, finished_at=START),)), PAST_GRACE, None),
        (Stage("one", (job(FAILED, state=MISSING, finished_at=START),)), START, Status.FAILED),
        # one that was forgotten while it ran may have tried again, or listed more; only the plan can show
        (Stage("one", (job(FAILED, state=MISSING),)), PAST_GRACE, None),
        (Stage("one", (job(LAUNCHED, state=MISSING),)), PAST_GRACE, None),
        (Stage("one", (job(LAUNCHED, state=MISSING),), ("s-1",)), START, Status.SUCCEEDED),
    ],
)
def test_a_wave_has_ended_when_that_is_certain(wave: Stage, at: int, status: Status | None) -> None:
    assert status_of(stage_outcome(wave, Mode.DRILL, at)) is status


def test_a_wave_of_several_jobs_ends_with_the_last_of_them() -> None:
    first, other = finished(LAUNCHED), WorkItem("s-9", LAUNCHED, since=START)
    running = Job("j-2", JobState.STARTED, (other,), since=START)

    assert stage_outcome(Stage("one", (first, running)), Mode.DRILL, PAST_GRACE) is None
    over = replace(running, state=JobState.FINISHED, finished_at=START)
    assert status_of(stage_outcome(Stage("one", (first, over)), Mode.DRILL, START)) is Status.SUCCEEDED


def test_a_forgotten_job_is_reported_in_a_warning() -> None:
    outcome = stage_outcome(
        Stage("one", (job(LAUNCHED, state=MISSING, finished_at=START),)), Mode.DRILL, START
    )

    assert outcome is not None
    assert outcome.warnings == ("job j-1 is no longer listed; its servers had ended",)


GOOD, BAD, OPEN = (
    Stage("a", (finished(LAUNCHED),)),
    Stage("b", (finished(FAILED),)),
    Stage("c", (job(PENDING),)),
)


@pytest.mark.parametrize(
    ("waves", "total", "status"),
    [
        ((), None, None),
        ((), 0, None),
        ((GOOD,), None, None),  # it is not certain that there are no more
        ((GOOD,), 2, None),
        ((GOOD,), 1, Status.SUCCEEDED),
        ((GOOD, GOOD), 2, Status.SUCCEEDED),
        ((GOOD, OPEN), 2, None),
        ((GOOD, OPEN), 1, None),
        ((GOOD, BAD), 2, Status.PARTIAL),
        ((BAD,), 1, Status.FAILED),
        ((GOOD, Stage("d")), 2, None),
    ],
)
def test_an_execution_ends_when_all_its_waves_are_known_and_have_ended(
    waves: tuple[Stage, ...], total: int | None, status: Status | None
) -> None:
    assert status_of(execution_outcome(execution(*waves, total_stages=total), START)) is status


def test_a_verdict_carries_its_evidence_and_there_is_none_without() -> None:
    over = execution(GOOD)

    found = decide_verdict(over, EVIDENCE, START)

    assert found is not None
    assert (found.status, found.evidence, found.late, found.corrects) == (
        Status.SUCCEEDED,
        EVIDENCE,
        False,
        None,
    )
    assert decide_verdict(over, (), START) is None


@pytest.mark.parametrize(("after", "late"), [(30 * MINUTE, False), (30 * MINUTE + 1, True)])
def test_an_end_past_the_deadline_is_late(after: int, late: bool) -> None:
    found = decide_verdict(execution(GOOD), EVIDENCE, START + after)

    assert found is not None
    assert found.late is late


def test_a_deadline_decides_nothing() -> None:
    assert decide_verdict(drill(IN_PROGRESS), EVIDENCE, START + 10_000 * MINUTE) is None


def test_a_verdict_has_a_reason() -> None:
    found = decide_verdict(execution(BAD), EVIDENCE, START)

    assert found is not None
    assert found.message == "s-1: launch failed"


def test_a_later_response_corrects_a_verdict() -> None:
    verdict = decide_verdict(execution(BAD), EVIDENCE, START)
    assert verdict is not None
    closed = execution(GOOD, verdict=verdict, closed=True)

    later = decide_verdict(closed, EVIDENCE, START + MINUTE)

    assert later is not None
    assert later.corrects is Status.FAILED


@pytest.mark.parametrize(
    ("wave", "assumed"),
    [
        (Stage("one", (finished(LAUNCHED, FAILED),)), ()),
        (Stage("one", (finished(LAUNCHED, PENDING),)), ("s-2 has ended, last reported as pending",)),
        (Stage("one", (finished(IN_PROGRESS),)), ("s-1 has ended, last reported as in_progress",)),
        (Stage("one", (finished(PENDING, cancelled=True),)), ("s-1 has ended, last reported as pending",)),
        (Stage("one", (finished(LAUNCHED),), ("s-1", "s-2")), ("s-2 has ended, last reported as pending",)),
        (Stage("one", (finished(),)), ("wave one has no server",)),
    ],
)
def test_a_verdict_names_the_facts_that_it_assumes(wave: Stage, assumed: tuple[str, ...]) -> None:
    found = decide_verdict(execution(wave, GOOD), EVIDENCE, PAST_GRACE)

    assert found is not None
    assert found.assumed == assumed


JOBS = st.builds(
    lambda states, state, job_id: job(*states, state=state, job_id=job_id),
    st.lists(st.sampled_from(ItemState), max_size=3),
    st.sampled_from(JobState),
    st.sampled_from(["j-1", "j-2", "j-3"]),
)
WAVES = st.builds(
    lambda jobs, plan: Stage("w", tuple(jobs), tuple(plan)),
    st.lists(JOBS, max_size=3),
    st.lists(st.sampled_from(["s-1", "s-2", "s-9"]), unique=True, max_size=2),
)


@settings(max_examples=200)
@given(waves=st.lists(WAVES, max_size=3), mode=st.sampled_from(Mode), after=st.integers(0, 2 * GRACE_MS))
def test_no_execution_succeeds_while_a_server_of_it_has_not(
    waves: list[Stage], mode: Mode, after: int
) -> None:
    outcome = execution_outcome(execution(*waves, mode=mode), START + after)

    if outcome is not None and outcome.status is Status.SUCCEEDED:
        seen = [server for _, server in _of(waves).items()]
        assert seen
        assert all(wave.jobs for wave in waves)
        assert {server.state for server in seen} <= {LAUNCHED, TERMINATED}


@settings(max_examples=200)
@given(waves=st.lists(WAVES, max_size=3), mode=st.sampled_from(Mode), after=st.integers(0, GRACE_MS))
def test_a_certain_outcome_stays_certain(waves: list[Stage], mode: Mode, after: int) -> None:
    now = execution_outcome(_of(waves, mode), START + after)

    if now is not None:
        assert execution_outcome(_of(waves, mode), START + after + 10 * MINUTE) == now


def _of(waves: list[Stage], mode: Mode = Mode.DRILL) -> Execution:
    return execution(*waves, mode=mode)
