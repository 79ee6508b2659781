"""`@workflow`, `@agent` and `@tool`: bare or with options, on functions, coroutines and generators.

Outside a run, agents and tools are called unchanged. A workflow is a run. A generator is timed until it ends,
and the code between its yields belongs to the caller that iterates, not to the call.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from longwatch.recording.active_run import ActiveRun, prepare_process
from longwatch.recording.calls import CallPlan, report_fault
from longwatch.recording.capture import capture_fields, capture_value
from longwatch.recording.labels import label_fields
from longwatch.recording.scope import RUN_ID_VARIABLE, SCOPE, RecordingScope, trace_id_of

if TYPE_CHECKING:  # protocol classes are slow to create, and only the type checker needs them
    from typing import Protocol

    from longwatch.recording.recorder import Recorder

    class Recorded(Protocol):
        """A call whose start was recorded and whose end will be."""

        @property
        def scope(self) -> RecordingScope: ...

        def succeed(self, result: object) -> None: ...

        def fail(self, error: BaseException) -> None: ...

    Begin = Callable[[tuple[Any, ...], dict[str, Any]], Recorded | None]

log = logging.getLogger("longwatch")

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    *, name: str | None = None, system: str | None = None, capture: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    system: str | None = None,
    capture: str | None = None,
) -> Any:
    """Record each call of a tool: `started` before, `completed` or `failed` with its duration after."""
    return _decorate(function, kind="tool", name=name, capture=capture, extra={"system": system})


@overload
def agent(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(
    *, name: str | None = None, role: str | None = None, capture: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    role: str | None = None,
    capture: str | None = None,
) -> Any:
    """Record each call of an agent; calls of tools and agents inside it are recorded as its children."""
    return _decorate(function, kind="agent", name=name, capture=capture, extra={"role": role})


@overload
def workflow(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    kind: str = "workflow",
    capture: str | None = None,
    tags: Iterable[str] = (),
    user: str | None = None,
    session: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def workflow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    kind: str = "workflow",
    capture: str | None = None,
    tags: Iterable[str] = (),
    user: str | None = None,
    session: str | None = None,
) -> Any:
    """Record each call as a run, ended by `workflow_complete` or `workflow_error`."""
    labels = label_fields(tags, user=user, session=session)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        plan = CallPlan(_callable(function), kind="workflow", name=name, capture=capture, extra={})
        return wrap_function(function, functools.partial(_begin_workflow, plan, kind, capture, labels))

    return decorate if function is None else decorate(function)


def record(type: str, /, *, occurred_at: int | None = None, **payload: object) -> bool:
    """Record an event in the current run. Outside a run, log a warning and return False.

    `occurred_at` (epoch milliseconds) is for an event that happened earlier.
    """
    scope = SCOPE.get()
    if scope is None:
        scope = ambient_scope()
    if scope is None:
        log.warning("longwatch: record(%r) was called outside a run, so nothing was recorded", type)
        return False
    try:
        scope.record(type, payload, occurred_at=occurred_at)
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)
        return False
    return True


def tag(*tags: str, user: str | None = None, session: str | None = None) -> bool:
    """Add tags to the current run, or state its user or its session, in an event `run_tagged`.

    Tags accumulate; a later user or session replaces an earlier one. Returns False outside a run.
    """
    return record("run_tagged", **label_fields(tags, user=user, session=session))


def current_run_id() -> str | None:
    """The id of the run that the calling code belongs to; None outside a run."""
    scope = SCOPE.get()
    if scope is None:
        scope = ambient_scope()
    return scope.run_id if scope is not None else None


def ambient_scope() -> RecordingScope | None:
    """The scope of the run for which `longwatch run` started this process; None if it did not."""
    run_id = _ambient_run_id()
    if run_id is None:
        return None
    try:
        return _scope_of(_recorder(), run_id)
    except Exception as error:  # noqa: BLE001 - invalid settings must not break the observed code
        report_fault(error)
        return None


@functools.cache
def _ambient_run_id() -> str | None:
    return os.environ.get(RUN_ID_VARIABLE) or None


@functools.lru_cache(maxsize=1)
def _scope_of(recorder: Recorder, run_id: str) -> RecordingScope | None:
    if not recorder.settings.enabled:
        return None
    prepare_process(recorder)
    trace_id = trace_id_of(os.environ.get("TRACEPARENT"))
    return RecordingScope(recorder, run_id, trace_id, recorder.limits())


def _decorate(
    function: Callable[..., Any] | None,
    *,
    kind: str,
    name: str | None,
    capture: str | None,
    extra: Mapping[str, object],
) -> Any:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        plan = CallPlan(_callable(function), kind=kind, name=name, capture=capture, extra=extra)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorded | None:
            outer = SCOPE.get()
            if outer is None:
                outer = ambient_scope()
                if outer is None:
                    return None
            return plan.begin(outer, args, kwargs)

        return wrap_function(function, begin)

    return decorate if function is None else decorate(function)


def _callable(function: object) -> Callable[..., Any]:
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    if not callable(function) or isinstance(function, type):
        what = type(function).__name__
        raise TypeError(f"Only functions can be recorded, not {what}. Put the decorator below @{what}.")
    return function


class _WorkflowCall:
    """A call that is a run."""

    __slots__ = ("_plan", "_run", "scope")

    def __init__(self, plan: CallPlan, run: ActiveRun, scope: RecordingScope) -> None:
        self._plan = plan
        self._run = run
        self.scope = scope

    def succeed(self, result: object) -> None:
        try:
            if result is not None and self.scope.limits is not None:
                payload, weight = capture_value(result, self.scope.limits, self.scope.recorder.secrets)
                self._run.set_result(payload)
                self._run.captured_weight = weight
            self._run.end(None)
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def fail(self, error: BaseException) -> None:
        try:
            self._run.end(None if isinstance(error, GeneratorExit) else error)
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)


def _begin_workflow(
    plan: CallPlan,
    kind: str,
    capture: str | None,
    labels: Mapping[str, object],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Recorded | None:
    try:
        recorder = _recorder()
        limits = recorder.limits(capture)
        arguments = plan.arguments(args, kwargs)
        payload: dict[str, object] = dict(labels)
        weight = 0
        if limits and arguments:
            payload["input"], weight = capture_fields(arguments, limits, recorder.secrets)
        run = ActiveRun(plan.name, kind=kind, capture=capture, recorder=recorder, payload=payload)
        run.captured_weight = weight
        scope = run.begin()
        return _WorkflowCall(plan, run, scope) if scope is not None else None
    except Exception as error:  # noqa: BLE001
        report_fault(error)
        return None


def _recorder() -> Recorder:
    """The recorder of this process. The first run loads its module, not the decorator."""
    from longwatch.recording.recorder import get_recorder

    return get_recorder()


def wrap_function(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """The function with its start and end recorded; a coroutine stays a coroutine."""
    if isinstance(function, staticmethod | classmethod):  # the decorators may be applied in either order
        return type(function)(wrap_function(function.__func__, begin))
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, begin)
    if inspect.isgeneratorfunction(function):
        return _generator(function, begin)
    return _function(function, begin)


def _function(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorded = begin(args, kwargs)
        if recorded is None:
            return function(*args, **kwargs)
        token = SCOPE.set(recorded.scope)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            recorded.fail(error)
            raise
        finally:
            SCOPE.reset(token)
        recorded.succeed(result)
        return result

    return call


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        recorded = begin(args, kwargs)
        if recorded is None:
            return await function(*args, **kwargs)
        token = SCOPE.set(recorded.scope)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            recorded.fail(error)
            raise
        finally:
            _leave(token)
        recorded.succeed(result)
        return result

    return call


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        recorded = begin(args, kwargs)
        if recorded is None:
            return (yield from function(*args, **kwargs))
        steps = cast(Generator[Any, Any, Any], function(*args, **kwargs))
        step: Callable[[], Any] = functools.partial(next, steps)
        try:
            while True:
                try:
                    value = _inside(recorded.scope, step)
                except StopIteration as stop:
                    recorded.succeed(stop.value)
                    return stop.value
                try:
                    step = functools.partial(steps.send, (yield value))
                except GeneratorExit:
                    value = _inside(recorded.scope, steps.close)
                    if value is None:
                        raise
                    recorded.succeed(value)  # from Python 3.13 on, close() may return a value
                    return value
                except BaseException as error:  # noqa: BLE001 - thrown in by the caller, passed to the generator
                    step = functools.partial(steps.throw, error)
        except BaseException as error:
            recorded.fail(error)
            raise

    return call


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        recorded = begin(args, kwargs)
        steps = cast(AsyncGenerator[Any, Any], function(*args, **kwargs))
        scope = recorded.scope if recorded is not None else None
        step: Callable[[], Awaitable[Any]] = functools.partial(anext, steps)
        try:
            while True:
                try:
                    value = await (step() if scope is None else _awaited_inside(scope, step))
                except StopAsyncIteration:
                    break
                try:
                    step = functools.partial(steps.asend, (yield value))
                except GeneratorExit:
                    await (steps.aclose() if scope is None else _awaited_inside(scope, steps.aclose))
                    raise
                except BaseException as error:  # noqa: BLE001
                    step = functools.partial(steps.athrow, error)
        except BaseException as error:
            if recorded is not None:
                recorded.fail(error)
            raise
        if recorded is not None:
            recorded.succeed(None)

    return call


def _inside(scope: RecordingScope, step: Callable[[], Any]) -> Any:
    token = SCOPE.set(scope)
    try:
        return step()
    finally:
        SCOPE.reset(token)


async def _awaited_inside(scope: RecordingScope, step: Callable[[], Awaitable[Any]]) -> Any:
    token = SCOPE.set(scope)
    try:
        return await step()
    finally:
        _leave(token)


def _leave(token: Token[RecordingScope | None]) -> None:
    try:
        SCOPE.reset(token)
    except ValueError:  # the coroutine was closed outside its task, as by a loop that ends
        pass
