"""Something to poll, and a way to run coroutines in virtual time where pytest does not do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import looptime

T = TypeVar("T")


class Source:
    """An outside system under a test's control: how long it takes, what it returns, when it fails."""

    def __init__(self, *, seconds: float = 0.0, value: object = "same") -> None:
        self.seconds = seconds
        self.value = value
        self.error: Exception | None = None
        self.started: list[float] = []  # moments, on the loop's clock
        self.cancelled = 0
        self.at_once = 0
        self.most_at_once = 0

    async def poll(self) -> object:
        self.started.append(now())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        value, error = self.value, self.error  # its value at the request, not at the response
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1
        if error is not None:
            raise error
        return value


def now() -> float:
    """The time of the running loop, free of the dust of floating point."""
    return round(asyncio.get_running_loop().time(), 6)


def others() -> set[asyncio.Task[Any]]:
    """Every task but the calling one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a thread does."""
    while not condition():  # noqa: ASYNC110 - threads do not set asyncio's events
        await asyncio.sleep(0)


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in a loop of its own whose clock jumps to whatever comes next.

    What a callback of the loop raised, or a task that was never awaited, is raised at the end.
    """
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        runner.get_loop().set_exception_handler(lambda loop, complaint: complaints.append(complaint))
        result = runner.run(main)
    assert complaints == []
    return result
