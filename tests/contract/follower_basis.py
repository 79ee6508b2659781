"""What the parts of the contract for following share: events, a clock, and hubs in virtual time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from longwatch.following import Hub
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.model.process import process_of
from longwatch.storage.change_signal import Subscribe
from longwatch.testing.clock import START_MS
from longwatch.testing.simulation.virtual_loop import AtOnce, LoopClock
from tests.contract.events import OpenAgain, event


def started(run: str, at: int, **process: object) -> Event:
    payload = {"kind": "workflow", "process": process} if process else {}
    return event(run, at, "workflow_start", payload=payload)


def completed(run: str, at: int, **fields: object) -> Event:
    return event(run, at, "workflow_complete", payload={"status": "completed"}, **fields)


def numbered(run: str, at: int, count: int, producer: str = "p") -> list[Event]:
    """A whole run of one producer, which closes at its end."""
    events = [event(run, at + index, producer=producer, number=index + 1) for index in range(count)]
    return [
        *events,
        completed(run, at + count, producer=producer, number=count + 1),
        event(
            run,
            at + count + 1,
            "producer_closed",
            payload={"count": count + 2},
            producer=producer,
            number=count + 2,
        ),
    ]


def a_dead_process() -> dict[str, object]:
    """A process of this machine that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return replace(process_of(os.getpid()), pid=child.pid, started=1, id="").fields


class FollowerBasis:
    """An adapter's test class defines how to open its journal."""

    @pytest.fixture
    def clock(self) -> LoopClock:
        return LoopClock()

    @pytest.fixture
    def open_again(self) -> Iterator[OpenAgain]:
        raise NotImplementedError

    def subscribe(self, journal: Journal) -> Subscribe | None:
        """The change signal for appends, if not the journal's own."""
        return None

    @pytest.fixture
    def journal(self, open_again: OpenAgain) -> Journal:
        return open_again()

    @pytest.fixture
    def make_hub(self, journal: Journal, clock: LoopClock) -> Callable[..., Hub]:
        def make(on: Journal | None = None, **options: object) -> Hub:
            given = journal if on is None else on
            options.setdefault("subscribe", self.subscribe(given))
            return Hub(given, clock=clock, executor=AtOnce(), **options)  # type: ignore[arg-type]

        return make

    @pytest.fixture
    def now(self) -> int:
        return START_MS
