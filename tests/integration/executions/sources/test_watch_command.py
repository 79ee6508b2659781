"""`longwatch watch` with the address of something in another system, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from longwatch.cli.render.external_views import SourceLines, picture
from longwatch.cli.watch_external import SourceWatch, WatchLimits
from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.executions.model import (
    Execution,
    ExecutionKey,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    Step,
    StepState,
    WorkItem,
)
from longwatch.executions.poller import Poller
from longwatch.executions.sources.base import SourceResult
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.drs import DrsSimulator, drill
from longwatch.testing.services import AwsService
from tests.integration.executions.sources.shell import BUILD, Shell, build


def test_a_build_is_watched_to_its_end_and_recorded(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", *[build("IN_PROGRESS")] * 3, build("SUCCEEDED"))

    watched = shell.watch(BUILD)
    listed = json.loads(shell("executions", "list", "-o", "json").stdout)
    explained = shell("executions", "explain", BUILD)
    shown = json.loads(shell("show", BUILD, "-o", "json").stdout)

    assert watched.return_value == 0
    assert watched.stderr == f"longwatch: run {BUILD} succeeded\n"
    lines = [line.split(maxsplit=2)[1:] for line in watched.stdout.splitlines()]
    assert lines == [
        ["execution_started", "demo (codebuild JOB)"],
        ["job_transition", "started (IN_PROGRESS) demo:1"],
        ["server_transition", "in_progress demo:1"],
        ["job_transition", "finished (SUCCEEDED) demo:1"],
        ["server_transition", "done (SUCCEEDED) demo:1"],
        ["execution_ended", "succeeded"],
    ]
    assert [(each["execution_id"], each["status"]) for each in listed] == [(BUILD, "succeeded")]
    assert "codebuild:BatchGetBuilds" in explained.stdout
    assert "execution" in json.dumps(shown)


@pytest.mark.parametrize(
    ("status", "statuses"),
    [("FAILED", "failed: demo:1: its status is FAILED"), ("STOPPED", "was cancelled: demo:1 was cancelled")],
)
def test_the_exit_code_is_one_for_a_failure(
    shell: Shell, codebuild: AwsService, status: str, statuses: str
) -> None:
    codebuild.answer("BatchGetBuilds", build(status))

    watched = shell.watch(BUILD)

    assert watched.return_value == 1
    assert watched.stderr == f"longwatch: run {BUILD} {statuses}\n"


def test_a_timeout_polls_once_more_and_fails_nothing(
    shell: Shell, codebuild: AwsService, clock: FakeClock
) -> None:
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))

    watched = shell.watch(BUILD, "--timeout", "20s")

    assert watched.return_value == 4
    assert "is still running; watched for 20.0 s" in watched.stderr
    assert len(codebuild.calls) == 4  # to begin, at once, after 15 s, and when the time is up


def test_an_end_that_the_poll_at_the_timeout_finds_counts(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", *[build("IN_PROGRESS")] * 2, build("SUCCEEDED"))

    assert shell.watch(BUILD, "--timeout", "5s").return_value == 0


def test_a_timeout_during_an_outage_leaves_the_status_unknown(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))
    shell.watch(BUILD, "--timeout", "1s")
    codebuild.lose_answers(50)

    watched = shell.watch(BUILD, "--timeout", "10s")

    assert watched.return_value == 3
    assert "status of run aws:codebuild:demo:1 is not known" in watched.stderr


def test_a_second_watch_resumes_where_the_first_stopped(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))
    shell.watch(BUILD, "--timeout", "1s")
    codebuild.answer("BatchGetBuilds", build("SUCCEEDED"))

    again = shell.watch(BUILD)

    assert again.return_value == 0
    assert again.stdout.count("execution_started") == 1
    assert len(json.loads(shell("executions", "list", "-o", "json").stdout)) == 1


def test_an_execution_that_has_ended_is_reported_again_and_corrected_if_necessary(
    shell: Shell, codebuild: AwsService
) -> None:
    codebuild.answer("BatchGetBuilds", build("FAILED"))
    shell.watch(BUILD)

    same = shell.watch(BUILD)
    codebuild.answer("BatchGetBuilds", build("SUCCEEDED"))
    otherwise = shell.watch(BUILD)

    assert (same.return_value, otherwise.return_value) == (1, 0)
    assert "execution_corrected" in otherwise.stdout


def test_an_execution_that_has_ended_is_reported_although_its_source_is_unavailable(
    shell: Shell, codebuild: AwsService
) -> None:
    codebuild.answer("BatchGetBuilds", build("SUCCEEDED"))
    shell.watch(BUILD)
    codebuild.lose_answers(50)

    watched = shell.watch(BUILD)

    assert watched.return_value == 0
    assert "the verdict could not be rechecked" in watched.stderr


def test_an_outage_is_reported_once_and_waited_out(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", *[build("IN_PROGRESS")] * 2, build("SUCCEEDED"))
    shell.watch(BUILD, "--timeout", "0s")
    codebuild.fail("ThrottlingException", "Rate exceeded", times=6)

    watched = shell.watch(BUILD)

    assert watched.return_value == 0
    assert (
        watched.stderr.count("no response: codebuild in the default region returned ThrottlingException") == 1
    )


def test_a_build_without_changes_is_given_up_and_stays_open(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))

    watched = shell.watch(BUILD, "--silent-after", "1m")

    assert watched.return_value == 3
    assert f"stopped watching run {BUILD}: nothing new for " in watched.stderr
    (listed,) = json.loads(shell("executions", "list", "-o", "json").stdout)
    assert listed["status"] == "running"


def test_an_id_that_the_source_does_not_know_is_reported_and_not_stored(
    shell: Shell, codebuild: AwsService
) -> None:
    codebuild.answer("BatchGetBuilds", {"builds": []})

    with pytest.raises(ExecutionNotFound, match="codebuild has no 'aws:codebuild:demo:1'"):
        shell.watch(BUILD)

    assert json.loads(shell("executions", "list", "-o", "json").stdout) == []


def test_an_unknown_id_is_waited_for_on_request(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", *[{"builds": []}] * 3, build("SUCCEEDED"))

    watched = shell.watch(BUILD, "--wait")

    assert watched.return_value == 0
    assert watched.stderr.count("waiting for aws:codebuild:demo:1: codebuild does not have it yet") == 1


def test_waiting_for_an_unknown_id_has_a_limit(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", {"builds": []})

    watched = shell.watch(BUILD, "--wait", "--timeout", "10s")

    assert watched.return_value == 4
    assert "has not started after" in watched.stderr


def test_a_permanent_problem_is_reported_at_once(shell: Shell, codebuild: AwsService) -> None:
    codebuild.fail("AccessDeniedException", "not authorized")

    with pytest.raises(InvalidInput, match="Allow codebuild:BatchGetBuilds"):
        shell.watch(BUILD, "--wait")


def test_a_source_that_is_unavailable_at_the_start_is_unreachable(shell: Shell) -> None:
    watched = shell.watch("http://127.0.0.1:9/job", "--timeout", "10s")

    assert watched.return_value == 3
    assert "is unreachable" in watched.stderr


def test_events_are_printed_as_json_lines(shell: Shell, codebuild: AwsService) -> None:
    codebuild.answer("BatchGetBuilds", build("SUCCEEDED"))

    watched = shell.watch(BUILD, "-o", "jsonl")

    events = [json.loads(line) for line in watched.stdout.splitlines()]
    assert {event["run_id"] for event in events} == {BUILD}
    assert events[-1]["type"] == "execution_ended"


def test_a_job_of_disaster_recovery_is_watched_by_its_id_alone(
    shell: Shell, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DrsSimulator(clock=clock) as drs:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", drs.url)
        job = drs.play(drill("s-1", "s-2", pending=60, active=60))

        watched = shell.watch(f"aws:drs:{job}")

    assert watched.return_value == 0
    assert watched.stdout.count(" launched") == 2


class Interrupted:
    """A source whose question is interrupted by Ctrl-C."""

    name = "interrupted"

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        raise KeyboardInterrupt

    def close(self) -> None:
        """Nothing is open."""


def test_an_interrupted_poll_leaves_no_lease(clock: FakeClock) -> None:
    store, journal = MemoryExecutionStore(), MemoryJournal()
    added = store.add(
        Execution(
            execution_id="x-1",
            plan_id="p-1",
            source="interrupted",
            mode=Mode.JOB,
            started_at=clock.now_ms(),
            stages=(Stage("only", (Job("j-1"),)),),
            total_stages=1,
        )
    )
    poller = Poller(store, journal, {"interrupted": Interrupted()}, clock=clock)
    watch = SourceWatch(store, journal, poller, SourceLines(lambda arrivals: None), clock=clock)

    with pytest.raises(KeyboardInterrupt):
        watch.run(added, WatchLimits())

    left = store.get("x-1")
    assert left is not None
    assert left.lease_holder is None


def test_a_picture_fits_the_screen_and_shows_the_last_steps(clock: FakeClock) -> None:
    now = clock.now_ms()
    steps = tuple(Step(f"STEP_{n}", f"s{n}", StepState.SUCCEEDED, since=now) for n in range(50))
    server = WorkItem("demo:1", ItemState.IN_PROGRESS, steps=steps, since=now)
    execution = Execution(
        execution_id="x-1",
        plan_id="p-1",
        source="codebuild",
        mode=Mode.JOB,
        started_at=now - 60_000,
        stages=(Stage("only", (Job("j-1", JobState.STARTED, (server,), since=now),)),),
        total_stages=1,
        last_polled_at=now,
        last_answer_at=now,
        last_change_at=now,
    )

    lines = picture(execution, [], ["longwatch: something"], now_ms=now, width=60, height=20)

    text = ["".join(segment.text for segment in line) for line in lines]
    assert len(text) <= 20
    assert max(len(line) for line in text) <= 60
    assert "STEP_49" in "\n".join(text)
    assert "next poll in 15 s" in text[-2]
