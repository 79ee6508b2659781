"""Metrics as documents in the log that CloudWatch understands (EMF)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longwatch.aws.metrics import (
    NAMESPACE,
    Document,
    Metric,
    document,
    failure_document,
    poll_document,
    tick_documents,
    write,
)
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.finder import Survey, Tick
from longwatch.executions.model import Mode, Verdict
from longwatch.executions.poller import PollReport, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.model.summary import Status
from tests.unit.executions.samples import EVIDENCE, IN_PROGRESS, LAUNCHED, START, drill

MOST_DIMENSIONS = 30  # in a set, as CloudWatch takes them
MOST_METRICS = 100  # in a directive


def measured(made: Document) -> dict[tuple[str, tuple[str, ...]], tuple[Any, str]]:
    """Every metric under each set of dimensions' values: its value and unit. What CloudWatch reads."""
    found: dict[tuple[str, tuple[str, ...]], tuple[Any, str]] = {}
    about: Any = made["_aws"]
    for directive in about["CloudWatchMetrics"]:
        assert directive["Namespace"] == NAMESPACE
        assert len(directive["Metrics"]) <= MOST_METRICS
        for names in directive["Dimensions"]:
            assert len(names) <= MOST_DIMENSIONS
            values = tuple(f"{name}={made[name]}" for name in names)
            for metric in directive["Metrics"]:
                assert (metric["Name"], values) not in found, "a metric is reported twice"
                found[metric["Name"], values] = made[metric["Name"]], metric["Unit"]
    return found


def polled(result: Result, **more: Any) -> PollReport:
    execution = more.pop("execution", drill(IN_PROGRESS))
    return PollReport(execution=execution, result=result, phase=ExecutionPhase.STARTED, seconds=0.25, **more)


ALL = ("Environment=test",)


class TestADocument:
    def test_names_its_time_namespace_metrics_and_dimensions(self) -> None:
        made = document(
            START,
            [
                Metric("One", "Count", 1),
                Metric("Two", "Seconds", 2.5),
                Metric("Three", "Count", 3, (("Environment",), ("Environment", "Phase"))),
            ],
            {"Environment": "test", "Phase": "pending", "Note": "for log queries"},
        )

        assert made == {
            "_aws": {
                "Timestamp": START,
                "CloudWatchMetrics": [
                    {
                        "Namespace": "longwatch/Executions",
                        "Dimensions": [["Environment"]],
                        "Metrics": [{"Name": "One", "Unit": "Count"}, {"Name": "Two", "Unit": "Seconds"}],
                    },
                    {
                        "Namespace": "longwatch/Executions",
                        "Dimensions": [["Environment"], ["Environment", "Phase"]],
                        "Metrics": [{"Name": "Three", "Unit": "Count"}],
                    },
                ],
            },
            "Environment": "test",
            "Phase": "pending",
            "Note": "for log queries",
            "One": 1,
            "Two": 2.5,
            "Three": 3,
        }

    def test_is_one_line_on_standard_output(self, capsys: pytest.CaptureFixture[str]) -> None:
        made = document(START, [Metric("One", "Count", 1)], {"Environment": "test", "Note": "two\nlines"})

        write(made)

        captured = capsys.readouterr()
        assert captured.out.count("\n") == 1
        assert json.loads(captured.out) == made
        assert captured.err == ""


class TestAFinderPoll:
    def test_is_reported_for_all_and_for_each_type(self) -> None:
        survey = Survey(
            due=(drill(IN_PROGRESS),),
            leased=1,
            waiting=2,
            unwatched=1,
            modes={Mode.RECOVERY: 1, Mode.DRILL: 3},
            oldest_ms=61_500,
        )

        everything, *types = tick_documents(Tick(survey=survey, dispatched=1, failed=2), START, "test")

        assert measured(everything) == {
            ("ActivePollingExecutions", ALL): (4, "Count"),
            ("OldestOpenSeconds", ALL): (61.5, "Seconds"),
            ("UnwatchedExecutions", ALL): (1, "Count"),
            ("HandedOut", ALL): (1, "Count"),
            ("HandOutFailures", ALL): (2, "Count"),
        }
        assert [measured(each) for each in types] == [
            {("ActivePollingExecutions", (*ALL, "ExecutionType=DRILL")): (3, "Count")},
            {("ActivePollingExecutions", (*ALL, "ExecutionType=RECOVERY")): (1, "Count")},
        ]

    def test_that_finds_nothing_reports_zero_and_names_no_type(self) -> None:
        (everything,) = tick_documents(Tick(survey=Survey()), START, "test")

        assert {value for value, _ in measured(everything).values()} == {0}

    def test_resets_a_type_that_was_reported_before_to_zero(self) -> None:
        _, again = tick_documents(Tick(survey=Survey()), START, "test", modes=[Mode.DRILL])

        assert measured(again) == {("ActivePollingExecutions", (*ALL, "ExecutionType=DRILL")): (0, "Count")}


