"""What tests of the polling service are made of: a callback, and a service in virtual time."""

from __future__ import annotations

import threading
from functools import partial
from typing import Generic, TypeVar

from longwatch.following import Hub, PollingService
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.testing import FakeClock
from longwatch.testing.simulation.virtual_loop import AtOnce
from tests.patience import PATIENCE_SECONDS

T = TypeVar("T")


class Received(Generic[T]):
    """A callback that remembers what it was called with, and in which threads."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.threads: list[threading.Thread] = []
        self._changed = threading.Condition()

    def __call__(self, value: T) -> None:
        with self._changed:
            self.values.append(value)
            self.threads.append(threading.current_thread())
            self._changed.notify_all()

    def has(self, count: int) -> list[T]:
        """Wait until it was called so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.values) >= count, PATIENCE_SECONDS), self.values
            return list(self.values)


def virtual_service(journal: Journal) -> PollingService:
    """A service whose thread lives in virtual time and reads without further threads."""
    import looptime

    clock = FakeClock()
    make_hub = partial(Hub, clock=clock, executor=AtOnce())
    return PollingService(
        journal, clock=clock, make_hub=make_hub, make_loop=lambda: looptime.new_event_loop(start=0.0)
    )


def whole_run(run: str, at: int, count: int = 2, ending: str = "workflow_complete") -> list[Event]:
    """A run whose producer closes, so that no watch has to wait for late events."""
    types = ["workflow_start", *["tool_call"] * (count - 1), ending, "producer_closed"]
    return [
        Event(
            run_id=run,
            event_id=f"{run}-{index}",
            type=kind,
            occurred_at=at + index,
            producer="p",
            number=index + 1,
            payload={"count": len(types)} if kind == "producer_closed" else {},
        )
        for index, kind in enumerate(types)
    ]
