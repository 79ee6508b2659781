"""Waiting for what a journal was told of: a write is heard of before it can be read, by the time of its sync.

That time is learned, so that a look comes when there is something to see: one that is too early is in vain,
and by what it is too late whoever follows has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from longwatch.clock import Clock
from longwatch.storage.change_signal import ChangeSignal

FIRST_EXPECTED_SECONDS = 0.0005
SHORTEST_SECONDS = 0.0001
LONGEST_SECONDS = 0.005  # in a thread; after that a timer will do, which goes by milliseconds
EARLY = 0.75  # the first look, as a share of the time that is expected
STEP, LATE_STEP = 1.2, 1.6  # each further one comes so much later
CLOSE_LOOKS = 6  # before the later steps
STEP_WHILE_WRITTEN = 1.5  # for the first look, each time that it was still being written
QUICK_LOOKS_WHILE_WRITTEN = 8  # before that
# Of the latest time in what is expected. Some syncs take ten times as long as others, and looking is cheap.
WEIGHT_IF_LONGER = 0.06
WEIGHT_IF_SHORTER = 0.25
NO_SLEEP_SECONDS = 0.000_05  # a thread that sleeps wakes up so much too late anyway
MOST_SECONDS, MOST_LOOKS = 0.05, 100  # somebody may write a transaction that is larger than memory

T = TypeVar("T")


class PostWriteWait:
    """When to look, after something was told of."""

    def __init__(self) -> None:
        self.expected = FIRST_EXPECTED_SECONDS

    @property
    def first(self) -> float:
        """The first moment."""
        return EARLY * self.expected

    def moments(self, first: float) -> Iterator[float]:
        """Seconds after the telling, up to `LONGEST_SECONDS`."""
        at, looks = first, 0
        while at < LONGEST_SECONDS:
            yield at
            looks += 1
            at *= STEP if looks < CLOSE_LOOKS else LATE_STEP
        yield LONGEST_SECONDS

    def took(self, more_than: float, at_most: float) -> None:
        """It could not be read after the one time, and it could after the other."""
        seconds = (more_than + at_most) / 2
        weight = WEIGHT_IF_LONGER if seconds > self.expected else WEIGHT_IF_SHORTER
        expected = self.expected + (seconds - self.expected) * weight
        self.expected = min(max(expected, SHORTEST_SECONDS), LONGEST_SECONDS)


def read_when_told(
    read: Callable[[], Sequence[T]], signal: ChangeSignal, patience: PostWriteWait, clock: Clock
) -> Sequence[T]:
    """In a thread: what can be read of that which was told of just now; nothing if that takes longer.

    What is told of meanwhile is taken: mostly it is the rest of the same write. It may be the beginning of
    another one too, so look again a little later. What is told of after the last look is left where it is.
    """
    signal.drain()
    first, written = patience.first, 0
    told_at, not_yet, moments = clock.monotonic(), 0.0, patience.moments(first)
    until = told_at + MOST_SECONDS
    for _ in range(MOST_LOOKS):
        moment = next(moments, None)
        if moment is None or told_at >= until:
            break
        ahead = told_at + moment - clock.monotonic()
        if ahead > NO_SLEEP_SECONDS:
            clock.sleep(ahead)
        found = read()
        if found:
            patience.took(not_yet, clock.monotonic() - told_at)
            return found
        if signal.drain():  # it is still being written, and the sync comes after that
            written += 1
            if written > QUICK_LOOKS_WHILE_WRITTEN:
                first = min(first * STEP_WHILE_WRITTEN, LONGEST_SECONDS)
            told_at, not_yet, moments = clock.monotonic(), 0.0, patience.moments(first)
        else:
            not_yet = moment
    return ()
