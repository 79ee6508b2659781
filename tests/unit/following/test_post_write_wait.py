"""Waiting for what was told of, until it can be read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from longwatch.following.post_write_wait import (
    FIRST_EXPECTED_SECONDS,
    LONGEST_SECONDS,
    MOST_LOOKS,
    MOST_SECONDS,
    SHORTEST_SECONDS,
    PostWriteWait,
    read_when_told,
)


class Disk:
    """A journal, what it tells, and the clock they stand by. Looking and being told take no time."""

    descriptor: int | None = None
    check_seconds: float | None = None

    def __init__(self, *readable_at: float, told_at: Sequence[float] = ()) -> None:
        self.now = 100.0
        self.readable_at = [self.now + at for at in readable_at]
        self.told_at = [self.now + at for at in told_at]
        self.looks: list[float] = []

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def drain(self) -> bool:
        heard = [at for at in self.told_at if at <= self.now]
        self.told_at = [at for at in self.told_at if at > self.now]
        return bool(heard)

    def changed(self) -> bool:
        raise AssertionError("nobody has to ask")

    def close(self) -> None:
        """Nothing to let go of."""

    def read(self) -> Sequence[float]:
        if not self.looks or self.now > self.looks[-1]:
            self.looks.append(self.now)
        else:
            self.now += 0.000_01  # time passes for those who do not sleep, too
        return [at for at in self.readable_at if at <= self.now]


def wait(disk: Disk, patience: PostWriteWait) -> float | None:
    """How long it took until something could be read."""
    began = disk.now
    return disk.now - began if read_when_told(disk.read, disk, patience, disk) else None


def test_the_first_look_is_a_little_early_and_the_next_ones_follow_closely() -> None:
    moments = list(PostWriteWait().moments(PostWriteWait().first))
    steps = [second / first for first, second in pairwise(moments[:-1])]

    assert moments[0] == pytest.approx(0.75 * FIRST_EXPECTED_SECONDS)
    assert moments[-1] == LONGEST_SECONDS
    assert steps == pytest.approx([1.2] * 5 + [1.6] * 3)


@pytest.mark.parametrize("sync", [0.000_15, 0.000_5, 0.001, 0.004])
def test_what_a_sync_takes_is_learned_so_that_few_looks_are_in_vain_and_none_is_late(sync: float) -> None:
    patience = PostWriteWait()
    for _ in range(200):
        wait(Disk(sync), patience)

    disk = Disk(sync)
    took = wait(disk, patience)

    assert took is not None
    assert took <= 1.25 * sync + 0.000_05
    assert len(disk.looks) <= 4


def test_a_sync_that_takes_long_once_does_not_make_the_next_look_late() -> None:
    patience = PostWriteWait()
    for number in range(200):
        wait(Disk(0.004 if number % 10 == 0 else 0.000_5), patience)

    took = wait(Disk(0.000_5), patience)

    assert took is not None
    assert took <= 0.000_7


def test_nothing_is_expected_sooner_or_later_than_a_thread_should_wait() -> None:
    hasty, slow = PostWriteWait(), PostWriteWait()
    for _ in range(200):
        hasty.took(0.0, 0.0)
        slow.took(1.0, 9.0)

    assert hasty.expected == SHORTEST_SECONDS
    assert slow.expected == LONGEST_SECONDS
    assert list(slow.moments(slow.first))[-1] == LONGEST_SECONDS


def test_after_some_milliseconds_it_is_left_to_others() -> None:
    disk = Disk(1.0)

    assert wait(disk, PostWriteWait()) is None
    assert disk.now - 100.0 == pytest.approx(LONGEST_SECONDS)


def test_as_long_as_it_is_being_written_the_sync_is_still_to_come() -> None:
    writing = [number * 0.000_2 for number in range(40)]  # for longer than a thread waits otherwise
    disk = Disk(writing[-1] + 0.000_5, told_at=writing)

    assert wait(disk, PostWriteWait()) == pytest.approx(writing[-1] + 0.000_5, rel=0.5)
    assert len(disk.looks) < 16


@pytest.mark.parametrize("expected", [SHORTEST_SECONDS, FIRST_EXPECTED_SECONDS, LONGEST_SECONDS])
def test_somebody_who_writes_for_ever_is_not_waited_for_and_seldom_looked_at(expected: float) -> None:
    disk, patience = Disk(told_at=[number * 0.000_05 for number in range(20_000)]), PostWriteWait()
    patience.expected = expected

    assert wait(disk, patience) is None
    assert len(disk.looks) < 50
    assert disk.now - 100.0 == pytest.approx(MOST_SECONDS, abs=LONGEST_SECONDS)


def test_a_clock_that_stands_still_ends_it_too() -> None:
    class Stopped(Disk):
        def sleep(self, seconds: float) -> None:
            self.told_at = [self.now]

        def read(self) -> Sequence[float]:
            self.looks.append(self.now)
            return []

    disk = Stopped(told_at=[0.0])

    assert wait(disk, PostWriteWait()) is None
    assert len(disk.looks) == MOST_LOOKS


def test_what_is_told_of_after_the_last_look_in_vain_is_left_for_the_next_time() -> None:
    patience = PostWriteWait()
    *_, before, after = (at for at in patience.moments(patience.first) if at < 0.002)
    disk = Disk((before + after) / 2, told_at=[0.0, (before + after) / 2 + 0.000_01])

    assert wait(disk, patience) is not None
    assert disk.drain()