class TestAPoll:
    def test_that_got_a_response_is_reported_with_its_phase_and_result(self) -> None:
        made = poll_document(polled(Result.POLLED, appended=3), START, "test")

        assert measured(made) == {
            ("Polls", ALL): (1, "Count"),
            ("Polls", (*ALL, "Result=asked")): (1, "Count"),
            ("PollErrors", ALL): (0, "Count"),
            ("DetectedTransitions", ALL): (3, "Count"),
            ("PollingDuration", ALL): (250.0, "Milliseconds"),
            ("PollingDuration", (*ALL, "Phase=started")): (250.0, "Milliseconds"),
        }
        assert (made["ExecutionId"], made["PlanId"], made["Status"]) == ("x-1", "p-1", "running")

    @pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.PARTIAL, Status.FAILED, Status.CANCELLED])
    def test_that_ended_an_execution_reports_its_outcome(self, status: Status) -> None:
        over = drill(LAUNCHED, verdict=Verdict(status, START, EVIDENCE), closed=True)

        made = measured(poll_document(polled(Result.ENDED, execution=over), START, "test"))

        assert made["ExecutionsEnded", (*ALL, f"Status={status}")] == (1, "Count")

    def test_that_ended_an_execution_counts_its_warnings(self) -> None:
        verdict = Verdict(Status.SUCCEEDED, START, EVIDENCE, warnings=("a", "b"))

        made = measured(
            poll_document(
                polled(Result.ENDED, execution=drill(LAUNCHED, verdict=verdict, closed=True)), START, "test"
            )
        )

        assert made["ExecutionWarnings", ALL] == (2, "Count")

    def test_that_got_no_response_is_an_error(self) -> None:
        problem = SourceProblem("DRS answered ThrottlingException", 5.0, True)

        made = poll_document(polled(Result.NO_RESPONSE, problem=problem), START, "test")

        assert measured(made)["PollErrors", ALL] == (1, "Count")
        assert (made["Problem"], made["Throttled"]) == ("DRS answered ThrottlingException", True)

    @pytest.mark.parametrize("result", [Result.BUSY, Result.EARLY, Result.CLOSED])
    def test_that_found_nothing_to_do_is_counted_and_not_timed(self, result: Result) -> None:
        made = measured(poll_document(polled(result), START, "test"))

        assert made["Polls", (*ALL, f"Result={result}")] == (1, "Count")
        assert not [name for name, _ in made if name in ("PollingDuration", "ExecutionsEnded")]
        assert made["PollErrors", ALL] == (0, "Count")

    def test_that_failed_is_an_error_with_its_reason(self) -> None:
        made = failure_document(RuntimeError("no table"), START, "test", execution_id="x-1", plan_id=None)

        assert measured(made) == {
            ("Polls", ALL): (1, "Count"),
            ("Polls", (*ALL, "Result=failed")): (1, "Count"),
            ("PollErrors", ALL): (1, "Count"),
            ("DetectedTransitions", ALL): (0, "Count"),
        }
        assert (made["Problem"], made["ExecutionId"]) == ("RuntimeError: no table", "x-1")

    @pytest.mark.parametrize("result", Result)
    def test_of_every_result_makes_a_document_that_json_can_hold(self, result: Result) -> None:
        made = poll_document(polled(result), START, "test")

        assert json.loads(json.dumps(made)) == made
        assert measured(made)
