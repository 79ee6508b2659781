"""A session as the agent has it: entered when a request comes in, left when its work has begun or failed.

Two rules hold here. Nothing that happens to a write changes what becomes of the work: an agent whose session
cannot be journaled runs all the same. And what is journaled as failed does not run: the tasks of an
entrypoint that fails are cancelled first, and where one cannot be, its own end decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar, cast, overload

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
from longwatch.recording.sessions.termination import at_work, chain_sigterm

log = logging.getLogger("longwatch")

CANCEL_SECONDS = 10.0  # that a cancelled task may take to end

OpenRecorder = Callable[[object, object], "SessionRecorder | None"]
BackgroundWork = Callable[[], object]

_current: ContextVar[AgentSession | None] = ContextVar("longwatch_agent_session", default=None)
_running: set[asyncio.Future[Any]] = set()  # an event loop holds its tasks only weakly


class AgentSession:
    """One session in the agent: its recorder, and the tasks that are under way or about to begin.

    `recorder` is None where the session cannot be journaled. Its tasks run, and nothing is written.
    """

    def __init__(self, recorder: SessionRecorder | None) -> None:
        self.recorder = recorder
        self.is_entered = False  # the entrypoint has not returned yet
        self.waiting: list[tuple[BackgroundWork, bool]] = []  # what to begin, and whether it is asynchronous
        self._tasks: set[asyncio.Task[Any]] = set()
        self._in_threads = 0
        self._is_terminated = False  # the platform ends this process, and the journal says so
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
        """A background task is under way; None stands for one in a thread."""
        with self._lock:
            if task is None:
                self._in_threads += 1
            else:
                self._tasks.add(task)
            at_work.add(self)
        self.try_record(SessionStatus.AGENT_BACKGROUND_TASK_STARTED)

    def on_task_end(self, task: asyncio.Task[Any] | None, error: BaseException | None) -> None:
        """It is over. A write that fails never makes a finished task a failed one."""
        with self._lock:
            if task is None:
                self._in_threads -= 1
            else:
                self._tasks.discard(task)
            if not self._in_threads and not self._tasks:
                at_work.discard(self)
            is_journaled = error is not None and self._is_terminated
        if is_journaled:  # a task that is cancelled on the way out has its failure in the journal already
            return
        status = SessionStatus.AGENT_BACKGROUND_TASK_COMPLETED
        if error is not None:
            status = SessionStatus.AGENT_BACKGROUND_TASK_FAILED
        self.try_record(status, error=error, retries=PATIENT_RETRIES)

    def terminate(self, reason: str) -> None:
        """The process is about to end: its tasks failed for this reason, unless one still completes."""
        with self._lock:
            if self._is_terminated or not (self._in_threads or self._tasks):
                return
            self._is_terminated = True
        self.try_record(SessionStatus.AGENT_BACKGROUND_TASK_FAILED, error=reason)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Begin nothing more, and cancel what can be cancelled."""
        self.waiting.clear()
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return tasks

    def on_entrypoint_failure(self, error: BaseException) -> None:
        """The entrypoint failed."""
        with self._lock:
            is_task_running = self._in_threads or any(not task.done() for task in self._tasks)
        if is_task_running:
            log.error("longwatch: the entrypoint failed, but a background task of its session runs on")
            self.try_record(task_status("entrypoint", TaskState.FAILED), error=error)
        else:
            self.try_record(SessionStatus.AGENT_ENTRYPOINT_FAILED, error=error, retries=PATIENT_RETRIES)


def current_session() -> AgentSession | None:
    """The session whose request or task this code works on."""
    return _current.get()


def session_recorder(payload: object, _: object = None) -> SessionRecorder | None:
    """The recorder of the session that the payload or the environment names; None if neither does."""
    request: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    adopt_environment(request.get("environment"))
    session_id = request.get("session_id") or os.environ.get(SESSION_VARIABLE)
    if not isinstance(session_id, str):
        log.error("longwatch: the invocation names no session_id, so its session cannot be journaled")
        return None
    execution = request.get("execution") or os.environ.get(EXECUTION_VARIABLE)
    return SessionRecorder(
        open_session_journal(), session_id, execution=execution if isinstance(execution, str) else None
    )


def adopt_environment(environment: object) -> None:
    """Take over what the invoker sent for the environment, so that the agent's own processes have it too.

    The session is this request's. Table and region are only filled in: where the agent was told its own, that
    holds, whatever a request says.
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
    """Handle a request: journal that it came in and what went wrong, then begin what it left to be done."""
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
    """The same in an event loop, which no write holds up."""
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
    """Start this when the entrypoint has returned; outside an entrypoint, start it now."""
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
    """Do the session's work: journal that it began and how it ended."""
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
    """The session of this request, without a recorder where it cannot be journaled."""
    try:
        recorder = open_recorder(args[0] if args else None, args[1] if len(args) > 1 else None)
    except Exception:
        log.exception("longwatch: the journal of the session cannot be opened; nothing of it is journaled")
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
    except Exception:  # it is in the journal already; here it goes to the log
        log.exception("longwatch: a background task failed")


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling this gives something to await."""
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
    """Journal an entrypoint, which takes the payload first: that it began, and that it failed if it did.

    `does_the_work`: there is no background task, the entrypoint itself is the work. `open_recorder` makes the
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
    """Journal a task of the current session: that it began and how it ended. Outside a session: untouched."""
    return _wrap_function(function, function, lambda _: run_task(), lambda _: run_task_async())


def start_background(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Start this task when the entrypoint has returned: as a task of its event loop, or in a thread.

    It runs even where its session cannot be journaled. Called after the entrypoint has returned, or outside
    one, it starts at once.
    """
    start_work(partial(background_task(function), *args, **kwargs), is_async=is_async(function))


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
    return session is not None and session.try_record(status, error=error)


def _wrap_function(
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
