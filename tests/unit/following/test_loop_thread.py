"""A thread with an event loop: it ends on request, after its tasks, and always reports its end."""

from __future__ import annotations

import asyncio
import threading

from longwatch.following.threads import LoopThread
from tests.patience import PATIENCE_SECONDS


def test_tasks_that_are_under_way_are_waited_for() -> None:
    calls: list[str] = []
    thread = LoopThread("mine", make_loop=asyncio.new_event_loop, at_end=lambda: calls.append("end"))
    begun, may_go = threading.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await may_go.wait()
        calls.append("work")

    thread.soon(lambda: thread.spawn(work(), name="work"))
    assert begun.wait(PATIENCE_SECONDS)
    thread.end()
    thread.soon(may_go.set)

    assert thread.join(PATIENCE_SECONDS)
    assert calls == ["work", "end"]


def test_a_task_that_ends_together_with_the_loop_causes_no_error() -> None:
    calls: list[str] = []
    thread = LoopThread("mine", make_loop=asyncio.new_event_loop, at_end=lambda: calls.append("end"))

    async def work() -> None:
        calls.append("work")

    def begin() -> None:
        thread.spawn(work(), name="work")
        thread.loop.call_soon(thread.loop.stop)

    thread.soon(begin)

    assert thread.join(PATIENCE_SECONDS)
    assert calls == ["work", "end"]


def test_a_thread_that_has_ended_accepts_calls_without_an_error() -> None:
    thread = LoopThread("mine", make_loop=asyncio.new_event_loop, at_end=lambda: None)
    thread.end()
    assert thread.join(PATIENCE_SECONDS)

    thread.soon(print, "nobody prints this")
    thread.end()

    assert thread.join(0)


def test_it_does_not_wait_for_itself() -> None:
    responses: list[tuple[bool, bool]] = []
    thread = LoopThread("mine", make_loop=asyncio.new_event_loop, at_end=lambda: None)

    thread.soon(lambda: responses.append((thread.is_current, thread.join(PATIENCE_SECONDS))))
    thread.end()
    thread.join(PATIENCE_SECONDS)

    assert responses == [(True, False)]
    assert not thread.is_current
