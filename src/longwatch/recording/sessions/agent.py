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
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, cast

from longwatch.recording.sessions.recorder import (
    EXECUTION_VARIABLE,
    PATIENT_RETRIES,
    QUICK_RETRIES,
    REGION_VARIABLE,
    SESSION_VARIABLE,
    TABLE_VARIABLE,
    SessionRecorder,
    open_session_journal,
)
from longwatch.recording.sessions.statuses import SessionStatus, TaskState, task_status
from longwatch.recording.sessions.termination import at_work, chain_sigterm

log = logging.getLogger("longwatch")

CANCEL_SECONDS = 10.0  # that a cancelled task may take to end

Opened = Callable[[object, object], "SessionRecorder | None"]
Work = Callable[[], object]

_current: ContextVar[AgentSession | None] = ContextVar("longwatch_agent_session", default=None)
_running: set[asyncio.Future[Any]] = set()  # an event loop holds its tasks only weakly


class AgentSession:
    """One session in the agent: its recorder, and the tasks that are under way or about to begin.

    `recorder` is None where the session cannot be journaled. Its tasks run, and nothing is written.
    """

    def __init__(self, recorder: SessionRecorder | None) -> None:
        self.recorder = recorder
        self.is_entered = False  # the entrypoint has not returned yet
        self.waiting: list[tuple[Work, bool]] = []  # what to begin, and whether it is asynchronous
        self._tasks: set[asyncio.Task[Any]] = set()
        self._in_threads = 0
        self._is_terminated = False  # the platform ends this process, and the journal says so
        self._lock = threading.Lock()

    def tell(
        self,
        status: str,
        *,
        error: BaseException | str | None = None,
        retries: Sequence[float] = QUICK_RETRIES,
    ) -> bool:
        """Journal one status; False if it was not stored."""
        return self.recorder is not None and self.recorder.tell(status, error=error, retries=retries)

    def began(self, task: asyncio.Task[Any] | None) -> None:
        """A background task is under way; None stands for one in a thread."""
        with self._lock:
            if task is None:
                self._in_threads += 1
            else:
                self._tasks.add(task)
            at_work.add(self)
        self.tell(SessionStatus.AGENT_BACKGROUND_TASK_STARTED)

    def ended(self, task: asyncio.Task[Any] | None, error: BaseException | None) -> None:
        """It is over. A write that fails never makes a finished task a failed one."""
        with self._lock:
            if task is None:
                self._in_threads -= 1
            else:
                self._tasks.discard(task)
            if not self._in_threads and not self._tasks:
                at_work.discard(self)
            is_known = error is not None and self._is_terminated
        if is_known:  # a task that is cancelled on the way out has its failure in the journal already
            return
        status = SessionStatus.AGENT_BACKGROUND_TASK_COMPLETED
        if error is not None:
            status = SessionStatus.AGENT_BACKGROUND_TASK_FAILED
        self.tell(status, error=error, retries=PATIENT_RETRIES)

    def terminate(self, reason: str) -> None:
        """The process is about to end: its tasks failed for this reason, unless one still completes."""
        with self._lock:
            if self._is_terminated or not (self._in_threads or self._tasks):
                return
            self._is_terminated = True
        self.tell(SessionStatus.AGENT_BACKGROUND_TASK_FAILED, error=reason)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Begin nothing more, and cancel what can be cancelled."""
        self.waiting.clear()
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return tasks

    def failed(self, error: BaseException) -> None:
        """The entrypoint failed."""
        with self._lock:
            runs_on = self._in_threads or any(not task.done() for task in self._tasks)
        if runs_on:
            log.error("longwatch: the entrypoint failed, but a background task of its session runs on")
            self.tell(task_status("entrypoint", TaskState.FAILED), error=error)
        else:
            self.tell(SessionStatus.AGENT_ENTRYPOINT_FAILED, error=error, retries=PATIENT_RETRIES)


def current_session() -> AgentSession | None:
    """The session whose request or task this code works on."""
    return _current.get()


def session_recorder(payload: object, _: object = None) -> SessionRecorder | None:
    """The recorder of the session that the payload or the environment names; None if neither does."""
    said: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    adopt(said.get("environment"))
    session_id = said.get("session_id") or os.environ.get(SESSION_VARIABLE)
    if not isinstance(session_id, str):
        log.error("longwatch: the invocation names no session_id, so its session cannot be journaled")
        return None
    execution = said.get("execution") or os.environ.get(EXECUTION_VARIABLE)
    return SessionRecorder(
        open_session_journal(), session_id, execution=execution if isinstance(execution, str) else None
    )


def adopt(environment: object) -> None:
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
def entered(opened: Opened, args: tuple[Any, ...]) -> Iterator[None]:
    """Handle a request: journal that it came in and what went wrong, then begin what it left to be done."""
    chain_sigterm()
    session = _opened(opened, args)
    token = _current.set(session)
    session.is_entered = True
    session.tell(SessionStatus.AGENT_ENTRYPOINT_STARTED)
    try:
        yield
    except BaseException as error:
        session.cancel()
        session.failed(error)
        raise
    finally:
        session.is_entered = False
        _current.reset(token)
    for work, _ in session.waiting:
        _in_a_thread(session, work)


@asynccontextmanager
async def entered_async(opened: Opened, args: tuple[Any, ...]) -> AsyncIterator[None]:
    """The same in an event loop, which no write holds up."""
    chain_sigterm()
    session = await asyncio.to_thread(_opened, opened, args)
    _current.set(session)
    session.is_entered = True
    await asyncio.to_thread(session.tell, SessionStatus.AGENT_ENTRYPOINT_STARTED)
    try:
        yield
    except BaseException as error:
        await asyncio.shield(_failed(session, error))
        raise
    finally:
        session.is_entered = False
    for work, is_async in session.waiting:
        if is_async:
            _in_the_loop(cast(Coroutine[Any, Any, Any], work()))
        else:
            _in_a_thread(session, work)


def start(work: Work, *, is_async: bool) -> None:
    """Start this when the entrypoint has returned; outside an entrypoint, start it now."""
    session = _current.get()
    if session is not None and session.is_entered:
        session.waiting.append((work, is_async))
        return
    if session is None:
        log.warning("longwatch: start_background outside @agent_entrypoint: the task is not journaled")
        session = AgentSession(None)
    if is_async and _loop_is_running():
        _in_the_loop(cast(Coroutine[Any, Any, Any], work()))
    else:
        _in_a_thread(session, work)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _failed(session: AgentSession, error: BaseException) -> None:
    tasks = session.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
    await asyncio.to_thread(session.failed, error)


@contextmanager
def working() -> Iterator[None]:
    """Do the session's work: journal that it began and how it ended."""
    session = _current.get()
    if session is None:
        yield
        return
    session.began(None)
    try:
        yield
    except BaseException as error:
        session.ended(None, error)
        raise
    session.ended(None, None)


