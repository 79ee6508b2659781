"""Journals the sessions of an agent: the entrypoint that handles a request, and its background tasks.

Two rules hold. A failed write never affects the work: an agent whose session cannot be journaled runs as
usual. And work that is journaled as failed does not run: when an entrypoint fails, its tasks are cancelled
first, and the end of a task that cannot be cancelled decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction, isgeneratorfunction
from types import FrameType
from typing import Any, TypeVar, cast, overload

from longwatch.clock import SYSTEM_CLOCK
from longwatch.recording import lifecycle
from longwatch.recording.sessions.recorder import (
    EXECUTION_VARIABLE,
    PATIENT_RETRIES,
    QUICK_RETRIES,
    REGION_VARIABLE,
    SESSION_VARIABLE,
    TABLE_VARIABLE,
    SessionRecorder,
    SessionStatus,
    TaskState,
    open_session_journal,
    task_status,
)

log = logging.getLogger("longwatch")

TERMINATED = "terminated by the platform (SIGTERM)"
REPORT_SECONDS = 5.0  # for all sessions together; platforms kill about 10 s after SIGTERM
CANCEL_SECONDS = 10.0  # that a cancelled task may take to end

OpenRecorder = Callable[[object, object], "SessionRecorder | None"]
BackgroundWork = Callable[[], object]

_current: ContextVar[AgentSession | None] = ContextVar("longwatch_agent_session", default=None)
running_sessions: set[AgentSession] = set()
_running: set[asyncio.Future[Any]] = set()  # an event loop holds its tasks only weakly


class AgentSession:
    """One session: its recorder, and its background tasks that run or wait to start.

    `recorder` is None if the session cannot be journaled. Its tasks run, and nothing is written.
    """

    def __init__(self, recorder: SessionRecorder | None) -> None:
        self.recorder = recorder
        self.is_entered = False  # the entrypoint has not returned yet
        self.waiting: list[tuple[BackgroundWork, bool]] = []  # what to start, and whether it is asynchronous
        self._tasks: set[asyncio.Task[Any]] = set()
        self._in_threads = 0
        self._is_terminated = False  # SIGTERM has been journaled
        self._lock = threading.Lock()

    def try_record(
        self,
        status: str,
        *,
        error: BaseException | str | None = None,
        retries: Sequence[float] = QUICK_RETRIES,
    ) -> bool:
        """Journal one status; False if it was not stored."""
        return self.recorder is not None and self.recorder.try_record(status, error=error, retries=retries)

    def on_task_start(self, task: asyncio.Task[Any] | None) -> None:
        """Journal the start of a background task; None stands for one in a thread."""
        with self._lock:
            if task is None:
                self._in_threads += 1
            else:
                self._tasks.add(task)
            running_sessions.add(self)
        self.try_record(SessionStatus.AGENT_BACKGROUND_TASK_STARTED)

    def on_task_end(self, task: asyncio.Task[Any] | None, error: BaseException | None) -> None:
        """Journal the end of a background task. A failed write never changes its outcome."""
        with self._lock:
            if task is None:
                self._in_threads -= 1
            else:
                self._tasks.discard(task)
            if not self._in_threads and not self._tasks:
                running_sessions.discard(self)
            is_journaled = error is not None and self._is_terminated
        if is_journaled:  # the failure of a task cancelled by SIGTERM is in the journal already
            return
        status = SessionStatus.AGENT_BACKGROUND_TASK_COMPLETED
        if error is not None:
            status = SessionStatus.AGENT_BACKGROUND_TASK_FAILED
        self.try_record(status, error=error, retries=PATIENT_RETRIES)

    def terminate(self, reason: str) -> None:
        """Journal that the tasks failed because the process is about to end."""
        with self._lock:
            if self._is_terminated or not (self._in_threads or self._tasks):
                return
            self._is_terminated = True
        self.try_record(SessionStatus.AGENT_BACKGROUND_TASK_FAILED, error=reason)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Drop the tasks that wait, and cancel those in the event loop."""
        self.waiting.clear()
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return tasks

    def on_entrypoint_failure(self, error: BaseException) -> None:
        with self._lock:
            is_task_running = self._in_threads or any(not task.done() for task in self._tasks)
        if is_task_running:
            log.error(
                "longwatch: the entrypoint failed, but a background task of its session is still running"
            )
            self.try_record(task_status("entrypoint", TaskState.FAILED), error=error)
        else:
            self.try_record(SessionStatus.AGENT_ENTRYPOINT_FAILED, error=error, retries=PATIENT_RETRIES)


def current_session() -> AgentSession | None:
    """The session of the current request or task."""
    return _current.get()


