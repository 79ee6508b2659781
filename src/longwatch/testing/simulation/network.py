"""Writes on their way to the store: they land later, in any order, also when the writer is gone by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from longwatch.errors import LongwatchError
from longwatch.journal.base import Journal
from longwatch.model.event import Event


@dataclass(eq=False, slots=True)
class _Underway:
    journal: Journal
    events: Sequence[Event]
    answer: asyncio.Future[None]
    timer: asyncio.TimerHandle | None = None


class Network:
    """Carries appends. `delay` says how long one takes, there or back."""

    def __init__(
        self, random: Random, delay: Callable[[], float], mark: Callable[[str, Sequence[Event]], None]
    ) -> None:
        self._random = random
        self._delay = delay
        self._mark = mark
        self._loop = asyncio.get_running_loop()
        self._underway: dict[_Underway, None] = {}

    async def append(self, journal: Journal, events: Sequence[Event]) -> None:
        """Append, as a blocking call in a thread does. Whoever is cancelled meanwhile has still sent it."""
        request = _Underway(journal, events, self._loop.create_future())
        self._underway[request] = None
        request.timer = self._loop.call_later(self._delay(), self._land, request)
        await request.answer

    def land_one(self) -> bool:
        """Let one of the writes arrive now. False: none is under way."""
        if not self._underway:
            return False
        request = self._random.choice(list(self._underway))
        if request.timer is not None:
            request.timer.cancel()
        self._land(request)
        return True

    async def idle(self, run_id: str) -> None:
        """Until nothing of this run is under way."""
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
    if answer.done():  # whoever asked is gone
        return
    if problem is None:
        answer.set_result(None)
    else:
        answer.set_exception(problem)