@asynccontextmanager
async def working_async() -> AsyncIterator[None]:
    """The same in an event loop."""
    session, task = _current.get(), asyncio.current_task()
    if session is None:
        yield
        return
    await asyncio.to_thread(session.began, task)
    try:
        yield
    except BaseException as error:
        await asyncio.shield(asyncio.to_thread(session.ended, task, error))
        raise
    await asyncio.shield(asyncio.to_thread(session.ended, task, None))


def _opened(opened: Opened, args: tuple[Any, ...]) -> AgentSession:
    """The session of this request, without a recorder where it cannot be journaled."""
    try:
        recorder = opened(args[0] if args else None, args[1] if len(args) > 1 else None)
    except Exception:
        log.exception("longwatch: the journal of the session cannot be opened; nothing of it is journaled")
        recorder = None
    return AgentSession(recorder)


def _in_the_loop(work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_finished)


def _finished(task: asyncio.Future[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and task.exception() is not None:
        log.error("longwatch: a background task failed", exc_info=task.exception())


def _in_a_thread(session: AgentSession, work: Work) -> None:
    context = copy_context()
    context.run(_current.set, session)
    # Not a daemon: the process waits for its work.
    threading.Thread(target=context.run, args=(_carry_out, work), name="longwatch-background").start()


def _carry_out(work: Work) -> None:
    try:
        answer = work()
        if iscoroutine(answer):
            asyncio.run(answer)
    except Exception:  # it is in the journal already; here it goes to the log
        log.exception("longwatch: a background task failed")


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling this gives something to await."""
    return iscoroutinefunction(function)
