"""What holds for the polling manager whatever happens: fair, shared, never stale, and it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longwatch.polling import PollingManager, Registration
from tests.unit.polling.virtual import in_virtual_time, now, others

SLOT = 0.01
KEYS = range(4)
FETCHED = 99  # a key that is only fetched
INTERVALS = st.sampled_from([0.2, 0.5, 1.0, 3.0, None])
SECONDS = st.sampled_from([0.0, 0.05, 0.3, 0.6, 1.7])


@given(polls=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 200)), min_size=1, max_size=12))
def test_a_due_key_is_overtaken_at_most_once_by_each_of_the_others(polls: list[tuple[int, int]]) -> None:
    starts: list[tuple[float, int]] = []  # moment, key
    ends: list[tuple[float, int]] = []

    def poll_of(key: int, seconds: float) -> Callable[[], Coroutine[Any, Any, None]]:
        async def poll() -> None:
            starts.append((now(), key))
            await asyncio.sleep(seconds)
            ends.append((now(), key))

        return poll

    async def main() -> None:
        async with PollingManager() as manager:
            for key, (interval, seconds) in enumerate(polls):
                manager.register(key, poll_of(key, seconds / 100), interval / 100)
            await asyncio.sleep(20)

    in_virtual_time(main())

    for key, (interval, _) in enumerate(polls):
        began = [at for at, each in starts if each == key]
        ended = [at for at, each in ends if each == key]
        assert began
        for (before, after), end in zip(pairwise(began), ended, strict=False):
            queued = max(before + interval / 100, end) + SLOT
            between = Counter(each for at, each in starts if queued < at < after)
            assert max(between.values(), default=0) <= 1


@given(
    subscribers=st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=8
    ),
    seconds=SECONDS,
)
def test_a_shared_key_is_polled_as_if_it_had_one_subscriber(
    subscribers: list[tuple[int, float]], seconds: float
) -> None:
    at_once = most_at_once = calls = 0
    results: Counter[int] = Counter()

    async def poll() -> int:
        nonlocal at_once, most_at_once, calls
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        calls += 1
        value = calls
        await asyncio.sleep(seconds)
        at_once -= 1
        return value

    def receive(index: int, value: int) -> None:
        results[index] += 1

    async def main() -> None:
        async with PollingManager() as manager:
            for index, (after, interval) in enumerate(subscribers):
                await asyncio.sleep(after / 100)
                manager.register("a", poll, interval, on_result=partial(receive, index))
            await asyncio.sleep(5)
            before, results_before = calls, results.copy()
            await asyncio.sleep(20)
            received = {results[index] - results_before[index] for index in range(len(subscribers))}

            eager = min(interval for _, interval in subscribers)
            assert most_at_once == 1
            assert calls - before <= 20 / max(eager, seconds) + 1
            assert len(received) == 1
            assert abs(received.pop() - (calls - before)) <= 1

    in_virtual_time(main())


@dataclass
class World:
    """Sources that take long and fail on demand.

    What a poll or a subscriber raises is caught, as it should be, so mistakes are recorded and checked later.
    """

    seconds: dict[int, float]  # by key
    mistakes: list[str] = field(default_factory=list)
    at_once: int = 0
    serial: int = 0
    failing: set[int] = field(default_factory=set)
    paused: bool = False
    fetched: set[int] = field(default_factory=set)  # keys for which a pause and a registration begin nothing

    def tick(self) -> int:
        self.serial += 1
        return self.serial

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.mistakes.append(otherwise)

    def poll_of(self, key: int) -> Callable[[], Coroutine[Any, Any, int]]:
        async def poll() -> int:
            started = self.tick()
            self.at_once += 1
            self.check(not self.paused or key in self.fetched, "asked during a pause")
            self.check(self.at_once <= 3, "more than three at once")
            try:
                await asyncio.sleep(self.seconds[key])
            finally:
                self.at_once -= 1
            if key in self.failing:
                raise OSError("refused")
            return started

        return poll


@dataclass
class Subscriber:
    """A subscriber that checks whatever it receives."""

    world: World
    key: int
    life_began: int  # when its key got the first of its present subscribers
    registration: Registration | None = None
    received: list[int] = field(default_factory=list)
    left: bool = False

    def receive(self, started: int) -> None:
        self.world.check(not self.left, "notified after leaving")
        fetched = self.key in self.world.fetched
        self.world.check(fetched or started > self.life_began, "received a result that was requested before")
        self.world.check(
            not self.received or started > self.received[-1], "received an older result after a newer one"
        )
        self.received.append(started)


KEY = st.sampled_from(KEYS)
STEPS = st.one_of(
    st.tuples(st.just("register"), KEY, INTERVALS),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("unregister"), KEY),
    st.tuples(st.sampled_from(["pause", "resume"])),
    st.tuples(st.just("touch"), KEY | st.none()),
    st.tuples(st.just("fetch"), KEY | st.just(FETCHED), SECONDS),
    st.tuples(st.just("fail"), KEY),
    st.tuples(st.just("mend"), KEY),
    st.tuples(st.just("slow"), KEY, SECONDS),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.1, 0.45, 0.5, 1.0, 7.0])),
)


@given(
    seconds=st.fixed_dictionaries(dict.fromkeys([*KEYS, FETCHED], SECONDS)),
    keys=st.lists(KEY, max_size=6),
    steps=st.lists(STEPS, max_size=40),
)
def test_whatever_happens_nothing_is_stale_and_everything_continues_and_ends(
    seconds: dict[int, float], keys: list[int], steps: list[Any]
) -> None:
    in_virtual_time(_live(seconds, [*(("register", key, 1.0) for key in keys), *steps]))


async def _live(seconds: dict[int, float], steps: list[Any]) -> None:
    world, subscribers, fetches = World(seconds), list[Subscriber](), list[asyncio.Task[Any]]()
    manager = PollingManager()

    def here(key: int) -> list[Subscriber]:
        return [subscriber for subscriber in subscribers if subscriber.key == key and not subscriber.left]

    for step in steps:
        match step:
            case "register", key, interval:
                there = here(key)
                subscriber = Subscriber(world, key, there[0].life_began if there else world.tick())
                subscriber.registration = manager.register(
                    key,
                    world.poll_of(key),
                    interval,
                    on_result=subscriber.receive,
                    on_error=lambda error: None,
                )
                subscribers.append(subscriber)
            case "leave", index if index < len(subscribers):
                registration = subscribers[index].registration
                assert registration is not None
                registration.dispose()
                subscribers[index].left = True
            case "unregister", key:
                manager.unregister(key)
                if there := here(key):
                    there[-1].left = True
            case ("pause",):
                manager.pause()
                await _settled()
                world.paused = True
            case ("resume",):
                world.paused = False
                manager.resume()
            case "touch", key:
                manager.touch(key)
            case "fetch", key, patience:
                world.fetched.add(key)
                fetch = manager.fetch(key, world.poll_of(key))
                fetches.append(asyncio.create_task(asyncio.wait_for(fetch, patience or None)))
            case "fail", key:
                world.failing.add(key)
            case "mend", key:
                world.failing.discard(key)
            case "slow", key, longer:
                world.seconds[key] = longer
            case "wait", passing:
                await asyncio.sleep(passing)
        metrics = manager.metrics
        assert metrics.in_flight <= 3
        assert metrics.subscribers == sum(not subscriber.left for subscriber in subscribers)

    await _continues(manager, world, subscribers)
    await _ends(manager, subscribers, fetches)

    assert world.mistakes == []


async def _settled() -> None:
    """Let what was started before a pause take its first step."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _continues(manager: PollingManager, world: World, subscribers: list[Subscriber]) -> None:
    """When all is well again, every subscriber that is left receives something new."""
    world.failing.clear()
    world.seconds = dict.fromkeys(world.seconds, 0.0)
    world.paused = False
    manager.resume()
    await asyncio.sleep(20)  # the longest backoff, and what was slow
    manager.touch()
    since = world.tick()
    await asyncio.sleep(4)

    for subscriber in subscribers:
        assert subscriber.left or subscriber.received[-1] > since


async def _ends(
    manager: PollingManager, subscribers: list[Subscriber], fetches: list[asyncio.Task[Any]]
) -> None:
    for subscriber in subscribers:
        assert subscriber.registration is not None
        subscriber.registration.dispose()
        subscriber.left = True
    with suppress(TimeoutError):
        await asyncio.gather(*fetches, return_exceptions=True)
    await asyncio.sleep(1)

    metrics = manager.metrics
    assert (metrics.keys, metrics.in_flight, metrics.queued) == (0, 0, 0)
    assert others() == set()
