"""Somebody who uses a polling service: starts, switches and stops, and has listeners that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from longwatch.errors import LongwatchError
from longwatch.following.callbacks import Subscription
from longwatch.following.polling_service import PolledRun, PollingService
from longwatch.following.threads import LoopThread
from longwatch.model.event import Event
from longwatch.testing.simulation.bugs import Bug, Unrevoked
from longwatch.testing.simulation.loop import VirtualLoop
from longwatch.testing.simulation.plan import RunEnd
from longwatch.testing.simulation.working import Work
from longwatch.testing.simulation.world import World

PATIENCE_SECONDS = 600.0
MEDDLING_SHARE = 0.02  # of calls: the listener itself starts or stops something


@dataclass(eq=False)
class Listener:
    """Somebody who is called."""

    name: str
    subscription: Subscription[Event] | None = None
    heard: set[str] = field(default_factory=set)  # ids, since polling last began


class ServiceUser:
    """Does anything with a service that one can do, and knows what must not happen then."""

    def __init__(self, world: World, works: list[Work]) -> None:
        self._world = world
        self._works = works
        self._random = world.random("service")
        kind = _Unrevoked if world.bug is Bug.STALE_RESULT else _SameLoopService
        self._service: _SameLoopService = kind(
            world.store.journal(world.weather), clock=world.clock, make_hub=world.plain_hub
        )
        self._listeners: list[Listener] = []
        self._run_id: str | None = None  # of which events may come
        self._made = 0
        self._is_left_alone = False  # the listeners do nothing but listen

    async def live(self) -> None:
        """Play around until all runs are over; then follow one of them from its beginning to its end."""
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
            missing = there - self._listeners[0].heard
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
        assert not self._service.is_polling, "the service polls though nobody listens"
        self._service.dispose()
        self._run_id = None
        await self._service.ended()

    def _come(self) -> None:
        self._made += 1
        listener = Listener(f"listener-{self._made}")
        self._listeners.append(listener)
        listener.subscription = self._service.on_event(lambda event: self._hear(listener, event))
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
                listener.heard.clear()
        self._run_id = run_id
        self._service.start_polling(run_id)
        self._world.mark("service", f"starts {run_id}")

    def _stop(self) -> None:
        self._run_id = None
        self._service.stop_polling()
        self._world.mark("service", "stops")

    def _hear(self, listener: Listener, event: Event) -> None:
        self._world.tally.delivered += 1
        self._world.mark("service", f"{listener.name} hears {event.event_id}")
        assert listener in self._listeners, f"{listener.name} has left, and hears {event.event_id}"
        wanted = self._run_id
        assert event.run_id == wanted, f"{event.event_id} of {event.run_id} came while {wanted} is followed"
        assert event.event_id not in listener.heard, f"{listener.name} hears {event.event_id} twice"
        listener.heard.add(event.event_id)
        if not self._is_left_alone and self._random.random() < MEDDLING_SHARE:
            self._random.choice([self._go, self._start, self._stop])()

    def _failed(self, error: Exception) -> None:
        self._world.mark("service", f"error {type(error).__name__}")
        if isinstance(error, AssertionError):
            self._world.broken(error)
        elif not isinstance(error, LongwatchError):
            self._world.broken(AssertionError(f"the service reports {error!r}"))


class _SameLoopService(PollingService):
    """A polling service without a thread: it lives in the loop of whoever uses it."""

    def _begin(self, run: PolledRun) -> None:
        if self._thread is None:
            self._thread = _SameLoop(self._close_journal)
        super()._begin(run)

    async def ended(self) -> None:
        """Until nothing of it is under way any more."""
        if isinstance(self._thread, _SameLoop):
            await self._thread.finish()


class _Unrevoked(Unrevoked, _SameLoopService):
    """The same with a bug."""


class _SameLoop(LoopThread):
    """The running loop in place of one in a thread."""

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
        """Nothing to end: the loop is everybody's."""

    def join(self, timeout_seconds: float) -> bool:
        return True

    async def finish(self) -> None:
        """What a thread does at its end."""
        await self._finish()
        self._at_end()
