"""The Lambda function that finds what is due."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from longwatch.aws.finder import (
    LAST_PASS_SECONDS,
    PAUSE_SECONDS,
    RUN_SECONDS,
    FinderTicks,
    find,
    handler,
    invoke_poller,
    open_parts,
    run_seconds,
)
from longwatch.errors import InvalidSettings, Throttled
from longwatch.executions.compose import WatchingParts
from longwatch.executions.model import Execution, ItemState, Verdict
from longwatch.executions.stores.factory import open_executions
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.summary import Status
from longwatch.settings import Settings
from longwatch.testing import FakeClock
from tests.unit.executions.samples import EVIDENCE, IN_PROGRESS, LAUNCHED, PENDING, START, drill


class Container:
    """A finder with a store in memory, and scripted pollers."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.store = MemoryExecutionStore()
        self.handed: list[tuple[str, float]] = []  # ids, and seconds after the start
        self.broken: set[str] = set()
        self.ticks = FinderTicks("test", clock=self.clock)

    def add(self, execution_id: str, state: ItemState = PENDING, **more: Any) -> None:
        self.store.add(replace(drill(state, **more), execution_id=execution_id))

    def dispatch(self, execution: Execution) -> None:
        """A poller that polls at once, and finds everything as it was."""
        if execution.execution_id in self.broken:
            raise ConnectionError("no poller today")
        self.handed.append((execution.execution_id, (self.clock.now_ms() - START) / 1000))
        stored = self.store.get(execution.execution_id)
        assert stored is not None
        self.store.update(replace(stored, last_polled_at=self.clock.now_ms()))

    def find(self, seconds: float = RUN_SECONDS) -> dict[str, int]:
        watching = WatchingParts(Settings("memory://"), store=self.store, clock=self.clock)
        return find(watching, self.dispatch, self.ticks, seconds=seconds)


