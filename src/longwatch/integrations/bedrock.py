"""Records `converse` and `converse_stream` of Bedrock clients that boto3 creates from now on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from longwatch.integrations.client_calls import Chunks, ClientCall, Message, ModelResponse, parameters_of
from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import ModelUsage, begin_model_call, outer_layer
from longwatch.telemetry.messages import message_of

SERVICE = "bedrock-runtime"
NAME = "bedrock"
PROVIDER = "aws.bedrock"
INSTALLED = "__longwatch__"  # on a wrapped method
CONTENT_FIELDS = ("modelId", "messages", "system", "toolConfig", "inferenceConfig")


def install() -> None:
    """Wrap the method of botocore that creates clients. Safe to call repeatedly."""
    from botocore.session import Session

    original = Session.create_client
    if hasattr(original, INSTALLED):
        return

    @functools.wraps(original)
    def create_client(self: Any, service_name: str, *args: Any, **options: Any) -> Any:
        client = original(self, service_name, *args, **options)
        if service_name == SERVICE:
            _record_client(client)
        return client

    setattr(create_client, INSTALLED, True)
    Session.create_client = create_client  # type: ignore[method-assign]


def _record_client(client: Any) -> None:
    try:
        client.converse = _wrap(client.converse, _receive)
        client.converse_stream = _wrap(client.converse_stream, _receive_stream)
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)


def _wrap(original: Callable[..., Any], receive: Callable[[ClientCall, Any], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def converse(*args: Any, **request: Any) -> Any:
        call = _begin(request, stream=receive is _receive_stream)
        if call is None:
            return original(*args, **request)
        with call.during_request():
            result = original(*args, **request)
        try:
            receive(call, result)
        except Exception as error:  # noqa: BLE001
            report_fault(error)
            call.finish(ModelResponse())
        return result

    return converse


def _begin(request: Mapping[str, Any], *, stream: bool) -> ClientCall | None:
    try:
        if outer_layer() is not None:
            return None
        call = begin_model_call(
            str(request.get("modelId") or "unknown"),
            recorded_by=NAME,
            provider=PROVIDER,
            parameters={**read_parameters(request), "stream": stream},
            input=read_input(request),
        )
        return ClientCall(call) if call is not None else None
    except Exception as error:  # noqa: BLE001
        report_fault(error)
        return None


def _receive(call: ClientCall, response: Any) -> None:
    call.finish(read_response(response))


def _receive_stream(call: ClientCall, response: Any) -> None:
    stream = response["stream"]
    call.begin_stream(ConverseStream(_request_id(response)))
    kind: Any = type(stream)
    stream.__class__ = _recorded_class(kind)  # it stays an EventStream
    stream.longwatch_call = call


@functools.cache
def _recorded_class(base: Any) -> type:
    class RecordedEventStream(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            return Chunks(super().__iter__(), self.longwatch_call)

        def close(self) -> None:
            super().close()
            self.longwatch_call.finish_stream()

    return RecordedEventStream


def read_parameters(request: Mapping[str, Any]) -> dict[str, object]:
    found = parameters_of(request, content=CONTENT_FIELDS) | dict(request.get("inferenceConfig") or {})
    tools = (request.get("toolConfig") or {}).get("tools") or ()
    names = [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]
    return {**found, "tools": names} if names else found


def read_input(request: Mapping[str, Any]) -> list[Message]:
    system = [{"role": "system", "content": request["system"]}] if request.get("system") else []
    return [message_of(each, role="user") for each in [*system, *(request.get("messages") or ())]]


def read_response(response: Mapping[str, Any]) -> ModelResponse:
    given = (response.get("output") or {}).get("message")
    reason = response.get("stopReason")
    return ModelResponse(
        response_id=_request_id(response),
        finish_reasons=[reason] if reason else None,
        usage=read_usage(response.get("usage")),
        output=[message_of(given, role="assistant")] if given else None,
    )


def read_usage(usage: Mapping[str, Any] | None) -> ModelUsage | None:
    """Bedrock counts cached tokens apart from the other input tokens."""
    if not usage:
        return None
    cached = [usage.get(name) for name in ("cacheReadInputTokens", "cacheWriteInputTokens")]
    given = usage.get("inputTokens")
    return ModelUsage(
        input_tokens=None if given is None else given + sum(count or 0 for count in cached),
        output_tokens=usage.get("outputTokens"),
        cache_read_tokens=cached[0],
        cache_write_tokens=cached[1],
    )


def _request_id(response: Mapping[str, Any]) -> str | None:
    return (response.get("ResponseMetadata") or {}).get("RequestId")


class ConverseStream:
    """Collects the events of ConverseStream."""

    def __init__(self, request_id: str | None) -> None:
        self._request_id = request_id
        self._blocks: dict[int, dict[str, Any]] = {}
        self._reason: str | None = None
        self._usage: ModelUsage | None = None

    def add(self, event: Any) -> bool:
        kind = next(iter(event), "")
        content = event.get(kind) or {}
        if kind == "contentBlockStart":
            self._block(content)["tool"] = (content.get("start") or {}).get("toolUse")
        elif kind == "contentBlockDelta":
            return self._add_delta(self._block(content), content.get("delta") or {})
        elif kind == "messageStop":
            self._reason = content.get("stopReason")
        elif kind == "metadata":
            self._usage = read_usage(content.get("usage"))
        return False

    def _block(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return self._blocks.setdefault(content.get("contentBlockIndex", 0), {"text": [], "reasoning": []})

    def _add_delta(self, block: dict[str, Any], delta: Mapping[str, Any]) -> bool:
        reasoning = (delta.get("reasoningContent") or {}).get("text")
        text = delta.get("text") or (delta.get("toolUse") or {}).get("input")
        if reasoning:
            block["reasoning"].append(reasoning)
        if text:
            block["text"].append(text)
        return bool(text or reasoning)

    def response(self) -> ModelResponse:
        blocks = [part for block in self._blocks.values() for part in _streamed_blocks(block)]
        return ModelResponse(
            response_id=self._request_id,
            finish_reasons=[self._reason] if self._reason else None,
            usage=self._usage,
            output=[message_of({"content": blocks}, role="assistant")] if blocks else None,
        )


def _streamed_blocks(block: Mapping[str, Any]) -> Iterable[dict[str, object]]:
    tool, text = block.get("tool"), "".join(block["text"])
    if block["reasoning"]:
        yield {"type": "reasoning", "text": "".join(block["reasoning"])}
    if tool:
        yield {"toolUse": {**tool, "input": text}}
    elif text:
        yield {"text": text}
