"""Records the clients of OpenAI and Anthropic, which are generated from one template.

Every call of such a client passes `request` of its class, whatever method the program uses: plain, parsed,
streamed, raw, or a helper that calls others. Retries happen inside, so they are part of the call. A stream
ends when it is exhausted, fails, is closed or is dropped.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from longwatch.integrations.client_calls import (
    AsyncChunks,
    Chunks,
    ClientCall,
    Message,
    ModelResponse,
    StreamReader,
)
from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import ModelCall, begin_model_call, outer_layer

INSTALLED = "__longwatch__"  # on a wrapped method

# Providers that serve one of the two APIs, by the host of the client's base URL.
PROVIDERS: Mapping[str, str] = {
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "amazonaws.com": "aws.bedrock",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}


@dataclass(frozen=True, slots=True)
class ClientApi:
    """One model API of a client."""

    path: str
    operation: str
    read_input: Callable[[Mapping[str, Any]], list[Message]]
    read_parameters: Callable[[Mapping[str, Any]], dict[str, object]]
    read_response: Callable[[object], ModelResponse]
    new_reader: Callable[[], StreamReader] | None = None


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A client library and its model APIs."""

    name: str  # `recorded_by`, and the default provider
    apis: Sequence[ClientApi]

    def install(self, client: type, async_client: type) -> None:
        """Wrap `request` where the two client classes inherit it. Safe to call repeatedly."""
        self._wrap(_owner_of_request(client), self._wrap_request)
        self._wrap(_owner_of_request(async_client), self._wrap_async_request)

    def _wrap(self, owner: Any, wrap: Callable[[Any], Any]) -> None:
        if not hasattr(owner.request, INSTALLED):
            wrapped = wrap(owner.request)
            setattr(wrapped, INSTALLED, True)
            owner.request = wrapped

    def _wrap_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def request(client: Any, cast_to: Any, options: Any, **more: Any) -> Any:
            call = self.begin(client, options)
            if call is None:
                return original(client, cast_to, options, **more)
            with call.during_request():
                result = original(client, cast_to, options, **more)
            call.receive(result)
            return result

        return request

    def _wrap_async_request(self, original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def request(client: Any, cast_to: Any, options: Any, **more: Any) -> Any:
            call = self.begin(client, options)
            if call is None:
                return await original(client, cast_to, options, **more)
            with call.during_request():
                result = await original(client, cast_to, options, **more)
            call.receive(result)
            return result

        return request

    def begin(self, client: Any, options: Any) -> GeneratedClientCall | None:
        """Record the start of a request; None if it is not a model call.

        If another layer records it, this one contributes the time of the first token.
        """
        try:
            api, layer = self._api_of(options), outer_layer()
            if api is None:
                return None
            if layer is not None:
                return CoveredClientCall(layer, api) if isinstance(layer, ModelCall) else None
            body = options.json_data if isinstance(options.json_data, Mapping) else {}
            call = begin_model_call(
                str(body.get("model") or "unknown"),
                recorded_by=self.name,
                provider=provider_of(str(client.base_url), self.name),
                operation=api.operation,
                parameters=api.read_parameters(body),
                input=api.read_input(body),
            )
            return GeneratedClientCall(call, api) if call is not None else None
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)
            return None

    def _api_of(self, options: Any) -> ClientApi | None:
        if options.method.lower() != "post":
            return None
        path = options.url.partition("?")[0]
        return next((api for api in self.apis if path == api.path), None)


def _owner_of_request(client: type) -> type:
    """The class that defines `request`, which subclasses such as those for Azure share."""
    return next(each for each in client.__mro__ if "request" in vars(each))


def provider_of(base_url: str, default: str) -> str:
    """The provider by the host that the client talks to."""
    host = base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    return next((name for suffix, name in PROVIDERS.items() if f".{host}".endswith(f".{suffix}")), default)


