"""infrastructure/monitoring.yaml: it uses metrics that exist, and each alarm goes off when it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from longwatch.aws.metrics import NAMESPACE, failure_document, poll_document, tick_documents
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.finder import Finder, Tick
from longwatch.executions.model import Execution, Mode, Verdict
from longwatch.executions.poller import PollReport, Result
from longwatch.executions.stores.dynamodb import INDEX, TEMPLATE
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.stores.records import POLLING, STATUS_WORDS
from longwatch.model.summary import Status
from longwatch.testing import FakeClock
from tests.stack.alarms import PARAMETERS, Datum, alarms, data_of, metric_of, resources, state
from tests.stack.alarms import TEMPLATE as MONITORING
from tests.stack.templates import ROOT, load_template
from tests.unit.executions.samples import EVIDENCE, PENDING, START, drill

NOW = START / 1000 + 3_600  # the full hour, where periods end
ENVIRONMENT = PARAMETERS["Environment"]
POLLER = frozenset({("FunctionName", PARAMETERS["PollerFunctionName"])})
FINDER = frozenset({("FunctionName", PARAMETERS["FinderFunctionName"])})
TABLE = ("TableName", PARAMETERS["TableName"])
ON_THE_INDEX = frozenset({TABLE, ("GlobalSecondaryIndexName", INDEX)})
OURS = frozenset({("Environment", ENVIRONMENT)})
ENDS = tuple(STATUS_WORDS[word] for word in STATUS_WORDS if word != POLLING)  # all that a record can have

# What AWS's own services publish, with the dimensions that they publish it with.
OF_AWS = {
    *(
        ("AWS/Lambda", name, POLLER)
        for name in ("Invocations", "Errors", "Throttles", "ConcurrentExecutions")
    ),
    *(("AWS/Lambda", name, FINDER) for name in ("Errors", "Duration")),
    ("AWS/DynamoDB", "SuccessfulRequestLatency", frozenset({TABLE, ("Operation", "Query")})),
    *(("AWS/DynamoDB", name, ON_THE_INDEX) for name in ("ReadThrottleEvents", "WriteThrottleEvents")),
    *(
        ("AWS/DynamoDB", name, dimensions)
        for name in ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits")
        for dimensions in (ON_THE_INDEX, frozenset({TABLE}))
    ),
    (
        "AWS/SQS",
        "ApproximateNumberOfMessagesVisible",
        frozenset({("QueueName", PARAMETERS["DeadLetterQueueName"])}),
    ),
}


def ended(status: Status) -> Execution:
    return replace(drill(PENDING), verdict=Verdict(status, START, EVIDENCE), closed=True)


def documents() -> Iterator[dict[str, Any]]:
    """Everything that finder and poller can print."""
    open_ones = [replace(drill(PENDING, mode=mode), execution_id=f"x-{mode}") for mode in Mode]
    store = MemoryExecutionStore()
    for each in open_ones:
        store.add(each)
    ticks: list[Tick] = []
    Finder(store, lambda _: None, clock=FakeClock(), report=ticks.append).tick()
    for tick in ticks:
        yield from tick_documents(tick, START, ENVIRONMENT)
    for result in Result:
        for phase in ExecutionPhase:
            for status in ENDS:
                polled = PollReport(execution=ended(status), result=result, phase=phase)
                yield poll_document(polled, START, ENVIRONMENT)
    yield failure_document(OSError("no"), START, ENVIRONMENT, execution_id="x-1", plan_id="p-1")


EMITTED = {datum.metric for document in documents() for datum in data_of(document)}
MEMBERS = {name for document in documents() for name in document}


def test_every_alarm_uses_a_metric_that_is_published() -> None:
    metrics = {name: metric_of(alarm) for name, alarm in alarms().items()}

    assert {name for name, metric in metrics.items() if metric not in EMITTED | OF_AWS} == set()


def test_alarms_have_the_required_names_and_notify_the_topic_both_ways() -> None:
    in_test, in_production, silent = alarms(), alarms(Environment="production"), alarms(AlarmTopicArn="")

    assert {"ExecutionPollerErrors", "ExecutionStuckInPolling", "StatusIndexThrottling"} <= set(in_test)
    for name, alarm in in_test.items():
        assert alarm["AlarmName"] == f"{name}-test"
        assert in_production[name]["AlarmName"] == name
        assert alarm["AlarmActions"] == alarm["OKActions"] == [PARAMETERS["AlarmTopicArn"]]
        assert silent[name]["AlarmActions"] is silent[name]["OKActions"] is None


def test_its_parameters_are_outputs_of_the_watched_stack() -> None:
    watched = load_template(ROOT / TEMPLATE)
    parameters = set(load_template(MONITORING)["Parameters"]) - {"StuckAfterSeconds", "AlarmTopicArn"}

    assert parameters <= set(watched["Outputs"])
    for name in ("ExecutionFinder", "ExecutionPoller"):  # saved queries go by the function's name
        function = watched["Resources"][f"{name}Function"]["Properties"]["FunctionName"]["Fn::Sub"]
        group = watched["Resources"][f"{name}Logs"]["Properties"]["LogGroupName"]["Fn::Sub"]
        assert group == f"/aws/lambda/{function}"


def test_the_pages_have_every_alarm_widget_and_query(widgets: list[dict[str, Any]]) -> None:
    runbook = (ROOT / "docs" / "runbook-executions.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "how-to" / "operate-executions.md").read_text(encoding="utf-8")
    headings = "".join(line for line in runbook.splitlines() if line.startswith("## "))
    queries = [each["Name"].rpartition("/")[2] for each in resources("AWS::Logs::QueryDefinition").values()]
    titles = [each["properties"]["title"] for each in widgets if each["type"] == "metric"]

    assert [name for name in alarms() if name not in headings] == []
    assert [title for title in titles if f"| {title} |" not in guide] == []
    # "by status" is shown in one row with its sibling.
    assert [name for name in queries if f"| {name.removesuffix(' by status')}" not in guide] == []


@pytest.fixture(scope="module")
def widgets() -> list[dict[str, Any]]:
    (dashboard,) = resources("AWS::CloudWatch::Dashboard").values()
    found: list[dict[str, Any]] = json.loads(dashboard["DashboardBody"])["widgets"]
    return found


def test_every_metric_of_the_dashboard_is_published(widgets: list[dict[str, Any]]) -> None:
    shown = {
        (metric[0], metric[1], frozenset(zip(metric[2:-1:2], metric[3:-1:2], strict=True)))
        for widget in widgets
        for metric in widget["properties"].get("metrics", ())
    }

    assert shown - EMITTED - OF_AWS == set()
    assert {name for namespace, name, _ in EMITTED if namespace == NAMESPACE} == {
        name for namespace, name, _ in shown if namespace == NAMESPACE
    }


@pytest.mark.parametrize("name", ["ActivePollingExecutions", "ExecutionsEnded"])
def test_the_dashboard_leaves_out_no_type_and_no_way_to_end(name: str, widgets: list[dict[str, Any]]) -> None:
    published = {
        value
        for _, metric, dimensions in EMITTED - {(NAMESPACE, name, OURS)}
        if metric == name
        for key, value in dimensions
        if key != "Environment"
    }
    shown = {
        metric[5]
        for widget in widgets
        for metric in widget["properties"].get("metrics", ())
        if metric[1] == name
    }

    assert shown == published


def test_the_dashboard_has_the_required_widgets_and_every_alarm(widgets: list[dict[str, Any]]) -> None:
    titles = [widget["properties"]["title"] for widget in widgets]

    assert titles[1:5] == [
        "Open executions by type",
        "Polling duration by phase",
        "Pollers: calls and errors",
        "Status index: latency and throttling",
    ]
    assert widgets[0]["properties"]["alarms"] == [f"{name}.Arn" for name in alarms()]


def test_no_widget_lies_on_another(widgets: list[dict[str, Any]]) -> None:
    cells = [
        (x, y)
        for each in widgets
        for x in range(each["x"], each["x"] + each["width"])
        for y in range(each["y"], each["y"] + each["height"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24  # as wide as a dashboard is


def test_saved_queries_use_fields_that_the_lines_have(widgets: list[dict[str, Any]]) -> None:
    queries = [query["QueryString"] for query in resources("AWS::Logs::QueryDefinition").values()]
    queries += [widget["properties"]["query"] for widget in widgets if widget["type"] == "log"]

    bare = (re.sub(r"SOURCE '[^']*'|/[^/\n]*/|\"[^\"]*\"", "", query) for query in queries)  # no literals
    members = {word for query in bare for word in re.findall(r"(?<![@\w])[A-Z]\w+", query)}

    assert members - MEMBERS == set()
    assert {"ExecutionId", "PollingDuration", "Problem"} <= members


def ours(name: str, *values: float, every: float = 60.0, dimensions: Any = OURS) -> list[Datum]:
    """A metric of ours with these values, the last of them in the last period."""
    return [
        Datum(NAMESPACE, name, dimensions, value, NOW - every * (len(values) - number))
        for number, value in enumerate(values)
    ]


def aws(namespace: str, name: str, dimensions: Any, *values: float, every: float = 300.0) -> list[Datum]:
    return [
        replace(each, namespace=namespace) for each in ours(name, *values, every=every, dimensions=dimensions)
    ]


CASES = [
    ("ExecutionPollerErrors", [], "OK"),
    ("ExecutionPollerErrors", aws("AWS/Lambda", "Errors", POLLER, 5), "OK"),
    ("ExecutionPollerErrors", aws("AWS/Lambda", "Errors", POLLER, 6), "ALARM"),
    ("ExecutionPollerErrors", aws("AWS/Lambda", "Errors", POLLER, 6, 0), "OK"),  # it is over
    ("ExecutionPollerErrors", aws("AWS/Lambda", "Errors", FINDER, 6), "OK"),
    ("ExecutionSourceErrors", ours("PollErrors", 3, 3, every=100), "ALARM"),
    ("ExecutionSourceErrors", ours("PollErrors", 3, 2, every=100), "OK"),
    ("ExecutionStuckInPolling", ours("OldestOpenSeconds", 2_100, 2_100), "OK"),
    ("ExecutionStuckInPolling", ours("OldestOpenSeconds", 2_101, 2_160), "ALARM"),
    ("ExecutionStuckInPolling", ours("OldestOpenSeconds", 2_160, 60), "OK"),
    ("StatusIndexThrottling", [], "OK"),
    ("StatusIndexThrottling", aws("AWS/DynamoDB", "ReadThrottleEvents", ON_THE_INDEX, 1), "ALARM"),
    ("StatusIndexThrottling", aws("AWS/DynamoDB", "ReadThrottleEvents", frozenset({TABLE}), 1), "OK"),
    ("StatusIndexWriteThrottling", aws("AWS/DynamoDB", "WriteThrottleEvents", ON_THE_INDEX, 1), "ALARM"),
    ("ExecutionsUnwatched", ours("UnwatchedExecutions", 0, 0, 0), "OK"),
    ("ExecutionsUnwatched", ours("UnwatchedExecutions", 1, 1, 1), "ALARM"),
    ("ExecutionsUnwatched", ours("UnwatchedExecutions", 1, 1, 0), "OK"),
    ("ExecutionsUnwatched", [], "ALARM"),  # the finder itself is silent
    ("ExecutionsUnwatched", ours("UnwatchedExecutions", 0, 0, 0, every=120), "OK"),  # a beat was skipped
    ("ExecutionFinderErrors", aws("AWS/Lambda", "Errors", FINDER, 3), "ALARM"),
    ("ExecutionFinderErrors", aws("AWS/Lambda", "Errors", FINDER, 2), "OK"),
    ("ExecutionPollerThrottles", aws("AWS/Lambda", "Throttles", POLLER, 4), "OK"),
    ("ExecutionPollerThrottles", aws("AWS/Lambda", "Throttles", POLLER, 4, 0, 1), "ALARM"),
    ("ExecutionPollerSlow", ours("PollingDuration", 6_000, 6_000, 6_000, every=300), "ALARM"),
    ("ExecutionPollerSlow", ours("PollingDuration", 6_000, 900, 6_000, every=300), "OK"),
    (
        "ExecutionDeadLetters",
        aws(
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            frozenset({("QueueName", PARAMETERS["DeadLetterQueueName"])}),
            1,
        ),
        "ALARM",
    ),
    ("ExecutionDeadLetters", [], "OK"),
]


@pytest.mark.parametrize(("name", "data", "expected"), CASES)
def test_an_alarm_goes_off_when_it_should_and_not_before(name: str, data: list[Datum], expected: str) -> None:
    assert state(alarms()[name], data, NOW) == expected


def test_every_alarm_is_seen_going_off() -> None:
    assert {name for name, _, expected in CASES if expected == "ALARM"} == set(alarms())


def test_the_alarm_of_an_old_execution_stays_on_while_the_finder_is_silent() -> None:
    alarm = alarms()["ExecutionStuckInPolling"]

    assert [state(alarm, [], NOW, before=before) for before in ("ALARM", "OK")] == ["ALARM", "OK"]


def test_an_execution_without_a_poller_sets_the_alarms_off() -> None:
    clock, store = FakeClock(START), MemoryExecutionStore()
    data: list[Datum] = []
    seen: dict[str, float] = {}
    store.add(drill(PENDING))

    def report(tick: Tick) -> None:
        data.extend(
            each for made in tick_documents(tick, clock.now_ms(), ENVIRONMENT) for each in data_of(made)
        )

    finder, found = Finder(store, lambda _: None, clock=clock, report=report), alarms()
    while len(seen) < 2:
        finder.tick()
        clock.advance(15)
        now = clock.now_ms() / 1000
        for name in ("ExecutionsUnwatched", "ExecutionStuckInPolling"):
            if now - START / 1000 >= 180 and state(found[name], data, now) == "ALARM":
                seen.setdefault(name, (now - START / 1000) / 60)

    # Unwatched is three minutes past its time, and three periods; stuck is 35 minutes, and two.
    assert seen == {"ExecutionsUnwatched": 6.0, "ExecutionStuckInPolling": 37.0}
