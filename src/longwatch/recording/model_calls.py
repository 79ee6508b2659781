"""Records calls of models: `with longwatch.model_call("gpt-4o", provider="openai") as call:`.

An adapter of a framework, a wrapper of a provider's client and a span may all see the same call. The
outermost of them sets `MODEL_CALL_LAYER`, and the others record nothing. Where the context is lost, the
second end with the same response ID is recorded with `same_as`, the call that has the usage already.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import Any, Self

from longwatch.model.model_calls import CountedCall, Repeat
from longwatch.model.usage import ModelUsage, has_counts
from longwatch.recording.active_run import ActiveRun
from longwatch.recording.calls import report_fault
from longwatch.recording.open_call import Failure, OpenCall, enclosing_scope
from longwatch.recording.scope import SCOPE, RecordingScope

__all__ = [
    "MODEL_CALL_LAYER",
    "ModelCall",
    "ModelUsage",
    "begin_model_call",
    "find_repeated",
    "model_call",
    "outer_layer",
]

MAX_RESPONSES = 10_000  # response ids that are remembered
MANUAL = "manual"  # `recorded_by` of `longwatch.model_call`

MODEL_CALL_LAYER: ContextVar[ModelCall | str | None] = ContextVar("longwatch_model_call_layer", default=None)
"""What records the model call that is in progress: its name or the call itself; None outside a model call.

