"""One call of a poll, whatever it is made of: a coroutine on the loop, anything else in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any

from longwatch.errors import Unreachable, WorthAnotherTry


def is_async(poll: Callable[[], Any]) -> bool:
    """Whether calling it gives a coroutine at once, so that it may be called on the loop."""
    return inspect.iscoroutinefunction(poll) or inspect.iscoroutinefunction(getattr(poll, "__call__", None))  # noqa: B004


async def ask(
    key: Hashable, poll: Callable[[], Any], threads: Callable[[], Executor], timeout_seconds: float | None
) -> Any:
    """Call the poll and wait for its answer, in a thread if it would block the loop."""
    try:
        if is_async(poll):
            return await _in_time(key, poll(), timeout_seconds)
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(threads(), partial(copy_context().run, _called, poll))
        if inspect.isawaitable(answer):  # a lambda around a coroutine function, say
            return await _in_time(key, answer, timeout_seconds)
        return answer
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise WorthAnotherTry(
            f"The poll of {key!r} was cancelled from inside; nobody here asked it to."
        ) from error


async def _in_time(key: Hashable, answer: Awaitable[Any], timeout_seconds: float | None) -> Any:
    scope = asyncio.timeout(timeout_seconds)
    try:
        async with scope:
            return await answer
    except TimeoutError as error:
        if not scope.expired():
            raise  # the poll's own
        raise Unreachable(
            f"The poll of {key!r} gave no answer in {timeout_seconds:g} s. "
            "If it may take longer, give the PollingManager another timeout_seconds."
        ) from error


def _called(poll: Callable[[], Any]) -> Any:
    try:
        return poll()
    except StopIteration as error:  # a future cannot hold one, and would wait for ever
        raise RuntimeError("the poll raised StopIteration") from error
