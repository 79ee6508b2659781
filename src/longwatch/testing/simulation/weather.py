"""What goes wrong between a program and its store: throttling, answers that get lost, delays and outages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from longwatch.errors import Unreachable
from longwatch.testing.tables import no_answer, throttled

T = TypeVar("T")

READING, WRITING = "reading", "writing"

QUICK_SECONDS = 0.02  # what a request usually takes at most, one way
SLOW_SECONDS = 1.5  # what a slow one takes at most
LANDS_BETWEEN_SHARE = 0.3  # of queries: something is written just before their answer

_WORDS = {
    (READING, "before"): "reads throttled",
    (READING, "after"): "pages lost",
    (WRITING, "before"): "writes throttled",
    (WRITING, "after"): "timeouts after success",
}


@dataclass(frozen=True, slots=True)
class Outage:
    """Nobody of one side reaches the store for a while."""

    side: str
    begins: float  # seconds
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """How bad the weather of a simulation is. Shares are of all calls."""

    throttled: float = 0.0
    lost: float = 0.0  # done, but the answer does not arrive
    slow: float = 0.0
    outages: tuple[Outage, ...] = ()


class Weather:
    """Decides for each call what becomes of it."""

    def __init__(
        self, climate: Climate, random: Random, now: Callable[[], float], count: Callable[[str], None]
    ) -> None:
        self._climate = climate
        self._random = random
        self._now = now
        self._count = count
        self._lands: Callable[[], bool] = lambda: False

    def calm_down(self) -> None:
        """Nothing goes wrong any more, though some things still take long."""
        self._climate = Climate(slow=self._climate.slow)

    def writes_land(self, lands: Callable[[], bool]) -> None:
        """Call this to let a write that is under way reach the store at this very moment."""
        self._lands = lands

    def fate(self, side: str) -> str:
        """What becomes of a call, as a plan of a `FailingTable` says it. Raises in an outage."""
        climate, now = self._climate, self._now()
        if any(each.side == side and each.begins <= now < each.ends for each in climate.outages):
            self._count(f"{side} in an outage")
            raise Unreachable("the store cannot be reached, by the simulation")
        if side == READING and self._random.random() < LANDS_BETWEEN_SHARE and self._lands():
            self._count("writes between pages")
        chance = self._random.random()
        if chance >= climate.throttled + climate.lost:
            return ""
        what = "before" if chance < climate.throttled else "after"
        self._count(_WORDS[side, what])
        return what

    def gate(self, side: str, call: Callable[[], T]) -> T:
        """Make a call, unless it fails before or after."""
        fate = self.fate(side)
        if fate == "before":
            raise throttled()
        answer = call()
        if fate == "after":
            raise no_answer()
        return answer

    def delay(self) -> float:
        """How long something takes to arrive."""
        if self._random.random() < self._climate.slow:
            self._count("slow requests")
            return self._random.uniform(QUICK_SECONDS, SLOW_SECONDS)
        return self._random.uniform(0.0, QUICK_SECONDS)

    def delays(self) -> tuple[float, float]:
        """There and back."""
        return self.delay(), self.delay()