class Remaining:
    """Lambda's context, with so many milliseconds left."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def get_remaining_time_in_millis(self) -> int:
        return self.ms


@pytest.fixture
def container() -> Container:
    return Container()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    open_parts.cache_clear()
    yield monkeypatch
    open_parts.cache_clear()


def metric_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(each) for each in capsys.readouterr().out.splitlines()]


class TestAMinute:
    def test_with_nothing_open_is_one_poll(
        self, container: Container, capsys: pytest.CaptureFixture[str]
    ) -> None:
        counts = container.find()

        assert counts == {"looks": 1, "open": 0, "handed_out": 0, "failed": 0}
        assert container.clock.slept == []
        (line,) = metric_lines(capsys)
        assert (line["Environment"], line["ActivePollingExecutions"]) == ("test", 0)

    def test_polls_every_15_seconds_while_servers_start(self, container: Container) -> None:
        container.add("x-1", IN_PROGRESS)

        container.find()

        assert container.handed == [("x-1", 0.0), ("x-1", 15.0), ("x-1", 30.0), ("x-1", 45.0)]

    def test_polls_every_30_seconds_while_they_finish(self, container: Container) -> None:
        container.store.add(drill(IN_PROGRESS, LAUNCHED))

        container.find()

        assert [at for _, at in container.handed] == [0.0, 30.0]

    def test_polls_every_45_seconds_before_anything_begins(self, container: Container) -> None:
        container.add("x-1", PENDING)

        container.find()

        assert [at for _, at in container.handed] == [0.0, 45.0]

    def test_after_minute_keeps_the_interval(self, container: Container) -> None:
        container.add("x-1", IN_PROGRESS)

        for minute in range(3):
            container.clock.set(START + minute * 60_000)
            container.find()

        assert [at for _, at in container.handed] == [15.0 * n for n in range(12)]

    def test_continues_with_the_others_when_one_can_not_be_dispatched(
        self, container: Container, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("x-1", "x-2", "x-3"):
            container.add(name, PENDING)
        container.broken = {"x-2"}

        counts = container.find(seconds=10)

        assert [name for name, _ in container.handed] == ["x-1", "x-3"]
        assert counts == {"looks": 1, "open": 3, "handed_out": 2, "failed": 1}
        assert "execution p-1/x-2 could not be dispatched to a poller" in caplog.text

    def test_reports_each_poll_as_metrics_and_resets_types_to_zero(
        self, container: Container, capsys: pytest.CaptureFixture[str]
    ) -> None:
        container.add("x-1", IN_PROGRESS)
        container.find(seconds=15)
        stored = container.store.get("x-1")
        assert stored is not None
        verdict = Verdict(Status.SUCCEEDED, START, EVIDENCE)
        container.store.update(replace(stored, verdict=verdict, closed=True))

        container.find()

        by_type = [line for line in metric_lines(capsys) if "ExecutionType" in line]
        assert [line["ActivePollingExecutions"] for line in by_type] == [1, 1, 0]


class TestATableThatDoesNotRespond:
    class Silent(MemoryExecutionStore):
        """Does not respond the first times."""

        def __init__(self, times: int) -> None:
            super().__init__()
            self.times = times

        def open_executions(self) -> Iterator[Execution]:
            if self.times:
                self.times -= 1
                raise Throttled("not now")
            return super().open_executions()

    def test_is_polled_again_in_the_same_minute(self, container: Container) -> None:
        container.store = self.Silent(2)
        container.add("x-1", IN_PROGRESS)

        container.find(seconds=12)

        assert container.handed == [("x-1", 2 * PAUSE_SECONDS)]

    def test_for_the_whole_minute_fails_the_invocation(self, container: Container) -> None:
        container.store = self.Silent(1_000)

        with pytest.raises(Throttled):
            container.find()

        assert sum(container.clock.slept) <= RUN_SECONDS


class TestTheTimeOfTheFunction:
    @pytest.mark.parametrize(
        ("left_ms", "seconds"),
        [
            (90_000, RUN_SECONDS),
            (69_000, RUN_SECONDS),
            (60_000, 60 - LAST_PASS_SECONDS),
            (5_000, 0.0),
            (0, 0.0),
        ],
    )
    def test_limits_how_long_it_polls(self, left_ms: int, seconds: float) -> None:
        assert run_seconds(Remaining(left_ms)) == seconds

    def test_is_a_minute_by_default(self) -> None:
        assert run_seconds(None) == RUN_SECONDS

    def test_is_never_slept_past(self, container: Container) -> None:
        container.add("x-1", IN_PROGRESS)

        container.find(seconds=29.9)

        assert sum(container.clock.slept) <= 29.9


class TestThePoller:
    def test_is_invoked_without_waiting_for_it(self) -> None:
        client = boto3.client("lambda", region_name="eu-west-1")
        with Stubber(client) as stub:
            stub.add_response(
                "invoke",
                {"StatusCode": 202},
                {
                    "FunctionName": "poller",
                    "InvocationType": "Event",
                    "Payload": b'{"execution_id": "x-1", "plan_id": "p-1"}',
                },
            )

            invoke_poller(client, "poller")(drill(PENDING))

            stub.assert_no_pending_responses()
        client.close()

    def test_has_to_be_named(self, environment: pytest.MonkeyPatch) -> None:
        with pytest.raises(InvalidSettings, match="LONGWATCH_POLLER_FUNCTION"):
            handler({}, None)


class TestLambdaItself:
    def test_finds_with_what_the_environment_names(
        self, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        environment.setenv("LONGWATCH_EXECUTIONS", "memory://finder")
        environment.setenv("LONGWATCH_POLLER_FUNCTION", "poller")
        environment.setenv("LONGWATCH_ENVIRONMENT", "staging")
        environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # no server is there
        open_executions("memory://finder").add(drill(PENDING))

        counts = handler({}, Remaining(0))

        assert counts == {"looks": 1, "open": 1, "handed_out": 0, "failed": 1}
        assert {line["Environment"] for line in metric_lines(capsys)} == {"staging"}

    def test_keeps_its_clients_from_one_invocation_to_the_next(self, environment: pytest.MonkeyPatch) -> None:
        environment.setenv("LONGWATCH_EXECUTIONS", "memory://kept")
        environment.setenv("LONGWATCH_POLLER_FUNCTION", "poller")

        assert open_parts() is open_parts()

    @pytest.mark.parametrize("learned", ["false", "true"])
    def test_reads_from_the_environment_whether_pollers_learn(
        self, environment: pytest.MonkeyPatch, learned: str
    ) -> None:
        environment.setenv("LONGWATCH_EXECUTIONS", "memory://learned")
        environment.setenv("LONGWATCH_POLLER_FUNCTION", "poller")
        environment.setenv("LONGWATCH_LEARNED_CADENCE", learned)

        assert open_parts().watching.is_learned is (learned == "true")