def session_recorder(payload: object, _: object = None) -> SessionRecorder | None:
    """A recorder for the session that the payload or the environment names; None if neither does."""
    request: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    adopt_environment(request.get("environment"))
    session_id = request.get("session_id") or os.environ.get(SESSION_VARIABLE)
    if not isinstance(session_id, str):
        log.error("longwatch: the invocation has no session_id, so its session is not journaled")
        return None
    execution = request.get("execution") or os.environ.get(EXECUTION_VARIABLE)
    return SessionRecorder(
        open_session_journal(), session_id, execution=execution if isinstance(execution, str) else None
    )


def adopt_environment(environment: object) -> None:
    """Set environment variables that the invoker sent, so that child processes inherit them.

    Session and execution are those of this request. Table and region are set only if the agent has none of
    its own.
    """
    if not isinstance(environment, Mapping):
        return
    given = {name: value for name, value in environment.items() if isinstance(value, str) and value}
    for name in (SESSION_VARIABLE, EXECUTION_VARIABLE):
        if name in given:
            os.environ[name] = given[name]
    for name in (TABLE_VARIABLE, REGION_VARIABLE):
        if name in given:
            os.environ.setdefault(name, given[name])


@contextmanager
def enter_session(open_recorder: OpenRecorder, args: tuple[Any, ...]) -> Iterator[None]:
    """Journal the start and the failure of a request, then start its background tasks."""
    chain_sigterm()
    session = _open_session(open_recorder, args)
    token = _current.set(session)
    session.is_entered = True
    session.try_record(SessionStatus.AGENT_ENTRYPOINT_STARTED)
    try:
        yield
    except BaseException as error:
        session.cancel()
        session.on_entrypoint_failure(error)
        raise
    finally:
        session.is_entered = False
        _current.reset(token)
    for work, _ in session.waiting:
        _start_in_thread(session, work)


@asynccontextmanager
async def enter_session_async(open_recorder: OpenRecorder, args: tuple[Any, ...]) -> AsyncIterator[None]:
    """The same in an event loop, which no write blocks."""
    chain_sigterm()
    session = await asyncio.to_thread(_open_session, open_recorder, args)
    _current.set(session)
    session.is_entered = True
    await asyncio.to_thread(session.try_record, SessionStatus.AGENT_ENTRYPOINT_STARTED)
    try:
        yield
    except BaseException as error:
        await asyncio.shield(_fail_entrypoint(session, error))
        raise
    finally:
        session.is_entered = False
    for work, is_async in session.waiting:
        if is_async:
            _start_in_loop(cast(Coroutine[Any, Any, Any], work()))
        else:
            _start_in_thread(session, work)


def start_work(work: BackgroundWork, *, is_async: bool) -> None:
    """Start work when the entrypoint has returned; outside an entrypoint, start it now."""
    session = _current.get()
    if session is not None and session.is_entered:
        session.waiting.append((work, is_async))
        return
    if session is None:
        log.warning("longwatch: start_background outside @agent_entrypoint: the task is not journaled")
        session = AgentSession(None)
    if is_async and _loop_is_running():
        _start_in_loop(cast(Coroutine[Any, Any, Any], work()))
    else:
        _start_in_thread(session, work)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _fail_entrypoint(session: AgentSession, error: BaseException) -> None:
    tasks = session.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
    await asyncio.to_thread(session.on_entrypoint_failure, error)


@contextmanager
def run_task() -> Iterator[None]:
    """Journal the start and the end of a background task."""
    session = _current.get()
    if session is None:
        yield
        return
    session.on_task_start(None)
    try:
        yield
    except BaseException as error:
        session.on_task_end(None, error)
        raise
    session.on_task_end(None, None)


@asynccontextmanager
async def run_task_async() -> AsyncIterator[None]:
    """The same in an event loop."""
    session, task = _current.get(), asyncio.current_task()
    if session is None:
        yield
        return
    await asyncio.to_thread(session.on_task_start, task)
    try:
        yield
    except BaseException as error:
        await asyncio.shield(asyncio.to_thread(session.on_task_end, task, error))
        raise
    await asyncio.shield(asyncio.to_thread(session.on_task_end, task, None))


def _open_session(open_recorder: OpenRecorder, args: tuple[Any, ...]) -> AgentSession:
    """The session of this request, without a recorder if it cannot be journaled."""
    try:
        recorder = open_recorder(args[0] if args else None, args[1] if len(args) > 1 else None)
    except Exception:
        log.exception("longwatch: cannot open the journal of the session, so the session is not journaled")
        recorder = None
    return AgentSession(recorder)


def _start_in_loop(work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_on_task_done)