An SDK may report the end of a call in another context than its start, where the variable cannot be reset.
Its adapter sets the call, which has no effect once it has ended.
"""

_responses: OrderedDict[tuple[str, str], CountedCall] = OrderedDict()  # by run and response ID
_responses_lock = threading.Lock()


def outer_layer() -> ModelCall | str | None:
    """What records the model call around the current code; None if no model call is in progress."""
    layer = MODEL_CALL_LAYER.get()
    return None if isinstance(layer, ModelCall) and layer.has_ended else layer


def end_layer(call: ModelCall) -> None:
    """Record other model calls again: the request of this one is made, and its consumer may make others."""
    if MODEL_CALL_LAYER.get() is call:
        MODEL_CALL_LAYER.set(None)


def find_repeated(run_id: str, response_id: object, record: CountedCall) -> Repeat:
    """Which earlier call of this run in this process has this response ID and is the same call."""
    if not isinstance(response_id, str) or not response_id:
        return Repeat()
    with _responses_lock:
        first = _responses.setdefault((run_id, response_id), record)
        if len(_responses) > MAX_RESPONSES:
            _responses.popitem(last=False)
        if first is record or first.call_id == record.call_id or not first.shares_call(record):
            return Repeat()
        repeat = first.repeated_by(record)
        first.has_tokens = first.has_tokens or repeat.adds_usage
        return repeat


class ModelCall(OpenCall):
    """A call of a model in progress, and the scope of everything inside it."""

    __slots__ = ("_chunks", "_first_token_ms", "_fixed")

    def __init__(
        self, name: str, outer: RecordingScope, fixed: Mapping[str, object], run: ActiveRun | None = None
    ) -> None:
        super().__init__("model", name, outer, run)
        self._fixed = fixed  # in both events
        self._chunks = 0
        self._first_token_ms: int | float | None = None

    @property
    def recorded_by(self) -> object:
        """The layer that records this call."""
        return self._fixed.get("recorded_by")

    def begin(self, values: Mapping[str, object]) -> None:
        """Queue the start event."""
        self.start(values, self._fixed)

    def first_token(self) -> None:
        """Note when the first token of a stream arrives. Only the first call counts."""
        if self._first_token_ms is None:
            self._first_token_ms = self.elapsed_ms()

    def chunk(self, *, has_output: bool = True) -> None:
        """Count a chunk of a stream. The first one with output is the first token, unless that is noted."""
        self._chunks += 1
        if has_output:
            self.first_token()

    def succeed(
        self,
        *,
        usage: ModelUsage | None = None,
        output: object = None,
        response_id: str | None = None,
        response_model: str | None = None,
        finish_reasons: Sequence[str] | None = None,
        **fields: object,
    ) -> None:
        """Record that the model responded. What is unknown is left out. Never raises."""
        response = {
            "usage": usage,
            "response_id": response_id,
            "response_model": response_model,
            "finish_reasons": finish_reasons,
        }
        self.finish(output=output, fields={**fields, **response})

    def fail(self, error: Failure, *, usage: ModelUsage | None = None, **fields: object) -> None:
        """Record that the call failed. Never raises."""
        self.finish(error=error, fields={**fields, "usage": usage})

    def _queue_end(self, output: object, error: Failure | None, fields: dict[str, object]) -> None:
        usage = fields.pop("usage", None)
        if isinstance(usage, ModelUsage):
            fields |= usage.fields()
        response_id = fields.get("response_id")
        if response_id:
            layer, has_tokens = str(self.recorded_by), has_counts({**self._fixed, **fields})
            record = CountedCall(self.call_id or "", layer, has_tokens)
            fields |= find_repeated(self.run_id, response_id, record).fields()
        fields["time_to_first_token_ms"] = self._first_token_ms
        fields["chunk_count"] = self._chunks or None
        super()._queue_end(output, error, {**self._fixed, **fields})


def begin_model_call(
    model: str,
    *,
    recorded_by: str,
    provider: str | None = None,
    operation: str = "chat",
    parameters: Mapping[str, object] | None = None,
    input: object = None,
    scope: RecordingScope | None = None,
    fields: Mapping[str, object] | None = None,
) -> ModelCall | None:
    """Record the start of a model call. Outside any run, the call opens a run of its own.

    None if an outer layer records the call, or recording is off or fails. Never raises.
    """
    if outer_layer() is not None:
        return None
    try:
        found = enclosing_scope(model, scope)
        if found is None:
            return None
        named = {"operation": operation, "provider": provider, "recorded_by": recorded_by}
        call = ModelCall(model, found[0], {**(fields or {}), **named}, found[1])
        call.begin({"input": input, "parameters": parameters or None})
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)
        return None
    return call


class ModelCallBlock:
    """A block of code that calls a model once. Calls of provider clients inside are not recorded again."""

    def __init__(self, begin: Callable[[], ModelCall | None], layer: str) -> None:
        self._begin = begin
        self._layer = layer
        self._call: ModelCall | None = None
        self._tokens: tuple[Token[RecordingScope | None], Token[ModelCall | str | None]] | None = None

    def __enter__(self) -> Self:
        self._call = self._begin()
        if self._call is not None:
            self._tokens = SCOPE.set(self._call), MODEL_CALL_LAYER.set(self._layer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tokens is not None:
            try:
                SCOPE.reset(self._tokens[0])
                MODEL_CALL_LAYER.reset(self._tokens[1])
            except ValueError:  # a generator or coroutine was closed in another context
                pass
        if self._call is not None:
            self._call.finish(error=error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def first_token(self) -> None:
        """Note when the first token of a stream arrives."""
        if self._call is not None:
            self._call.first_token()

    def chunk(self) -> None:
        """Count a chunk of a stream."""
        if self._call is not None:
            self._call.chunk()

    def succeed(self, **response: Any) -> None:
        """Record the response: `usage`, `output`, `response_id`, `response_model`, `finish_reasons`."""
        if self._call is not None:
            self._call.succeed(**response)

    def fail(self, error: Failure, **fields: Any) -> None:
        """Record that the call failed although no exception leaves the block."""
        if self._call is not None:
            self._call.fail(error, **fields)


def model_call(
    model: str,
    *,
    provider: str | None = None,
    operation: str = "chat",
    input: object = None,
    parameters: Mapping[str, object] | None = None,
) -> ModelCallBlock:
    """Record everything inside `with` or `async with` as one call of a model.

    Inside, call `succeed` with what the model responded; without it, only the duration is recorded. An
    exception that leaves the block fails the call. Outside any run, the call opens a run of its own.
    """
    begin = partial(
        begin_model_call,
        model,
        recorded_by=MANUAL,
        provider=provider,
        operation=operation,
        input=input,
        parameters=parameters,
    )
    return ModelCallBlock(begin, MANUAL)
