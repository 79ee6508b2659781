"""Users of polling in a simulation: subscribers of shared polls and of the polling service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from longwatch.errors import LongwatchError
from longwatch.following.callbacks import Subscription
from longwatch.following.polling_service import PolledRun, PollingService
from longwatch.following.threads import LoopThread
from longwatch.model.event import Event
from longwatch.polling.manager import CACHE_SECONDS, MAX_CONCURRENT, PollingManager
from longwatch.polling.shared_poll import Registration
from longwatch.testing.simulation.network import READING
from longwatch.testing.simulation.plan import RunEnd
from longwatch.testing.simulation.virtual_loop import VirtualLoop
from longwatch.testing.simulation.world import World
from longwatch.testing.simulation.writers import RunWork

NEWS_SECONDS = 90.0  # within which every subscriber gets a result: five retries and slow requests
TURNS = 12


@dataclass(frozen=True, slots=True)
class SimulatedResult:
    """The result of a poll."""

    key: str
    number: int
    began: float


@dataclass(eq=False)
class PollSubscriber:
    """A subscriber of one key."""

    key: str
    registration: Registration | None = None
    numbers: list[int] = field(default_factory=list)


class ManagerUser:
    """Uses a polling manager in random ways and checks its results."""

    def __init__(self, world: World, works: list[RunWork]) -> None:
        self._world = world
        self._keys = [work.run_id for work in works]
        self._random = world.random("manager")
        self._manager = PollingManager(draw=self._random.random)
        self._pollers: list[PollSubscriber] = []
        self._since: dict[str, float] = {}  # key -> when the first of those who are here came
        self._flying: Counter[str] = Counter()
        self._calls = 0

    async def live(self) -> None:
        """Subscribe, leave, pause and resume; then check that all are served and that nothing remains."""
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
        assert not metrics.keys, f"{metrics.keys} keys are polled without a subscriber"
        assert not metrics.in_flight, f"{metrics.in_flight} requests are in flight without a subscriber"
        await asyncio.sleep(20.0)
        assert self._calls == calls, "the manager polls without a subscriber"
        await self._manager.aclose()

    async def _news(self) -> None:
        before = {poller: len(poller.numbers) for poller in self._pollers}
        deadline = self._world.loop.time() + NEWS_SECONDS
        while any(len(poller.numbers) == count for poller, count in before.items()):
            starving = [poller.key for poller, count in before.items() if len(poller.numbers) == count]
            stopped = all(self._manager.states()[key].stopped for key in starving)
            if stopped:
                self._manager.touch()  # it gave up after six failures in a row, as it should
            assert self._world.loop.time() < deadline, f"a subscriber of {starving[0]} gets no result"
            await asyncio.sleep(1.0)

    def _come(self) -> None:
        key = self._random.choice(self._keys)
        poller = PollSubscriber(key)
        if not any(each.key == key for each in self._pollers):
            self._since[key] = self._world.loop.time()
        self._pollers.append(poller)

        async def poll() -> SimulatedResult:
            return await self._poll(key)

        def on_result(answer: SimulatedResult) -> None:
            self._receive(poller, answer)

        def fail(error: Exception) -> None:
            if isinstance(error, AssertionError):
                self._world.broken(error)

        interval = self._random.choice([0.2, 1.0, 3.0, None])
        poller.registration = self._manager.register(key, poll, interval, on_result=on_result, on_error=fail)
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

    async def _poll(self, key: str) -> SimulatedResult:
        self._calls += 1
        number, began = self._calls, self._world.loop.time()
        self._flying[key] += 1
        try:
            assert self._flying.total() <= MAX_CONCURRENT, "more requests in flight than allowed"
            there, back = self._world.faults.delays()
            await asyncio.sleep(there)
            self._world.faults.gate(READING, lambda: None)
            await asyncio.sleep(back)
            return SimulatedResult(key, number, began)
        finally:
            self._flying[key] -= 1

    def _receive(self, poller: PollSubscriber, answer: SimulatedResult) -> None:
        self._world.counts.delivered += 1
        self._world.mark("manager", f"a subscriber of {poller.key} gets result {answer.number}")
        assert poller in self._pollers, f"a subscriber of {poller.key} has left and gets a result"
        assert answer.key == poller.key, f"the answer for {answer.key} came to a subscriber of {poller.key}"
        assert answer.began >= self._since[poller.key], f"an answer of an earlier start came to {poller.key}"
        assert not poller.numbers or answer.number > poller.numbers[-1], "answers came out of order"
        poller.numbers.append(answer.number)


PATIENCE_SECONDS = 600.0
MEDDLING_SHARE = 0.02  # of calls: the listener itself starts or stops something


@dataclass(eq=False)
class ServiceListener:
    """A listener of the service."""

    name: str
    subscription: Subscription[Event] | None = None
    received: set[str] = field(default_factory=set)  # IDs since the last start


class ServiceUser:
    """Uses a polling service in random ways and checks its events."""

    def __init__(self, world: World, works: list[RunWork]) -> None:
        self._world = world
        self._works = works
        self._random = world.random("service")
        kind = type("_Service", (*world.parts.service_overrides, _SameLoopService), {})
        self._service: _SameLoopService = kind(
            world.store.journal(world.faults), clock=world.clock, make_hub=world.hub
        )
        self._listeners: list[ServiceListener] = []
        self._run_id: str | None = None  # of which events may come
        self._made = 0
        self._is_left_alone = False  # the listeners do nothing but listen

    async def live(self) -> None:
        """Use the service at random until all runs are over; then follow one run from start to end."""
        self._service.on_error(self._failed)
        acts: list[Callable[[], None]] = [
            self._come,
            self._come,
            self._go,
            self._start,
            self._start,
            self._stop,
        ]
        while not all(work.is_over.is_set() for work in self._works):
            self._random.choice(acts)()
            await asyncio.sleep(self._random.choice([0.0, self._random.uniform(0.0, 6.0)]))
        self._is_left_alone = True
        work = self._random.choice(self._works)
        self._stop()
        while self._listeners:
            self._go()
        self._come()
        self._begin(work.run_id)
        if work.plan.end is not RunEnd.OPEN:
            await self._until_over()
            there = {event.event_id for event in self._world.store.events(work.run_id)}
            missing = there - self._listeners[0].received
            assert not missing, f"the service never delivered {', '.join(sorted(missing))}"
        await self._end()

    async def _until_over(self) -> None:
        deadline = self._world.loop.time() + PATIENCE_SECONDS
        while self._service.current_workflow_id is not None:
            assert self._world.loop.time() < deadline, f"the service never stops following {self._run_id}"
            await asyncio.sleep(0.25)
        await asyncio.sleep(0.25)  # for what is already on its way to the listener

    async def _end(self) -> None:
        while self._listeners:
            self._go()
        assert not self._service.is_polling, "the service polls without a listener"
        self._service.dispose()
        self._run_id = None
        await self._service.ended()

    def _come(self) -> None:
        self._made += 1
        listener = ServiceListener(f"listener-{self._made}")
        self._listeners.append(listener)
        listener.subscription = self._service.on_event(lambda event: self._receive(listener, event))
        self._world.mark("service", f"{listener.name} comes")

    def _go(self) -> None:
        if self._listeners:
            listener = self._listeners.pop(self._random.randrange(len(self._listeners)))
            assert listener.subscription is not None
            was_polling = self._service.is_polling
            listener.subscription.dispose()
            if not self._listeners and was_polling:
                self._run_id = None
            self._world.mark("service", f"{listener.name} goes")

    def _start(self) -> None:
        self._begin(self._random.choice(self._works).run_id)

    def _begin(self, run_id: str) -> None:
        if self._service.current_workflow_id != run_id:
            for listener in self._listeners:
                listener.received.clear()
        self._run_id = run_id
        self._service.start_polling(run_id)
        self._world.mark("service", f"starts {run_id}")

    def _stop(self) -> None:
        self._run_id = None
        self._service.stop_polling()
        self._world.mark("service", "stops")

    def _receive(self, listener: ServiceListener, event: Event) -> None:
        self._world.counts.delivered += 1
        self._world.mark("service", f"{listener.name} gets {event.event_id}")
        assert listener in self._listeners, f"{listener.name} has left and gets {event.event_id}"
        wanted = self._run_id
        assert event.run_id == wanted, f"{event.event_id} of {event.run_id} came while {wanted} is followed"
        assert event.event_id not in listener.received, f"{listener.name} gets {event.event_id} twice"
        listener.received.add(event.event_id)
        if not self._is_left_alone and self._random.random() < MEDDLING_SHARE:
            self._random.choice([self._go, self._start, self._stop])()

    def _failed(self, error: Exception) -> None:
        self._world.mark("service", f"error {type(error).__name__}")
        if isinstance(error, AssertionError):
            self._world.broken(error)
        elif not isinstance(error, LongwatchError):
            self._world.broken(AssertionError(f"the service reports {error!r}"))


class _SameLoopService(PollingService):
    """A polling service without a thread, in the loop of its user."""

    def _start(self, run: PolledRun) -> None:
        if self._thread is None:
            self._thread = _SameLoop(self._close_journal)
        super()._start(run)

    async def ended(self) -> None:
        """Wait until the service has stopped."""
        if isinstance(self._thread, _SameLoop):
            await self._thread.finish()


class _SameLoop(LoopThread):
    """The running loop instead of a thread with a loop."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self._at_end = at_end
        self._tasks = set()

    @property
    def is_current(self) -> bool:
        return False

    def end(self) -> None:
        """Nothing to end: the loop is shared."""

    def join(self, timeout_seconds: float) -> bool:
        return True

    async def finish(self) -> None:
        """Do what a thread does at its end."""
        await self._finish()
        self._at_end()
