"""How much may wait in memory."""

from __future__ import annotations

import logging
import threading

import pytest

from longwatch.recording.queue import LARGE_BYTES, QUEUE_BYTES, Backpressure
from longwatch.testing import FakeClock
from tests.patience import PATIENCE_SECONDS


def new_backpressure(waiting: list[int], clock: FakeClock | None = None) -> Backpressure:
    return Backpressure(lambda: len(waiting), max_events=3, clock=clock or FakeClock())


def test_there_is_room_below_the_limit() -> None:
    assert new_backpressure([1, 2]).enter("wf-1", 0)


def test_a_caller_waits_a_quarter_of_a_second_and_then_drops() -> None:
    clock = FakeClock()
    backpressure = new_backpressure([1, 2, 3], clock)

    assert not backpressure.enter("wf-1", 0)

    assert 0.25 <= sum(clock.slept) < 0.26
    assert backpressure.dropped_total == 1


def test_a_caller_continues_as_soon_as_there_is_room() -> None:
    class Draining(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.slept) == 5:
                waiting.pop()

    waiting, clock = [1, 2, 3], Draining()

    assert new_backpressure(waiting, clock).enter("wf-1", 0)

    assert len(clock.slept) == 5


def test_once_a_wait_was_in_vain_no_caller_waits_until_the_queue_has_moved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting, clock = [1, 2, 3], FakeClock()
    backpressure = new_backpressure(waiting, clock)
    with caplog.at_level(logging.WARNING, "longwatch"):
        for _ in range(10):
            backpressure.enter("wf-1", 0)
    waited = len(clock.slept)

    dropped = backpressure.take_drops()
    backpressure.enter("wf-2", 0)

    assert dropped == {"wf-1": 10}
    assert backpressure.take_drops() == {"wf-2": 1}
    assert len(clock.slept) == 2 * waited
    assert caplog.text.count("the queue is full") == 1


def test_large_payloads_are_bounded_by_their_bytes() -> None:
    backpressure = new_backpressure([])
    half = QUEUE_BYTES // 2

    entered = [
        backpressure.enter("wf-1", half),
        backpressure.enter("wf-1", half),
        backpressure.enter("wf-1", half),
    ]
    backpressure.leave(half)

    assert entered == [True, True, False]
    assert backpressure.enter("wf-1", half)
    assert backpressure.enter("wf-1", LARGE_BYTES)  # a small one is not counted


def test_the_writer_never_waits_for_a_caller_that_a_signal_has_stopped() -> None:
    backpressure = new_backpressure([1, 2, 3])
    backpressure.enter("wf-1", 0)
    held, release = threading.Event(), threading.Event()

    def caller() -> None:
        with backpressure._lock:
            held.set()
            release.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=caller)
    thread.start()
    held.wait(PATIENCE_SECONDS)
    backpressure.leave(LARGE_BYTES + 1)
    dropped = backpressure.take_drops()
    release.set()
    thread.join()

    assert dropped == {}
    assert backpressure.take_drops() == {"wf-1": 1}
