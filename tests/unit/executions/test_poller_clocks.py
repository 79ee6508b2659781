"""Pollers whose clocks differ or jump come to the verdict, and to the time, that the source's clock gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from longwatch.executions.model import Execution, ExecutionKey, Job, JobState, Stage, WorkItem
from longwatch.executions.outcomes import GRACE_MS, execution_outcome
from longwatch.executions.poller import Poller, Result
from longwatch.executions.responses import SourceResponse, apply_response
from longwatch.executions.sources.base import SourceResult
from longwatch.executions.sources.dates import observed_at
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.run import Status
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.samples import LAUNCHED, PENDING, START, execution, finished, response
from tests.unit.executions.scripted_source import ScriptedSource, events_of

POLL_SECONDS = 20.0

Skew = Callable[[float], float]
"""Seconds by which a poller's clock is wrong, so many seconds after the start."""


class Wrong:
    """A clock that is wrong by a number of seconds that may change."""

    def __init__(self, clock: FakeClock, skew: Skew) -> None:
        self._clock, self._skew = clock, skew

    def now_ms(self) -> int:
        return self._clock.now_ms() + round(self._skew(self._clock.monotonic()) * 1000)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a poller does not sleep")


class DatedStore(MemoryExecutionStore):
    """A store whose server dates its responses."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def server_time_ms(self) -> int:
        return self._clock.now_ms() // 1000 * 1000


class DatedSource(ScriptedSource):
    """A source that dates its responses, polled by a machine with a clock of its own."""

    def __init__(self, clock: FakeClock, local: Wrong, *jobs: Job) -> None:
        super().__init__(clock, *jobs)
        self._local = local

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        local = self._local.now_ms()
        date = self._clock.now_ms() // 1000 * 1000
        return {
            key: replace(result, at=observed_at(local, [date]), polled_at=local, is_dated=True)
            if isinstance(result, SourceResponse)
            else result
            for key, result in super().poll(executions).items()
        }


def right(seconds: float) -> float:
    return 0.0


@pytest.mark.parametrize("by", ["source", "store"])
@pytest.mark.parametrize(
    "skews",
    [
        pytest.param([right], id="one right clock"),
        pytest.param([lambda seconds: 100.0, right], id="two pollers 100 s apart"),
        pytest.param([right, lambda seconds: -100.0], id="the second one behind"),
        pytest.param([lambda seconds: 600.0 if seconds > 30 else 0.0], id="a jump of 10 min forward"),
        pytest.param([lambda seconds: -600.0 if seconds > 30 else 0.0], id="a jump of 10 min back"),
        pytest.param([lambda seconds: 86_400.0, lambda seconds: -86_400.0], id="two days apart"),
    ],
)
@pytest.mark.parametrize(
    ("job", "status"),
    [(finished(LAUNCHED, PENDING), Status.PARTIAL), (finished(), Status.FAILED)],
    ids=["a server is still pending", "no server is listed"],
)
def test_the_grace_period_is_that_of_the_source_or_of_the_store_for_every_poller(
    skews: Sequence[Skew], job: Job, status: Status, by: str
) -> None:
    clock = FakeClock()
    store = MemoryExecutionStore() if by == "source" else DatedStore(clock)
    journal, began = MemoryJournal(clock=clock), clock.now_ms()
    store.add(execution(Stage("one", (Job("j-1"),)), started_at=began))
    pollers = []
    for number, skew in enumerate(skews):
        local = Wrong(clock, skew)
        sources = {"drs": DatedSource(clock, local, job) if by == "source" else ScriptedSource(local, job)}
        pollers.append(Poller(store, journal, sources, clock=local, holder=f"p-{number}"))

    ended_at, first_response_at = None, None
    for number in range(30):
        polled = pollers[number % len(pollers)].poll("x-1")
        if first_response_at is None and polled.execution.last_answer_at is not None:
            first_response_at = clock.now_ms()
        if polled.result is Result.ENDED:
            ended_at = clock.now_ms()
            break
        clock.advance(POLL_SECONDS)

    assert ended_at is not None
    assert first_response_at is not None
    assert ended_at - first_response_at >= GRACE_MS - 1_000  # a date names the second
    found = store.get("x-1")
    assert found is not None
    assert found.verdict is not None
    assert found.verdict.status is status
    assert not found.verdict.late
    assert abs(found.verdict.at - ended_at) < 1_000
    times = [event.occurred_at for event in events_of(journal, "x-1")]
    assert all(began <= at <= ended_at + 1_000 for at in times)


def test_a_grace_period_takes_three_polls_however_long_it_lasts() -> None:
    clock, store = FakeClock(), MemoryExecutionStore()
    store.add(execution(Stage("one", (Job("j-1"),)), started_at=clock.now_ms()))
    source = ScriptedSource(clock, finished(PENDING))
    poller = Poller(store, MemoryJournal(clock=clock), {"drs": source}, clock=clock)

    results = []
    for _ in range(3):
        results.append(poller.poll("x-1").result)
        clock.advance(10 * GRACE_MS / 1000)

    assert results == [Result.POLLED, Result.POLLED, Result.ENDED]


@pytest.mark.parametrize("seconds", [(0, -600, 30), (0, 15, 600), (-600, 15, 30), (0, 600, 15, 30)])
def test_one_wrong_date_ends_no_grace_period(seconds: tuple[int, ...]) -> None:
    updated = execution(Stage("one", (Job("j-1"),)))
    for each in seconds:
        updated = apply_response(
            updated, response(START + each * 1000, Job("j-1", JobState.FINISHED, (WorkItem("s-1"),)))
        )

        assert execution_outcome(updated, START + each * 1000) is None


def test_a_verdict_that_is_not_reported_yet_is_due_whatever_its_time() -> None:
    clock, store = FakeClock(), MemoryExecutionStore()
    store.add(execution(Stage("one", (Job("j-1"),)), started_at=clock.now_ms()))
    journal, source = MemoryJournal(clock=clock), ScriptedSource(clock, finished(LAUNCHED))
    poller = Poller(store, journal, {"drs": source}, clock=clock, holder="a")
    poller.poll("x-1")
    closed = store.get("x-1")
    assert closed is not None
    store.update(replace(closed, closed=False))  # as if the poller had died before it closed the record
    clock.set(clock.now_ms() - 600_000)

    assert Poller(store, journal, {"drs": source}, clock=clock).poll("x-1").result is Result.ENDED