def _on_task_done(task: asyncio.Future[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and task.exception() is not None:
        log.error("longwatch: a background task failed", exc_info=task.exception())


def _start_in_thread(session: AgentSession, work: BackgroundWork) -> None:
    context = copy_context()
    context.run(_current.set, session)
    # Not a daemon: the process waits for its work.
    threading.Thread(target=context.run, args=(_run_work, work), name="longwatch-background").start()


def _run_work(work: BackgroundWork) -> None:
    try:
        result = work()
        if iscoroutine(result):
            asyncio.run(result)
    except Exception:  # the journal has it; log it too
        log.exception("longwatch: a background task failed")


def is_async(function: Callable[..., object]) -> bool:
    return iscoroutinefunction(function)


F = TypeVar("F", bound=Callable[..., Any])


@overload
def agent_entrypoint(function: F) -> F: ...


@overload
def agent_entrypoint(
    *, does_the_work: bool = False, open_recorder: OpenRecorder | None = None
) -> Callable[[F], F]: ...


def agent_entrypoint(
    function: F | None = None, *, does_the_work: bool = False, open_recorder: OpenRecorder | None = None
) -> F | Callable[[F], F]:
    """Journal the start and the failure of an entrypoint, whose first argument is the payload.

    `does_the_work`: the entrypoint itself does the work, without a background task. `open_recorder` makes the
    recorder from the first two arguments; without it the payload and the environment name the session.
    """
    if function is None:
        return partial(
            _entrypoint, does_the_work=does_the_work, open_recorder=open_recorder or session_recorder
        )
    return _entrypoint(function, does_the_work=does_the_work, open_recorder=open_recorder or session_recorder)


def _entrypoint(function: F, *, does_the_work: bool, open_recorder: OpenRecorder) -> F:
    chain_sigterm()  # requests may come in threads, where no handler can be set
    work = background_task(function) if does_the_work else function
    return _wrap_function(
        function,
        work,
        lambda args: enter_session(open_recorder, args),
        lambda args: enter_session_async(open_recorder, args),
    )


def background_task(function: F) -> F:
    """Journal the start and the end of a task of the current session. Outside a session it does nothing."""
    return _wrap_function(function, function, lambda _: run_task(), lambda _: run_task_async())


def start_background(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Start this task when the entrypoint has returned: as a task of its event loop, or in a thread.

    It runs even if its session cannot be journaled. After the entrypoint has returned, or outside one, the
    task starts at once.
    """
    start_work(partial(background_task(function), *args, **kwargs), is_async=is_async(function))


def record_phase(phase: str, state: TaskState, *, error: BaseException | str | None = None) -> bool:
    """Journal a phase of the current session's work, such as `TASK_indexing_STARTED`.

    Never raises. False: nothing was stored; the log has the reason, unless there is no session.
    """
    try:
        status = task_status(phase, state)
    except Exception as problem:  # noqa: BLE001 - recording never breaks the observed code
        log.warning("longwatch: phase %r is not journaled: %s", phase, problem)
        return False
    session = current_session()
    return session is not None and session.try_record(status, error=error)


def _wrap_function(
    function: F,
    work: Callable[..., Any],
    around: Callable[[tuple[Any, ...]], Any],
    around_async: Callable[[tuple[Any, ...]], Any],
) -> F:
    """Run a function of any kind inside a context, with an asynchronous variant for coroutines."""
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


class _ReportFirst:
    """A SIGTERM handler that journals the failure of running sessions, then calls the previous handler.

    A server such as uvicorn sets its own handler when it starts and restores the previous one when it stops,
    so every request installs the handler again, and each instance has its own predecessor.
    """

    def __init__(self, previous: Callable[[int, FrameType | None], object]) -> None:
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            report_termination()
        finally:
            self._previous(number, frame)


def chain_sigterm() -> None:
    """Install the handler before the current one. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    lifecycle.flush_on_sigterm()  # in place of the default action
    previous = signal.getsignal(signal.SIGTERM)
    # A program that ignores SIGTERM continues, and a handler that is not Python's cannot be called.
    if callable(previous) and not isinstance(previous, _ReportFirst | signal.Handlers):
        signal.signal(signal.SIGTERM, _ReportFirst(previous))


def report_termination() -> None:
    """Journal the failure of every running session, in threads: the interrupted code may hold locks."""
    threads = [
        threading.Thread(target=each.terminate, args=(TERMINATED,), name="longwatch-terminated", daemon=True)
        for each in list(running_sessions)
    ]
    for thread in threads:
        thread.start()
    deadline = SYSTEM_CLOCK.monotonic() + REPORT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


if hasattr(os, "register_at_fork"):  # the parent journals its own sessions
    os.register_at_fork(after_in_child=running_sessions.clear)
