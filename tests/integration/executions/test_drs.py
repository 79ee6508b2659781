"""The source polls DRS through the real client, over the wire; the simulator follows the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longwatch.executions.model import Execution, ItemState, Job, JobState, Stage, StepState
from longwatch.executions.poller import Poller
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.drs import JOBS_AT_ONCE, MAX_EMPTY_PAGES, MAX_LOG_PAGES, DrsSource
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.drs import DrsSimulator, LogScript, drill, recovery


def watching(*job_ids: str, execution_id: str = "x-1", region: str | None = "eu-west-1") -> Execution:
    jobs = tuple(Job(job_id, region=region) for job_id in job_ids)
    return Execution(execution_id=execution_id, plan_id="p-1", started_at=0, stages=(Stage("one", jobs),))


def response_of(source: DrsSource, execution: Execution) -> SourceResponse:
    result = source.poll([execution])[execution.key]
    assert isinstance(result, SourceResponse), result
    return result


def problem_of(source: DrsSource, execution: Execution) -> SourceProblem:
    result = source.poll([execution])[execution.key]
    assert isinstance(result, SourceProblem), result
    return result


def test_a_drill_is_seen_as_it_progresses(source: DrsSource, drs: DrsSimulator, clock: FakeClock) -> None:
    job_id = drs.play(drill("s-1"))
    seen = []

    for seconds in (0, 808, 376):
        clock.advance(seconds)
        seen.append(response_of(source, watching(job_id)).jobs[job_id])

    assert [(job.state, job.items[0].state) for job in seen] == [
        (JobState.PENDING, ItemState.PENDING),
        (JobState.STARTED, ItemState.IN_PROGRESS),
        (JobState.FINISHED, ItemState.DONE),
    ]
    assert seen[-1].items[0].instance_id == "i-00000000000000001"


def test_launch_actions_of_a_recovery_are_seen(
    source: DrsSource, drs: DrsSimulator, clock: FakeClock
) -> None:
    job_id = drs.play(recovery("s-1", pending=1, active=1, actions={"install": 5}))
    clock.advance(3)

    (action,) = response_of(source, watching(job_id)).jobs[job_id].items[0].steps

    assert (action.name, action.state) == ("install", StepState.IN_PROGRESS)


def test_a_job_that_does_not_exist_is_missing(source: DrsSource, drs: DrsSimulator) -> None:
    listed, gone = drs.play(drill("s-1")), drs.play(drill("s-2"))
    drs.forget(gone)

    response = response_of(source, watching(listed, gone))

    assert set(response.jobs) == {listed}
    assert response.missing == {gone}


def test_many_executions_take_one_call(source: DrsSource, drs: DrsSimulator) -> None:
    all_ = [watching(drs.play(drill("s-1")), execution_id=f"x-{n}") for n in range(50)]

    results = source.poll(all_)

    assert len(results) == 50
    assert all(isinstance(each, SourceResponse) and len(each.jobs) == 1 for each in results.values())
    assert drs.calls["DescribeJobs"] == 1


def test_more_ids_than_one_call_accepts_are_requested_in_batches(clock: FakeClock, connect: Any) -> None:
    ids = [f"drsjob-{n:017}" for n in range(JOBS_AT_ONCE + 1)]
    source = DrsSource(connect, clock=clock)

    response = response_of(source, watching(*ids))

    assert response.missing == set(ids)
    assert source.calls == 2
    source.close()


def test_all_pages_are_read(clock: FakeClock, connect: Any, drs: DrsSimulator) -> None:
    drs._page = 2
    ids = [drs.play(drill("s-1")) for _ in range(5)]
    source = DrsSource(connect, clock=clock)

    response = response_of(source, watching(*ids))

    assert set(response.jobs) == set(ids)
    assert drs.calls["DescribeJobs"] == 3
    source.close()


def test_throttling_is_a_problem_with_the_requested_pause(source: DrsSource, drs: DrsSimulator) -> None:
    drs.throttle(retry_after=7)

    problem = problem_of(source, watching("drsjob-00000000000000001"))

    assert (problem.throttled, problem.retry_after_seconds) == (True, 7.0)
    assert problem.message.startswith("DRS in eu-west-1 returned ThrottlingException")


@pytest.mark.parametrize(
    ("shape", "pause"),
    [("InternalServerException", {"retryAfterSeconds": 3}), ("UninitializedAccountException", {})],
)
def test_an_error_is_a_problem_and_nothing_is_raised(
    source: DrsSource, drs: DrsSimulator, shape: str, pause: dict[str, int]
) -> None:
    drs.fail(shape, **pause)

    problem = problem_of(source, watching("drsjob-00000000000000001"))

    assert shape in problem.message
    assert (problem.throttled, problem.retry_after_seconds) == (False, pause.get("retryAfterSeconds"))


def test_a_lost_response_is_a_problem(source: DrsSource, drs: DrsSimulator) -> None:
    drs.lose_answers()

    assert "is unreachable" in problem_of(source, watching("drsjob-00000000000000001")).message


def test_an_id_that_the_service_refuses_affects_no_other(source: DrsSource, drs: DrsSimulator) -> None:
    good = [watching(drs.play(drill("s-1")), execution_id=f"x-{n}") for n in range(5)]
    bad = watching("not a job", execution_id="x-bad")

    results = source.poll([*good[:2], bad, *good[2:]])

    assert isinstance(results[bad.key], SourceProblem)
    assert all(isinstance(results[each.key], SourceResponse) for each in good)


def test_each_region_is_polled_by_itself(clock: FakeClock, connect: Any, drs: DrsSimulator) -> None:
    regions: list[str | None] = []

    def noting(region: str | None, account: str | None) -> Any:
        regions.append(region)
        return connect(region)

    source = DrsSource(noting, clock=clock)
    source.poll([watching("drsjob-00000000000000001", region=None), watching("drsjob-00000000000000002")])

    assert regions == [None, "eu-west-1"]
    source.close()


def test_an_execution_without_jobs_needs_no_call(source: DrsSource) -> None:
    response = response_of(source, watching())

    assert (response.jobs, response.missing, source.calls) == ({}, frozenset(), 0)


def test_a_failed_server_has_its_reason(source: DrsSource, drs: DrsSimulator, clock: FakeClock) -> None:
    script = drill("s-1", "s-2", "s-3", pending=1, active=1)
    script = script.without("s-2", after=1, event="CONVERSION_FAIL", error="no capacity").without("s-3")
    job_id = drs.play(script)
    clock.advance(60)

    response = response_of(source, watching(job_id))

    assert [server.reason for server in response.jobs[job_id].items] == [
        None,
        "the conversion failed: no capacity",
        "the launch failed: launch failed",
    ]
    assert response.warnings == ()
    assert drs.calls["DescribeJobLogItems"] == 1


def test_a_log_is_read_only_once_a_job_has_failed(
    source: DrsSource, drs: DrsSimulator, clock: FakeClock
) -> None:
    good = drs.play(drill("s-1", pending=1, active=1))
    bad = drs.play(drill("s-1", "s-2", pending=1, active=1).without("s-2"))

    response_of(source, watching(good, bad))
    clock.advance(60)
    response_of(source, watching(good))

    assert drs.calls["DescribeJobLogItems"] == 0


def test_a_cancelled_job_is_recognised_by_its_log(
    source: DrsSource, drs: DrsSimulator, clock: FakeClock
) -> None:
    job_id = drs.play(drill("s-1").cancelled(after=30))
    clock.advance(60)

    job = response_of(source, watching(job_id)).jobs[job_id]

    assert (job.state, job.cancelled, job.items[0].state) == (JobState.FINISHED, True, ItemState.PENDING)


def test_all_pages_of_a_log_are_read(clock: FakeClock, connect: Any, drs: DrsSimulator) -> None:
    drs._page = 2
    names = [f"s-{number}" for number in range(6)]
    script = drill(*names, pending=1, active=1)
    for name in names:
        script = script.without(name, error=f"{name} is broken")
    job_id = drs.play(script)
    clock.advance(60)
    source = DrsSource(connect, clock=clock)

    job = response_of(source, watching(job_id)).jobs[job_id]

    assert [server.reason for server in job.items] == [
        f"the launch failed: {name} is broken" for name in names
    ]
    assert drs.calls["DescribeJobLogItems"] == 4
    source.close()


def test_a_log_without_an_end_is_read_in_part_and_marked_incomplete(
    clock: FakeClock, connect: Any, drs: DrsSimulator
) -> None:
    drs._page = 1
    noise = [LogScript(after=1, event="SNAPSHOT_START", server_id="s-1") for _ in range(MAX_LOG_PAGES)]
    script = drill("s-1", pending=1, active=1).without("s-1")
    job_id = drs.play(replace(script, log=noise))
    clock.advance(60)
    source = DrsSource(connect, clock=clock)

    response = response_of(source, watching(job_id))

    assert drs.calls["DescribeJobLogItems"] == MAX_LOG_PAGES
    (warning,) = response.warnings
    assert warning == f"the log of {job_id} has more than {MAX_LOG_PAGES} pages; the rest was not read"
    source.close()


def test_a_missing_permission_for_the_log_is_a_warning_in_the_evidence_and_not_a_problem(
    source: DrsSource, drs: DrsSimulator, clock: FakeClock
) -> None:
    job_id = drs.play(drill("s-1", "s-2", pending=1, active=1).without("s-2"))
    drs.deny("DescribeJobLogItems")
    clock.advance(60)

    response = response_of(source, watching(job_id))

    assert [server.state for server in response.jobs[job_id].items] == [
        ItemState.DONE,
        ItemState.FAILED,
    ]
    warning = f"the log of {job_id} was not read: drs:DescribeJobLogItems returned AccessDeniedException"
    assert response.evidence.fields["warnings"] == [warning]


def test_the_reason_is_in_the_verdict_and_in_the_journal(
    source: DrsSource, drs: DrsSimulator, clock: FakeClock
) -> None:
    job_id = drs.play(drill("s-1", pending=1, active=1).without("s-1", error="no capacity"))
    store, journal = MemoryExecutionStore(), MemoryJournal()
    begun = replace(watching(job_id), started_at=clock.now_ms(), total_stages=1)
    store.add(begun)
    clock.advance(60)

    polled = Poller(store, journal, {"drs": source}, clock=clock).poll("x-1")

    assert polled.execution.verdict is not None
    assert polled.execution.verdict.message == "s-00000000000000001: the launch failed: no capacity"
    reasons = [event.payload.get("reason") for event in journal.read("p-1/x-1").events]
    assert "the launch failed: no capacity" in reasons


def test_the_real_client_pages_and_reads_the_log(client: Any, drs: DrsSimulator, clock: FakeClock) -> None:
    job_id = drs.play(drill("s-1", "s-2", pending=1, active=1).without("s-2"))
    drs.play(drill("s-3"))
    clock.advance(60)

    pages = list(client.get_paginator("describe_jobs").paginate(PaginationConfig={"PageSize": 1}))
    log = client.describe_job_log_items(jobID=job_id)["items"]

    assert [len(page["items"]) for page in pages] == [1, 1]
    assert [item["event"] for item in log] == ["JOB_START", "LAUNCH_FAILED", "JOB_END"]


def test_an_orchestrator_under_test_can_start_a_drill(client: Any, drs: DrsSimulator) -> None:
    response = client.start_recovery(sourceServers=[{"sourceServerID": "s-00000000000000001"}], isDrill=True)

    assert response["job"]["initiatedBy"] == "START_DRILL"
    assert response["job"]["status"] == "PENDING"


def test_an_operation_that_is_not_simulated_is_refused_with_the_service_s_error(client: Any) -> None:
    with pytest.raises(client.exceptions.InternalServerException, match="not simulated"):
        client.describe_source_servers()


def test_time_can_be_sped_up(connect: Any, clock: FakeClock) -> None:
    with DrsSimulator(clock=clock, speed=600) as fast:
        job_id = fast.play(drill("s-1"))
        clock.advance(2)

        reply = fast.reply("POST", "/DescribeJobs", {}, b"{}")

    assert reply is not None
    assert b'"COMPLETED"' in reply.body
    assert job_id.encode() in reply.body


def test_a_response_is_dated_by_the_service_and_scheduled_by_the_poller(
    connect: Any, drs: DrsSimulator, clock: FakeClock
) -> None:
    ahead = FakeClock(clock.now_ms() + 600_000)
    source = DrsSource(connect, clock=ahead)

    response = response_of(source, watching(drs.play(drill("s-1"))))

    assert clock.now_ms() <= response.at < clock.now_ms() + 1_000
    assert response.polled_at == ahead.now_ms()
    source.close()


def test_a_page_for_each_job_is_read_to_the_end(clock: FakeClock, connect: Any, drs: DrsSimulator) -> None:
    drs._page = 1
    ids = [drs.play(drill("s-1")) for _ in range(MAX_EMPTY_PAGES + 20)]
    source = DrsSource(connect, clock=clock)

    response = response_of(source, watching(*ids))

    assert set(response.jobs) == set(ids)
    assert drs.calls["DescribeJobs"] == len(ids)
    source.close()
