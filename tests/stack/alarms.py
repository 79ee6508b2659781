"""Alarms as CloudWatch documents them: a template's alarms as values, and in which state data puts them.

The local engine evaluates alarms at once and by namespace and name alone. What it leaves out is here: exact
dimensions, periods, how many datapoints it takes, and what missing ones mean. CloudWatch itself also reads a
little further back for late datapoints, which is not played here.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.start import EngineMissing, MiniStack
from tests.stack.templates import ROOT, load_template

TEMPLATE = ROOT / "infrastructure" / "monitoring.yaml"
NOT_THERE = "AWS::Logs::QueryDefinition"  # a type that the local engine does not know
PARAMETERS = {
    "Environment": "test",
    "TableName": "executions-test",
    "FinderFunctionName": "stack-finder",
    "PollerFunctionName": "stack-poller",
    "DeadLetterQueueName": "stack-dead-letters",
    "AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:on-call",
}
PSEUDO = {"AWS::Region": "eu-west-1", "AWS::NoValue": None}
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "SampleCount": len,
    "Average": lambda values: sum(values) / len(values),
}
OPERATORS = {"GreaterThanThreshold": operator.gt, "LessThanThreshold": operator.lt}


@dataclass(frozen=True, slots=True)
class Datum:
    """One value of a metric. A metric is its namespace, its name and exactly these dimensions."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]
    value: float
    at: float = 0.0  # epoch seconds

    @property
    def metric(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        return (self.namespace, self.name, self.dimensions)


def data_of(document: Mapping[str, Any]) -> list[Datum]:
    """What CloudWatch makes of a line of a log in the embedded metric format."""
    about = document["_aws"]
    return [
        Datum(
            directive["Namespace"],
            metric["Name"],
            frozenset((name, str(document[name])) for name in names),
            float(document[metric["Name"]]),
            about["Timestamp"] / 1000,
        )
        for directive in about["CloudWatchMetrics"]
        for names in directive["Dimensions"]
        for metric in directive["Metrics"]
    ]


def resources(kind: str, **parameters: str) -> dict[str, dict[str, Any]]:
    """The properties of all resources of this type, as they are when the template is deployed."""
    template = load_template(TEMPLATE)
    defaults = {name: about.get("Default") for name, about in template["Parameters"].items()}
    values = {**defaults, **PARAMETERS, **PSEUDO, **parameters}
    conditions = {name: _holds(rule, values) for name, rule in template["Conditions"].items()}
    return {
        name: _resolved(resource["Properties"], values, conditions)
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def own_engine() -> Iterator[str]:
    """The address of a MiniStack of a module's own: its alarms mix up data of the same name."""
    engine = MiniStack()
    try:
        engine.start()
    except EngineMissing as error:
        pytest.skip(str(error))
    yield engine.url
    engine.stop()


def deployable(folder: Path) -> Path:
    """The template without what the local engine's CloudFormation does not know."""
    template = load_template(TEMPLATE)
    supported = {name: each for name, each in template["Resources"].items() if each["Type"] != NOT_THERE}
    path = folder / "monitoring.json"
    path.write_text(json.dumps({**template, "Resources": supported}), encoding="utf-8")
    return path


def alarms(**parameters: str) -> dict[str, dict[str, Any]]:
    return resources("AWS::CloudWatch::Alarm", **parameters)


def metric_of(alarm: Mapping[str, Any]) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """Which metric an alarm uses."""
    dimensions = frozenset((each["Name"], each["Value"]) for each in alarm["Dimensions"])
    return (alarm["Namespace"], alarm["MetricName"], dimensions)


def state(alarm: Mapping[str, Any], data: Sequence[Datum], now: float, *, before: str = "OK") -> str:
    """The state of the alarm at this moment, if it was in the state `before`."""
    period, periods = alarm["Period"], alarm["EvaluationPeriods"]
    newest = now // period
    missing = {"breaching": True, "notBreaching": False}.get(alarm["TreatMissingData"])
    found: list[bool] = []
    for slot in range(int(newest) - periods, int(newest)):  # the running period is not over yet
        values = [
            each.value for each in data if each.metric == metric_of(alarm) and each.at // period == slot
        ]
        if values:
            number = STATISTICS[alarm["Statistic"]](values)
            found.append(OPERATORS[alarm["ComparisonOperator"]](number, float(alarm["Threshold"])))
        elif missing is not None:
            found.append(missing)
    if not found:
        return before if alarm["TreatMissingData"] == "ignore" else "INSUFFICIENT_DATA"
    return "ALARM" if sum(found) >= alarm.get("DatapointsToAlarm", periods) else "OK"


def _holds(rule: Any, values: Mapping[str, Any]) -> bool:
    match rule:
        case {"Fn::Equals": [one, other]}:
            return bool(_resolved(one, values, {}) == _resolved(other, values, {}))
        case {"Fn::Not": [inner]}:
            return not _holds(inner, values)
    raise AssertionError(f"a condition has {rule!r}, which this check does not understand")


def _resolved(value: Any, values: Mapping[str, Any], conditions: Mapping[str, bool]) -> Any:
    match value:
        case {"Ref": name}:
            return values.get(name, name)
        case {"Fn::If": [name, one, other]}:
            return _resolved(one if conditions[name] else other, values, conditions)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w:.]+)\}", lambda found: str(values.get(found[1], found[1])), text)
        case dict():
            return {name: _resolved(each, values, conditions) for name, each in value.items()}
        case list():
            return [_resolved(each, values, conditions) for each in value]
    return value
