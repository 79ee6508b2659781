"""A model call of a provider's client, from its request to the end of its response or of its stream."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall, ModelUsage
from longwatch.recording.scope import SCOPE

Message = dict[str, object]


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What a model responded, as `ModelCall.succeed` takes it."""

    response_id: str | None = None
    response_model: str | None = None
    finish_reasons: Sequence[str] | None = None
    usage: ModelUsage | None = None
    output: Sequence[Message] | None = None


class StreamReader(Protocol):
    """Collects the response from the chunks of a stream."""

    def add(self, chunk: object) -> bool:
        """Add a chunk. Returns whether it has output of the model."""

    def response(self) -> ModelResponse:
        """The response so far."""


class ClientCall:
    """A model call in progress. A call that is dropped before its end, with its stream, ends then."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self.reader: StreamReader | None = None  # of the stream, once there is one

    def begin_stream(self, reader: StreamReader) -> None:
        """Collect the response from a stream, which ends with the process at the latest."""
        self.reader = reader
        _streams.add(self)

    @contextmanager
    def during_request(self) -> Iterator[None]:
        """Inner layers record nothing while the request is made. An exception fails the call."""
        tokens = SCOPE.set(self._call), MODEL_CALL_LAYER.set(self._call)
        try:
            yield
        except BaseException as error:
            self._call.fail(error)
            raise
        finally:
            with suppress(ValueError):  # the coroutine was closed outside its task
                SCOPE.reset(tokens[0])
                MODEL_CALL_LAYER.reset(tokens[1])

    def add_chunk(self, chunk: object) -> None:
        """Count a chunk of the stream."""
        try:
            self._call.chunk(has_output=self.reader is not None and self.reader.add(chunk))
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def finish_stream(self, error: BaseException | None = None) -> None:
        """Record the end of a stream that is exhausted, failed, closed or dropped."""
        response = ModelResponse()
        try:
            if self.reader is not None:
                response = self.reader.response()
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)
        self.finish(response, error)

    def finish(self, response: ModelResponse, error: BaseException | None = None) -> None:
        """Record the response. Only the first end of a call counts."""
        fields = {
            "usage": response.usage,
            "response_id": response.response_id,
            "response_model": response.response_model,
            "finish_reasons": response.finish_reasons,
        }
        self._call.finish(output=response.output or None, error=error, fields=fields)

    @property
    def has_ended(self) -> bool:
        return self._call.has_ended

    def __del__(self) -> None:
        if not self._call.has_ended:
            self.finish_stream()


_streams: WeakSet[ClientCall] = WeakSet()


def _finish_streams() -> None:
    """End the streams that the program has left open: after the exit handlers nothing is recorded."""
    for stream in list(_streams):
        if not stream.has_ended:
            stream.finish_stream()


atexit.register(_finish_streams)  # later than the recorder's handler, so it runs before


class Chunks:
    """The chunks of a stream, counted as the program reads them."""

    def __init__(self, chunks: Any, call: ClientCall) -> None:
        self._chunks = chunks
        self._call = call
        self._is_reading = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._is_reading = True  # the response is closed inside, before its end or failure is seen here
        try:
            chunk = next(self._chunks)
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self._is_reading = False
        self._call.add_chunk(chunk)
        return chunk

    def _end(self, error: BaseException) -> None:
        is_exhausted = isinstance(error, StopIteration | StopAsyncIteration)
        self._call.finish_stream(None if is_exhausted else error)

    def on_close(self) -> None:
        if not self._is_reading:
            self._call.finish_stream()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)


class AsyncChunks(Chunks):
    """The chunks of an asynchronous stream."""

    def __aiter__(self) -> AsyncChunks:
        return self

    async def __anext__(self) -> Any:
        self._is_reading = True
        try:
            chunk = await anext(self._chunks)
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self._is_reading = False
        self._call.add_chunk(chunk)
        return chunk


def read(value: object, name: str) -> Any:
    """A field of a mapping or an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def plain(value: object) -> object:
    """The value of a request or a response with dictionaries in place of the client's own types."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    to_dict = getattr(value, "to_dict", None)
    return value if to_dict is None else to_dict(mode="python", warnings=False)


def parameters_of(body: Mapping[str, Any], *, content: Sequence[str]) -> dict[str, object]:
    """The parameters of a request: its small values, except its `content` fields."""
    found: dict[str, object] = {}
    for name, value in body.items():
        if name in content:
            continue
        if _is_scalar(value):
            found[name] = value
        elif isinstance(value, Mapping):
            scalars = {key: each for key, each in value.items() if _is_scalar(each)}
            found |= {name: scalars} if scalars else {}
        elif isinstance(value, list | tuple) and all(_is_scalar(each) for each in value):
            found[name] = list(value)
    return found


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
