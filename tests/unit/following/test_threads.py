"""Threads that may be left behind."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from longwatch.following.threads import DaemonPool
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def workers() -> DaemonPool:
    return DaemonPool(2, name="test")


def test_a_call_returns_its_result(workers: DaemonPool) -> None:
    assert workers.submit(pow, 2, 5).result(PATIENCE_SECONDS) == 32


def test_an_exception_reaches_the_waiting_caller(workers: DaemonPool) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result(PATIENCE_SECONDS)


def test_an_idle_thread_is_used_again(workers: DaemonPool) -> None:
    names = {
        workers.submit(lambda: threading.current_thread().name).result(PATIENCE_SECONDS) for _ in range(50)
    }

    assert names <= {"test_0", "test_1"}


def test_calls_run_side_by_side_up_to_the_limit(workers: DaemonPool) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    calls = [workers.submit(both.wait) for _ in range(4)]

    assert sorted(call.result(PATIENCE_SECONDS) for call in calls) == [0, 0, 1, 1]


def test_submitted_calls_are_done_before_the_end(workers: DaemonPool) -> None:
    calls = [workers.submit(pow, 2, power) for power in range(20)]

    workers.shutdown()

    assert [call.result(0) for call in calls] == [2**power for power in range(20)]


def test_waiting_calls_can_be_cancelled(workers: DaemonPool) -> None:
    gate = threading.Event()
    begun = threading.Barrier(3, timeout=PATIENCE_SECONDS)
    under_way = [workers.submit(lambda: (begun.wait(), gate.wait(PATIENCE_SECONDS))) for _ in range(2)]
    begun.wait()
    waiting = workers.submit(pow, 2, 2)

    workers.shutdown(wait=False, cancel_futures=True)
    gate.set()

    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_SECONDS)
    assert all(call.result(PATIENCE_SECONDS)[1] for call in under_way)
    assert workers.wait(PATIENCE_SECONDS)


def test_nothing_can_be_submitted_after_the_end(workers: DaemonPool) -> None:
    workers.shutdown()

    with pytest.raises(RuntimeError, match="after shutdown"):
        workers.submit(pow, 2, 2)


def test_a_call_that_never_ends_can_be_left_behind(workers: DaemonPool) -> None:
    gate = threading.Event()
    workers.submit(gate.wait)

    workers.shutdown(wait=False, cancel_futures=True)

    assert not workers.wait(0)
    gate.set()
    assert workers.wait(PATIENCE_SECONDS)
