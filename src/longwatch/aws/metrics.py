"""Metrics of finder and poller as lines that CloudWatch turns into metrics by itself (EMF).

A line is a JSON document on standard output that names its metrics and dimensions, so it needs no call and no
permission. Other members are for log queries.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longwatch.executions.finder import Tick
from longwatch.executions.model import Mode
from longwatch.executions.poller import PollReport, Result

NAMESPACE = "longwatch/Executions"
ENVIRONMENT, TYPE, PHASE, RESULT, STATUS = "Environment", "ExecutionType", "Phase", "Result", "Status"
FAILED = "failed"  # beside the values of `Result`: the poll raised an error, and its lease expires

# These polled the source, or appended an end. The others found nothing to do, and would distort an average.
COUNTED_RESULTS = frozenset(
    {Result.POLLED, Result.NO_RESPONSE, Result.ENDED, Result.CORRECTED, Result.RECHECKED}
)

Document = dict[str, object]
Dimensions = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number, and the sets of dimensions under which it is counted."""

    name: str
    unit: str
    value: float
    dimensions: Dimensions = ((ENVIRONMENT,),)


def document(at: int, metrics: Sequence[Metric], members: Mapping[str, object]) -> Document:
    """The document of one moment in epoch ms. `members` has the values of the dimensions, and more."""
    groups: dict[tuple[tuple[str, ...], ...], list[dict[str, str]]] = {}
    for metric in metrics:
        key = tuple(tuple(each) for each in metric.dimensions)
        groups.setdefault(key, []).append({"Name": metric.name, "Unit": metric.unit})
    directives = [
        {"Namespace": NAMESPACE, "Dimensions": [list(each) for each in dimensions], "Metrics": listed}
        for dimensions, listed in groups.items()
    ]
    return {
        "_aws": {"Timestamp": at, "CloudWatchMetrics": directives},
        **members,
        **{metric.name: metric.value for metric in metrics},
    }


def write(made: Document) -> None:
    """Write the document to the log: one line on standard output."""
    sys.stdout.write(json.dumps(made, separators=(",", ":"), default=str) + "\n")
    sys.stdout.flush()


def tick_documents(tick: Tick, at: int, environment: str, *, modes: Sequence[Mode] = ()) -> list[Document]:
    """The metrics of a pass of the finder: one document for all, and one for each type.

    `modes` are types to report although none of them is open now, so that their metric returns to 0.
    """
    survey = tick.survey
    counts = {**dict.fromkeys(modes, 0), **survey.modes}
    everything = document(
        at,
        [
            Metric("ActivePollingExecutions", "Count", survey.open),
            Metric("OldestOpenSeconds", "Seconds", survey.oldest_ms / 1000),
            Metric("UnwatchedExecutions", "Count", survey.unwatched),
            Metric("HandedOut", "Count", tick.dispatched),
            Metric("HandOutFailures", "Count", tick.failed),
        ],
        {ENVIRONMENT: environment},
    )
    return [
        everything,
        *(
            document(
                at,
                [Metric("ActivePollingExecutions", "Count", counts[mode], ((ENVIRONMENT, TYPE),))],
                {ENVIRONMENT: environment, TYPE: mode.value},
            )
            for mode in sorted(counts)
        ),
    ]


def poll_document(polled: PollReport, at: int, environment: str) -> Document:
    """The metrics of a poll."""
    execution = polled.execution
    metrics = [
        Metric("Polls", "Count", 1, ((ENVIRONMENT,), (ENVIRONMENT, RESULT))),
        Metric("PollErrors", "Count", int(polled.result is Result.NO_RESPONSE)),
        Metric("DetectedTransitions", "Count", polled.appended),
    ]
    if polled.result in COUNTED_RESULTS:
        duration = round(polled.seconds * 1000, 1)
        metrics.append(
            Metric("PollingDuration", "Milliseconds", duration, ((ENVIRONMENT,), (ENVIRONMENT, PHASE)))
        )
    if polled.result is Result.ENDED:
        metrics.append(Metric("ExecutionsEnded", "Count", 1, ((ENVIRONMENT, STATUS),)))
        warnings = len(execution.verdict.warnings) if execution.verdict else 0
        metrics.append(Metric("ExecutionWarnings", "Count", warnings))
    members: Document = {
        ENVIRONMENT: environment,
        RESULT: polled.result.value,
        PHASE: polled.phase.value,
        STATUS: execution.status.value,
        "ExecutionId": execution.execution_id,
        "PlanId": execution.plan_id,
        TYPE: execution.mode.value,
        "Source": execution.source,
        "Version": execution.version,
    }
    if polled.problem is not None:
        members |= {"Problem": polled.problem.message, "Throttled": polled.problem.throttled}
    return document(at, metrics, members)


def failure_document(
    error: BaseException, at: int, environment: str, *, execution_id: object, plan_id: object
) -> Document:
    """The metrics of a poll that raised an error."""
    return document(
        at,
        [
            Metric("Polls", "Count", 1, ((ENVIRONMENT,), (ENVIRONMENT, RESULT))),
            Metric("PollErrors", "Count", 1),
            Metric("DetectedTransitions", "Count", 0),
        ],
        {
            ENVIRONMENT: environment,
            RESULT: FAILED,
            "ExecutionId": execution_id,
            "PlanId": plan_id,
            "Problem": f"{type(error).__name__}: {error}",
        },
    )
