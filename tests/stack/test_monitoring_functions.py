"""Both templates deployed: what the real functions do and print sets the alarms off.

The engine makes no metrics from logs, so the lines are published as CloudWatch would do it. Errors of a
function it counts itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from longwatch.executions.model import Execution, Job, Stage
from longwatch.testing.drs import DrsSimulator, drill
from tests.stack.alarms import alarms, data_of, deployable, own_engine
from tests.stack.deployment import REGION, client, deploy
from tests.stack.executions import Deployed, deployed, until
from tests.stack.templates import load_template

FAILURES = 6  # one more than the alarms allow
MINUTE_MS = 60_000
FINDER_SECONDS = 180.0

pytestmark = pytest.mark.needs_ministack

engine = pytest.fixture(scope="module")(own_engine)


@dataclass(frozen=True, slots=True)
class Watched:
    """The functions, and the alarms on their metrics."""

    stack: Deployed
    environment: str

    def states(self) -> dict[str, str]:
        names = {alarm["AlarmName"]: name for name, alarm in alarms(Environment=self.environment).items()}
        found = self.stack.client("cloudwatch").describe_alarms(AlarmNames=list(names))["MetricAlarms"]
        return {names[each["AlarmName"]]: each["StateValue"] for each in found}

    def publish(self, documents: Sequence[dict[str, Any]]) -> None:
        """What CloudWatch does with lines of a log."""
        cloudwatch = self.stack.client("cloudwatch")
        for datum in (each for document in documents for each in data_of(document)):
            cloudwatch.put_metric_data(
                Namespace=datum.namespace,
                MetricData=[
                    {
                        "MetricName": datum.name,
                        "Dimensions": [
                            {"Name": key, "Value": held} for key, held in sorted(datum.dimensions)
                        ],
                        "Value": datum.value,
                        "Timestamp": datetime.fromtimestamp(datum.at, UTC),
                    }
                ],
            )


@pytest.fixture(scope="module")
def drs() -> Iterator[DrsSimulator]:
    with DrsSimulator() as simulator:
        yield simulator


@pytest.fixture(scope="module")
def watched(engine: str, drs: DrsSimulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    template = deployable(tmp_path_factory.mktemp("monitoring"))
    with deployed(engine, drs, Environment="alarmed", ScheduleState="DISABLED") as stack:
        wanted = set(load_template(template)["Parameters"])
        outputs = {name: value for name, value in stack.outputs.items() if name in wanted}
        deploy(engine, template, f"{stack.name}-monitoring", outputs)
        yield Watched(stack, outputs["Environment"])
        client("cloudformation", engine).delete_stack(StackName=f"{stack.name}-monitoring")


def test_a_source_that_does_not_respond_sets_its_own_alarm_off(watched: Watched, drs: DrsSimulator) -> None:
    stack = watched.stack
    ids = [stack.start(drill("s-1", pending=600)) for _ in range(FAILURES)]
    drs.fail("UninitializedAccountException", FAILURES)

    results = [stack.poll(each)["result"] for each in ids]
    watched.publish(stack.metrics("PollerFunctionName"))

    assert results == ["unanswered"] * FAILURES
    assert watched.states()["ExecutionSourceErrors"] == "ALARM"
    assert watched.states()["ExecutionPollerErrors"] != "ALARM"  # the functions did what they should
    assert all(stack.get(each).is_open for each in ids)


def test_an_old_unwatched_execution_sets_two_alarms_off(watched: Watched) -> None:
    stack, now = watched.stack, int(time.time()) * 1000
    wave = Stage("one", (Job("drsjob-00000000000000001", region=REGION),))
    stack.store.add(
        Execution(
            execution_id="x-old",
            plan_id="plan",
            started_at=now - 36 * MINUTE_MS,
            stages=(wave,),
            total_stages=1,
            lease_holder="a poller that died",
            lease_until=now + MINUTE_MS,
        )
    )

    stack.find()
    watched.publish(_run_of_the_finder(stack))

    states = watched.states()
    assert (states["ExecutionStuckInPolling"], states["ExecutionsUnwatched"]) == ("ALARM", "ALARM")


def _run_of_the_finder(stack: Deployed) -> list[dict[str, Any]]:
    """What the finder printed. It stays for a minute, and the engine has its lines when it ends."""

    def published() -> list[dict[str, Any]] | None:
        return stack.metrics("FinderFunctionName") or None

    return until(published, within=FINDER_SECONDS, what="the finder has published something")


def test_pollers_that_fail_set_the_required_alarm_off(watched: Watched) -> None:
    stack = watched.stack
    functions = stack.client("lambda")

    responses = [
        functions.invoke(
            FunctionName=stack.outputs["PollerFunctionName"], Payload=b'{"execution_id": "x-none"}'
        )
        for _ in range(FAILURES)
    ]
    watched.publish(
        stack.metrics("PollerFunctionName")[-1:]
    )  # the engine evaluates its alarms when data comes

    assert all("FunctionError" in response for response in responses)
    assert watched.states()["ExecutionPollerErrors"] == "ALARM"
