"""Decorators for the agent's side of a session.

    @agent_entrypoint
    def handle(payload):
        start_background(research, payload["question"])
        return {"accepted": True}

What was handed to `start_background` begins once the entrypoint has returned, so an entrypoint that fails
leaves nothing running. A task that the agent starts by itself is decorated with `@background_task`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, TypeVar, cast, overload

from longwatch.recording.sessions.agent import (
    Opened,
    current_session,
    entered,
    entered_async,
    is_async,
    session_recorder,
    start,
    working,
    working_async,
)
from longwatch.recording.sessions.statuses import TaskState, task_status
from longwatch.recording.sessions.termination import chain_sigterm

log = logging.getLogger("longwatch")

F = TypeVar("F", bound=Callable[..., Any])


@overload
def agent_entrypoint(function: F) -> F: ...


@overload
def agent_entrypoint(*, does_the_work: bool = False, opened: Opened | None = None) -> Callable[[F], F]: ...


def agent_entrypoint(
    function: F | None = None, *, does_the_work: bool = False, opened: Opened | None = None
) -> F | Callable[[F], F]:
    """Journal an entrypoint, which takes the payload first: that it began, and that it failed if it did.

    `does_the_work`: there is no background task, the entrypoint itself is the work. `opened` makes the
    recorder from the first two arguments; without it the payload and the environment name the session.
    """
    if function is None:
        return partial(_entrypoint, does_the_work=does_the_work, opened=opened or session_recorder)
    return _entrypoint(function, does_the_work=does_the_work, opened=opened or session_recorder)


def _entrypoint(function: F, *, does_the_work: bool, opened: Opened) -> F:
    chain_sigterm()  # requests may come in threads, where no handler can be set
    work = background_task(function) if does_the_work else function
    return _wrapped(
        function,
        work,
        lambda args: entered(opened, args),
        lambda args: entered_async(opened, args),
    )


def background_task(function: F) -> F:
    """Journal a task of the current session: that it began and how it ended. Outside a session: untouched."""
    return _wrapped(function, function, lambda _: working(), lambda _: working_async())


def start_background(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Start this task when the entrypoint has returned: as a task of its event loop, or in a thread.

    It runs even where its session cannot be journaled. Called after the entrypoint has returned, or outside
    one, it starts at once.
    """
    start(partial(background_task(function), *args, **kwargs), is_async=is_async(function))


def record_phase(phase: str, state: TaskState, *, error: BaseException | str | None = None) -> bool:
    """Journal a phase of the current session's work, as `TASK_indexing_STARTED`.

    Never raises. False: nothing was stored. The log has the reason, unless this is not work of a session.
    """
    try:
        status = task_status(phase, state)
    except Exception as problem:  # noqa: BLE001 - recording never breaks the observed code
        log.warning("longwatch: phase %r is not journaled: %s", phase, problem)
        return False
    session = current_session()
    return session is not None and session.tell(status, error=error)


def _wrapped(
    function: F,
    work: Callable[..., Any],
    around: Callable[[tuple[Any, ...]], Any],
    around_async: Callable[[tuple[Any, ...]], Any],
) -> F:
    """The function inside one of two contexts, whatever kind of function it is."""
    if isasyncgenfunction(function):

        @wraps(function)
        async def streaming(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async with around_async(args):
                async for item in work(*args, **kwargs):
                    yield item

        return cast(F, streaming)
    if is_async(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            async with around_async(args):
                return await work(*args, **kwargs)

        return cast(F, awaited)
    if isgeneratorfunction(function):

        @wraps(function)
        def generating(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with around(args):
                yield from work(*args, **kwargs)

        return cast(F, generating)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with around(args):
            return work(*args, **kwargs)

    return cast(F, called)
