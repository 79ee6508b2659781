"""The Lambda function that polls one execution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from longwatch.aws.poller import (
    handler,
    open_poller,
    own_account,
    poll,
    sources,
)
from longwatch.errors import AmbiguousExecution, ExecutionNotFound, InvalidInput, Unreachable
from longwatch.executions.model import Execution, ExecutionKey, Job, JobState, Stage
from longwatch.executions.poller import Poller
from longwatch.executions.sources.base import Source, SourceProblem, SourceResult
from longwatch.executions.sources.shipped import AWS
from longwatch.executions.stores.factory import open_executions
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.journal.base import Journal
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal
from longwatch.testing.drs import DrsSimulator
from longwatch.testing.drs import drill as drill_script
from tests.unit.executions.samples import IN_PROGRESS, LAUNCHED, PENDING, START, drill, job, response

EVENT = {"execution_id": "x-1", "plan_id": "p-1"}
FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:poller"


class Scripted:
    """A source that always returns one result."""

    name = "drs"

    def __init__(self, result: SourceResult) -> None:
        self.result = result

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {each.key: self.result for each in executions}

    def close(self) -> None:
        """Nothing to close."""


class Invoked:
    """Lambda's context."""

    invoked_function_arn = FUNCTION


def poller(source: Source, journal: Journal | None = None) -> tuple[Poller, MemoryExecutionStore]:
    store = MemoryExecutionStore()
    store.add(drill(IN_PROGRESS))
    return Poller(store, journal or MemoryJournal(), {"drs": source}, clock=FakeClock(START + 1_000)), store


def metric_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    made: dict[str, Any] = json.loads(line)
    return made


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    open_poller.cache_clear()
    yield monkeypatch
    open_poller.cache_clear()


def test_a_poll_returns_its_result_and_reports_it_as_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = poller(Scripted(response(START + 1_000, job(LAUNCHED, state=JobState.FINISHED))))

    result = poll(EVENT, made, "test")

    assert result == {
        "execution_id": "x-1",
        "plan_id": "p-1",
        "result": "ended",
        "status": "succeeded",
        "phase": "started",  # when it was polled
        "transitions": 4,
        "problem": None,
    }
    line = metric_line(capsys)
    assert (line["Environment"], line["Result"], line["ExecutionsEnded"]) == ("test", "ended", 1)


def test_a_source_that_does_not_respond_is_not_a_failure_of_the_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, store = poller(Scripted(SourceProblem("DRS answered ThrottlingException", 7.0, True)))

    result = poll(EVENT, made, "test")

    found = store.get("x-1")
    assert found is not None
    assert (result["result"], result["problem"]) == ("unanswered", "DRS answered ThrottlingException")
    assert (found.closed, found.failures, found.lease_holder) == (False, 1, None)
    assert metric_line(capsys)["PollErrors"] == 1


def test_a_journal_that_does_not_respond_is_a_failure_and_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = FaultyJournal()
    journal.fail(error=Unreachable("no journal"))
    made, store = poller(Scripted(response(START, job(LAUNCHED, state=JobState.FINISHED))), journal)

    with pytest.raises(Unreachable):
        poll(EVENT, made, "test")

    line = metric_line(capsys)
    assert (line["Result"], line["PollErrors"], line["ExecutionId"]) == ("failed", 1, "x-1")
    found = store.get("x-1")
    assert found is not None
    assert not found.closed  # its lease ends, and another poll takes it up


def test_an_event_without_a_plan_is_refused_where_two_plans_have_the_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, store = poller(Scripted(response(START, job(LAUNCHED, state=JobState.FINISHED))))
    store.add(replace(drill(PENDING), plan_id="p-2"))

    with pytest.raises(AmbiguousExecution):
        poll({"execution_id": "x-1"}, made, "test")

    assert metric_line(capsys)["Problem"].startswith("AmbiguousExecution: 2 plans have an execution 'x-1'")
    assert [each.last_polled_at for each in store.find()] == [None, None]


def test_a_missing_execution_fails_the_invocation(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = poller(Scripted(response(START)))

    with pytest.raises(ExecutionNotFound):
        poll({"execution_id": "x-2", "plan_id": "p-1"}, made, "test")

    assert metric_line(capsys)["Problem"].startswith("ExecutionNotFound")


@pytest.mark.parametrize("event", [{}, {"execution_id": ""}, {"execution_id": 7}])
def test_an_event_that_names_no_execution_is_refused_with_what_to_send(event: dict[str, Any]) -> None:
    made, _ = poller(Scripted(response(START)))

    with pytest.raises(InvalidInput, match="Send execution_id and plan_id"):
        poll(event, made, "test")


def test_lambda_itself_polls_the_drs_that_the_environment_names(environment: pytest.MonkeyPatch) -> None:
    with DrsSimulator() as drs:
        environment.setenv("LONGWATCH_EXECUTIONS", "memory://poller")
        environment.setenv("LONGWATCH_JOURNAL", "memory://poller")
        environment.setenv("AWS_ENDPOINT_URL_DRS", drs.url)
        job_id = drs.play(drill_script("s-1", pending=0, active=0))
        waves = (Stage("one", (Job(job_id, region="eu-west-1", account="123456789012"),)),)
        open_executions("memory://poller").add(replace(drill(), stages=waves, total_stages=1))

        result = handler(EVENT, Invoked())

    assert (result["result"], result["status"]) == ("ended", "succeeded")
    assert drs.calls == {"DescribeJobs": 1}


def test_the_poller_is_reused_and_its_lease_names_the_log(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("LONGWATCH_JOURNAL", "memory://holder")
    environment.setenv("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/16/[$LATEST]abc")

    first = open_poller("1")
    again = open_poller("1")
    open_poller.cache_clear()
    anew = open_poller("1")

    assert first is again
    assert first.holder.startswith("2026/11/16/[$LATEST]abc-")
    assert first.holder != anew.holder  # another container, even with the same log


def test_a_poller_that_learns_polls_as_well(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("LONGWATCH_EXECUTIONS", "memory://learning")
    environment.setenv("LONGWATCH_JOURNAL", "memory://learning")
    environment.setenv("LONGWATCH_LEARNED_CADENCE", "true")
    open_executions("memory://learning").add(replace(drill(IN_PROGRESS), source="unheard-of"))

    result = handler(EVENT)

    assert result["result"] == "unanswered"
    assert "No source 'unheard-of' here" in result["problem"]


def test_every_declared_aws_service_can_be_polled_and_nothing_outside_aws(
    environment: pytest.MonkeyPatch,
) -> None:
    found = sources("123456789012")

    assert set(found) == {"drs", *AWS}
    assert {name: source.name for name, source in found.items()} == {name: name for name in found}


@pytest.mark.parametrize(("context", "account"), [(Invoked(), "123456789012"), (None, None)])
def test_the_account_is_that_of_the_function(context: Invoked | None, account: str | None) -> None:
    assert own_account(context) == account
