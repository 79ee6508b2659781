"""Somebody who uses a polling manager: subscribers of shared polls that come, go, pause and resume."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from longwatch.polling.manager import CACHE_SECONDS, MAX_CONCURRENT, PollingManager
from longwatch.polling.shared_poll import Registration
from longwatch.testing.simulation.weather import READING
from longwatch.testing.simulation.working import Work
from longwatch.testing.simulation.world import World

NEWS_SECONDS = 90.0  # within which everybody who subscribes gets an answer: five retries and slow requests
TURNS = 12


@dataclass(frozen=True, slots=True)
class Answer:
    """What a poll found."""

    key: str
    number: int
    began: float


@dataclass(eq=False)
class Poller:
    """A subscriber of one key."""

    key: str
    registration: Registration | None = None
    numbers: list[int] = field(default_factory=list)


class ManagerUser:
    """Does anything with a manager that one can do, and knows what must not happen then."""

    def __init__(self, world: World, works: list[Work]) -> None:
        self._world = world
        self._keys = [work.run_id for work in works]
        self._random = world.random("manager")
        self._manager = PollingManager(draw=self._random.random)
        self._pollers: list[Poller] = []
        self._since: dict[str, float] = {}  # key -> when the first of those who are here came
        self._flying: Counter[str] = Counter()
        self._calls = 0

    async def live(self) -> None:
        """Come, go, pause and resume; then see that everybody is served, and that nothing is left of them."""
        acts = [self._come, self._come, self._come, self._go, self._go, self._pause, self._manager.resume]
        for _ in range(TURNS):
            self._random.choice(acts)()
            await asyncio.sleep(self._random.choice([0.0, self._random.uniform(0.0, 5.0)]))
        self._manager.resume()
        self._world.mark("manager", "everybody waits for news")
        self._manager.touch()
        await self._news()
        while self._pollers:
            self._go()
        await asyncio.sleep(CACHE_SECONDS + 5.0)
        calls, metrics = self._calls, self._manager.metrics
        assert not metrics.keys, f"{metrics.keys} keys are polled for nobody"
        assert not metrics.in_flight, f"{metrics.in_flight} requests are in flight for nobody"
        await asyncio.sleep(20.0)
        assert self._calls == calls, "the manager polls for nobody"
        await self._manager.aclose()

    async def _news(self) -> None:
        before = {poller: len(poller.numbers) for poller in self._pollers}
        deadline = self._world.loop.time() + NEWS_SECONDS
        while any(len(poller.numbers) == count for poller, count in before.items()):
            starving = [poller.key for poller, count in before.items() if len(poller.numbers) == count]
            stopped = all(self._manager.states()[key].stopped for key in starving)
            if stopped:
                self._manager.touch()  # it gave up after six failures in a row, as it should
            assert self._world.loop.time() < deadline, f"a subscriber of {starving[0]} gets no answer"
            await asyncio.sleep(1.0)

    def _come(self) -> None:
        key = self._random.choice(self._keys)
        poller = Poller(key)
        if not any(each.key == key for each in self._pollers):
            self._since[key] = self._world.loop.time()
        self._pollers.append(poller)

        async def poll() -> Answer:
            return await self._poll(key)

        def hear(answer: Answer) -> None:
            self._hear(poller, answer)

        def fail(error: Exception) -> None:
            if isinstance(error, AssertionError):
                self._world.broken(error)

        interval = self._random.choice([0.2, 1.0, 3.0, None])
        poller.registration = self._manager.register(key, poll, interval, on_result=hear, on_error=fail)
        self._world.mark("manager", f"one comes to {key}")

    def _go(self) -> None:
        if self._pollers:
            poller = self._pollers.pop(self._random.randrange(len(self._pollers)))
            assert poller.registration is not None
            self._manager.unregister(poller.registration)
            self._world.mark("manager", f"one leaves {poller.key}")

    def _pause(self) -> None:
        self._manager.pause()
        self._world.mark("manager", "pauses")

    async def _poll(self, key: str) -> Answer:
        self._calls += 1
        number, began = self._calls, self._world.loop.time()
        self._flying[key] += 1
        try:
            assert self._flying.total() <= MAX_CONCURRENT, "more requests in flight than allowed"
            there, back = self._world.weather.delays()
            await asyncio.sleep(there)
            self._world.weather.gate(READING, lambda: None)
            await asyncio.sleep(back)
            return Answer(key, number, began)
        finally:
            self._flying[key] -= 1

    def _hear(self, poller: Poller, answer: Answer) -> None:
        self._world.tally.delivered += 1
        self._world.mark("manager", f"a subscriber of {poller.key} hears answer {answer.number}")
        assert poller in self._pollers, f"a subscriber of {poller.key} has left, and hears an answer"
        assert answer.key == poller.key, f"the answer for {answer.key} came to a subscriber of {poller.key}"
        assert answer.began >= self._since[poller.key], f"an answer of an earlier start came to {poller.key}"
        assert not poller.numbers or answer.number > poller.numbers[-1], "answers came out of order"
        poller.numbers.append(answer.number)
