"""Polling for a write that was reported before it can be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from longwatch.following.arrivals_reader import (
    MAX_POST_WRITE_POLLS,
    MAX_POST_WRITE_SECONDS,
    POST_WRITE_POLLS_SECONDS,
    read_after_write,
)

LONGEST_SECONDS = POST_WRITE_POLLS_SECONDS[-1]


class Disk:
    """A journal, its change signal and their clock. Reading and draining take no time."""

    descriptor: int | None = None
    check_seconds: float | None = None

    def __init__(self, *readable_at: float, reported_at: Sequence[float] = ()) -> None:
        self.now = 100.0
        self.readable_at = [self.now + at for at in readable_at]
        self.reported_at = [self.now + at for at in reported_at]
        self.polls: list[float] = []

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def drain(self) -> bool:
        reported = [at for at in self.reported_at if at <= self.now]
        self.reported_at = [at for at in self.reported_at if at > self.now]
        return bool(reported)

    def changed(self) -> bool:
        raise AssertionError("the signal has reported it")

    def close(self) -> None:
        """Nothing to close."""

    def read(self) -> Sequence[float]:
        self.polls.append(self.now)
        return [at for at in self.readable_at if at <= self.now]


def wait(disk: Disk) -> float | None:
    """How long it took until something could be read."""
    began = disk.now
    return disk.now - began if read_after_write(disk.read, disk, disk) else None


@pytest.mark.parametrize("sync", [0.000_15, 0.000_5, 0.001, 0.004])
def test_a_write_is_read_soon_after_its_sync(sync: float) -> None:
    took = wait(Disk(sync))

    assert took is not None
    assert took <= 1.4 * sync + 0.000_1


def test_a_sync_that_takes_longer_is_left_to_timers() -> None:
    disk = Disk(1.0)

    assert wait(disk) is None
    assert disk.now - 100.0 == pytest.approx(LONGEST_SECONDS)


def test_while_it_is_being_written_the_sync_is_still_to_come() -> None:
    writing = [number * 0.000_2 for number in range(40)]  # longer than a thread waits otherwise
    disk = Disk(writing[-1] + 0.000_5, reported_at=writing)

    assert wait(disk) == pytest.approx(writing[-1] + 0.000_5, rel=0.5)
    assert len(disk.polls) < 16


def test_a_program_that_never_stops_writing_is_not_waited_for_and_polled_seldom() -> None:
    disk = Disk(reported_at=[number * 0.000_05 for number in range(20_000)])

    assert wait(disk) is None
    assert len(disk.polls) < 50
    assert disk.now - 100.0 == pytest.approx(MAX_POST_WRITE_SECONDS, abs=LONGEST_SECONDS)


def test_a_clock_that_stands_still_ends_it_too() -> None:
    class Stopped(Disk):
        def sleep(self, seconds: float) -> None:
            self.reported_at = [self.now]

    disk = Stopped(reported_at=[0.0])

    assert wait(disk) is None
    assert len(disk.polls) == MAX_POST_WRITE_POLLS


def test_a_write_that_is_signalled_after_the_last_poll_is_left_for_the_next() -> None:
    before, after = POST_WRITE_POLLS_SECONDS[3:5]
    disk = Disk((before + after) / 2, reported_at=[0.0, (before + after) / 2 + 0.000_01])

    assert wait(disk) is not None
    assert disk.drain()