class GeneratedClientCall(ClientCall):
    """A call whose result is a response, a stream, or a raw response that the program reads or parses."""

    def __init__(self, call: ModelCall, api: ClientApi) -> None:
        super().__init__(call)
        self._api = api

    def receive(self, result: Any) -> None:
        """Record the response, or prepare its stream."""
        try:
            if is_stream(result):
                self.track_stream(result)
            elif hasattr(result, "http_response"):
                self._track_raw(result)
            else:
                self.finish(self._api.read_response(result))
        except Exception as error:  # noqa: BLE001
            report_fault(error)
            self.finish(ModelResponse())

    def track_stream(self, stream: Any) -> None:
        """Record the chunks of a stream as the program reads them."""
        if self._api.new_reader is None or self.reader is not None:
            return
        self.begin_stream(self._api.new_reader())
        kind = AsyncChunks if hasattr(stream, "__anext__") else Chunks
        stream._iterator = chunks = kind(stream._iterator, self)
        notify_on_close(stream.response, chunks.on_close)

    def _track_raw(self, raw: Any) -> None:
        response = raw.http_response
        if response.is_closed:
            return self.finish(self._read_body(response))
        self._track_parsed(raw)
        return notify_on_close(response, self._on_raw_close, response)

    def _track_parsed(self, raw: Any) -> None:
        _change_class(raw, _parsing_class)
        raw.longwatch_on_parse = self._on_parse

    def _on_parse(self, result: Any) -> None:
        if is_stream(result):
            self.track_stream(result)

    def _on_raw_close(self, response: Any) -> None:
        if self.reader is None:
            self.finish(self._read_body(response))

    def _read_body(self, response: Any) -> ModelResponse:
        try:
            return self._api.read_response(response.json())
        except Exception:  # noqa: BLE001 - the body was not read, or it is a stream of events
            return ModelResponse()


class CoveredClientCall(GeneratedClientCall):
    """A call that another layer records, which may not see the chunks of its stream."""

    @contextmanager
    def during_request(self) -> Iterator[None]:
        yield

    def receive(self, result: Any) -> None:
        try:
            if is_stream(result):
                self.track_stream(result)
            elif hasattr(result, "http_response") and not result.http_response.is_closed:
                self._track_parsed(result)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def add_chunk(self, chunk: object) -> None:
        """Note the first token of the outer call; the other chunks are those of its layer."""
        try:
            if self.reader is not None and self.reader.add(chunk):
                self._call.first_token()
                self.reader = None
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def finish_stream(self, error: BaseException | None = None) -> None:
        """The outer layer records the end."""


def is_stream(result: Any) -> bool:
    return hasattr(result, "_iterator") and hasattr(result, "response")


def notify_on_close(response: Any, on_close: Callable[..., None], *arguments: Any) -> None:
    """Call back when the HTTP response has been closed.

    Its class is replaced by a subclass: a wrapper on the instance would form a reference cycle, and leave a
    dropped stream to the garbage collector. `on_close` is a method, of which only a weak reference is held.
    """
    _change_class(response, _closing_class)
    response.longwatch_on_close = weakref.WeakMethod(on_close), arguments


def _change_class(instance: Any, subclass_of: Callable[[type], type]) -> None:
    if not hasattr(type(instance), INSTALLED):
        instance.__class__ = subclass_of(type(instance))


@functools.cache
def _closing_class(base: Any) -> type:
    def notify(response: Any) -> None:
        callback, arguments = vars(response).pop("longwatch_on_close", (None, ()))
        notified = callback() if callback is not None else None
        if notified is not None:
            notified(*arguments)

    class ClosingResponse(base):  # type: ignore[misc]
        longwatch_reads = False  # a body that is read is closed before its content can be used

        def close(self) -> None:
            super().close()
            if not self.longwatch_reads:
                notify(self)

        async def aclose(self) -> None:
            await super().aclose()
            if not self.longwatch_reads:
                notify(self)

        def read(self) -> bytes:
            self.longwatch_reads = True
            content: bytes = super().read()
            notify(self)
            return content

        async def aread(self) -> bytes:
            self.longwatch_reads = True
            content: bytes = await super().aread()
            notify(self)
            return content

    return _named_like(base, ClosingResponse)


@functools.cache
def _parsing_class(base: Any) -> type:
    class ParsingResponse(base):  # type: ignore[misc]
        def parse(self, **options: Any) -> Any:
            result = super().parse(**options)
            if inspect.isawaitable(result):
                return self._parse_later(result)
            self.longwatch_on_parse(result)
            return result

        async def _parse_later(self, result: Awaitable[Any]) -> Any:
            parsed = await result
            self.longwatch_on_parse(parsed)
            return parsed

    return _named_like(base, ParsingResponse)


def _named_like(base: type, subclass: type) -> type:
    subclass.__name__, subclass.__qualname__, subclass.__module__ = (
        base.__name__,
        base.__qualname__,
        base.__module__,
    )
    setattr(subclass, INSTALLED, True)
    return subclass
