"""The network of a simulation: faults between programs and their store, and delayed writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from longwatch.errors import LongwatchError, Unreachable
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.testing.tables import lost_response, throttled


@dataclass(eq=False, slots=True)
class _Underway:
    journal: Journal
    events: Sequence[Event]
    answer: asyncio.Future[None]
    timer: asyncio.TimerHandle | None = None


class Network:
    """Delivers appends. `delay` returns the seconds of one direction."""

    def __init__(
        self, random: Random, delay: Callable[[], float], mark: Callable[[str, Sequence[Event]], None]
    ) -> None:
        self._random = random
        self._delay = delay
        self._mark = mark
        self._loop = asyncio.get_running_loop()
        self._underway: dict[_Underway, None] = {}

    async def append(self, journal: Journal, events: Sequence[Event]) -> None:
        """Append like a blocking call in a thread: a cancelled caller has sent it nevertheless."""
        request = _Underway(journal, events, self._loop.create_future())
        self._underway[request] = None
        request.timer = self._loop.call_later(self._delay(), self._land, request)
        await request.answer

    def land_one(self) -> bool:
        """Deliver one pending write now; False without any."""
        if not self._underway:
            return False
        request = self._random.choice(list(self._underway))
        if request.timer is not None:
            request.timer.cancel()
        self._land(request)
        return True

    async def idle(self, run_id: str) -> None:
        """Wait until no write of this run is pending."""
        while any(  # noqa: ASYNC110
            event.run_id == run_id for request in self._underway for event in request.events
        ):
            await asyncio.sleep(0.05)  # virtual time costs nothing

    def _land(self, request: _Underway) -> None:
        del self._underway[request]
        problem: LongwatchError | None = None
        try:
            request.journal.append(request.events)
        except LongwatchError as error:
            problem = error
        self._mark("stored" if problem is None else type(problem).__name__, request.events)
        self._loop.call_later(self._delay(), _answer, request.answer, problem)


def _answer(answer: asyncio.Future[None], problem: LongwatchError | None) -> None:
    if answer.done():  # the caller is gone
        return
    if problem is None:
        answer.set_result(None)
    else:
        answer.set_exception(problem)


T = TypeVar("T")

READING, WRITING = "reading", "writing"

QUICK_SECONDS = 0.02  # usual upper limit, one way
SLOW_SECONDS = 1.5  # upper limit of a slow request
LANDS_BETWEEN_SHARE = 0.3  # of queries: a write arrives just before the response

_WORDS = {
    (READING, "before"): "reads throttled",
    (READING, "after"): "pages lost",
    (WRITING, "before"): "writes throttled",
    (WRITING, "after"): "timeouts after success",
}


@dataclass(frozen=True, slots=True)
class SimulatedOutage:
    """A period in which readers or writers cannot reach the store."""

    side: str
    begins: float  # seconds
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """The rates of faults, as shares of all calls."""

    throttled: float = 0.0
    lost: float = 0.0  # takes effect, but the response is lost
    slow: float = 0.0
    outages: tuple[SimulatedOutage, ...] = ()


class FaultModel:
    """Decides the fault of each call."""

    def __init__(
        self, rates: FaultRates, random: Random, now: Callable[[], float], count: Callable[[str], None]
    ) -> None:
        self._rates = rates
        self._random = random
        self._now = now
        self._count = count
        self._lands: Callable[[], bool] = lambda: False

    def calm_down(self) -> None:
        """Stop all faults except slow requests."""
        self._rates = FaultRates(slow=self._rates.slow)

    def writes_land(self, lands: Callable[[], bool]) -> None:
        """Set the function that delivers a pending write at once."""
        self._lands = lands

    def fate(self, side: str) -> str:
        """The fault of a call, as in a plan of `FailingTable`. Raises during an outage."""
        rates, now = self._rates, self._now()
        if any(each.side == side and each.begins <= now < each.ends for each in rates.outages):
            self._count(f"{side} in an outage")
            raise Unreachable("the store cannot be reached, by the simulation")
        if side == READING and self._random.random() < LANDS_BETWEEN_SHARE and self._lands():
            self._count("writes between pages")
        chance = self._random.random()
        if chance >= rates.throttled + rates.lost:
            return ""
        what = "before" if chance < rates.throttled else "after"
        self._count(_WORDS[side, what])
        return what

    def gate(self, side: str, call: Callable[[], T]) -> T:
        """Make a call with its fault."""
        fate = self.fate(side)
        if fate == "before":
            raise throttled()
        result = call()
        if fate == "after":
            raise lost_response()
        return result

    def delay(self) -> float:
        """The delay of one direction."""
        if self._random.random() < self._rates.slow:
            self._count("slow requests")
            return self._random.uniform(QUICK_SECONDS, SLOW_SECONDS)
        return self._random.uniform(0.0, QUICK_SECONDS)

    def delays(self) -> tuple[float, float]:
        """The delays of both directions."""
        return self.delay(), self.delay()
