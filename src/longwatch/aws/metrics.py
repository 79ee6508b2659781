"""Metrics of finder and poller as lines that CloudWatch turns into metrics by itself (EMF).

A line is a JSON document on standard output. It names the metrics and dimensions that it holds, so nothing
is called and no right is needed. Members that are neither are for log queries.
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
FAILED = "failed"  # beside the words of `Result`: the poll broke off, and its lease ends by itself

# These looked at the source, or told an end. The others only found that there is nothing to do, at no cost
# worth a place in an average.
WORKED = frozenset({Result.POLLED, Result.NO_RESPONSE, Result.ENDED, Result.CORRECTED, Result.RECHECKED})

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
    """The document for a moment in epoch ms. `members` holds the dimensions' values, and more if wanted."""
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
    """Put the document into the log: one line on standard output."""
    sys.stdout.write(json.dumps(made, separators=(",", ":"), default=str) + "\n")
    sys.stdout.flush()


def tick_documents(tick: Tick, at: int, environment: str, *, modes: Sequence[Mode] = ()) -> list[Document]:
    """What a look of the finder found: one document for all, and one for each type.

    `modes` are types that are told although none of them is open now, so that their metric comes back to 0.
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
    """What a poll came to."""
    execution = polled.execution
    metrics = [
        Metric("Polls", "Count", 1, ((ENVIRONMENT,), (ENVIRONMENT, RESULT))),
        Metric("PollErrors", "Count", int(polled.result is Result.NO_RESPONSE)),
        Metric("DetectedTransitions", "Count", polled.appended),
    ]
    if polled.result in WORKED:
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
    """A poll that broke off: the table or the journal did not answer, or something is wrong with us."""
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
