"""Records LlamaIndex: agents, tools, retrievers, query engines and models, through its instrumentation.

Spans have the parents and the context, events the messages of models. A chat model may be implemented by its
completions, and an asynchronous method by the synchronous one; only the outermost of them is recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler

from longwatch.integrations.scoped_calls import ScopedCalls
from longwatch.model.usage import ModelUsage
from longwatch.recording.calls import report_fault
from longwatch.recording.open_call import is_recorded_as_tool
from longwatch.telemetry.messages import message_of

MAX_SPANS = 10_000  # open spans that are not recorded themselves
PARAMETERS = ("temperature", "top_p", "max_tokens", "num_output", "stop", "seed")

calls = ScopedCalls("llama_index")
_around: OrderedDict[str, str | None] = OrderedDict()  # unrecorded spans, with the recorded span around each


class RecordingSpanHandler(BaseSpanHandler[BaseSpan]):  # type: ignore[misc]
    """Records spans of agents, tools, retrievers and query engines, in their context."""

    @classmethod
    def class_name(cls) -> str:
        return "LongwatchSpanHandler"

    def span_enter(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: str | None = None,
        tags: Any = None,
        **options: Any,
    ) -> None:
        try:
            parent = _recorded(parent_id)
            if not _begin(id_, bound_args, instance, parent):
                _around[id_] = parent
                if len(_around) > MAX_SPANS:
                    _around.popitem(last=False)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def span_exit(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **options: Any
    ) -> None:
        if id_ in _around:
            _around.pop(id_, None)
        elif isinstance(instance, BaseTool) and getattr(result, "is_error", False):
            calls.end(id_, error=str(result.content))
        else:
            calls.end(id_, output=getattr(result, "raw_output", None) or _text(result))

    def span_drop(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        err: BaseException | None = None,
        **options: Any,
    ) -> None:
        _around.pop(id_, None)
        calls.end(_model_key(id_), error=err or "failed")
        calls.end(id_, error=err or "failed")

    def new_span(self, *args: Any, **options: Any) -> None:
        """Not used: `span_enter` records the span."""

    def prepare_to_exit_span(self, *args: Any, **options: Any) -> None:
        """Not used: `span_exit` records the end."""

    def prepare_to_drop_span(self, *args: Any, **options: Any) -> None:
        """Not used: `span_drop` records the failure."""


class RecordingEventHandler(BaseEventHandler):  # type: ignore[misc]
    """Records models from the events inside their spans."""

    @classmethod
    def class_name(cls) -> str:
        return "LongwatchEventHandler"

    def handle(self, event: Any, **options: Any) -> None:
        try:
            match event.class_name():
                case "LLMChatStartEvent":
                    _begin_model(event, "chat", [_message(each) for each in event.messages])
                case "LLMCompletionStartEvent":
                    _begin_model(event, "text_completion", [{"role": "user", "content": event.prompt}])
                case "LLMChatInProgressEvent" | "LLMCompletionInProgressEvent":
                    calls.chunk(_model_key(event.span_id))
                case "LLMChatEndEvent" | "LLMCompletionEndEvent":
                    _end_model(event)
                case "ExceptionEvent":  # of a stream that failed, or whose consumer stopped reading
                    calls.end(_model_key(event.span_id), error=event.exception)
        except Exception as error:  # noqa: BLE001
            report_fault(error)


def _begin(id_: str, bound_args: Any, instance: Any, parent: str | None) -> bool:
    """Record the start of a span; False if spans of this kind are not recorded."""
    method = id_.split("-", 1)[0].rpartition(".")[2]
    arguments = _arguments(bound_args)
    if isinstance(instance, BaseTool) and method in ("call", "acall", "__call__"):
        name = instance.metadata.name or type(instance).__name__
        if is_recorded_as_tool(name):
            return False
        calls.begin(id_, "tool", name, parent=parent, input=arguments)
    elif isinstance(instance, Workflow) and method == "run":
        name = getattr(instance, "name", None) or type(instance).__name__
        # A workflow continues after `run` has returned, in tasks of its own.
        calls.begin(id_, "agent", name, parent=parent, input=_given(arguments), is_entered=False)
    elif isinstance(instance, BaseRetriever) and method in ("retrieve", "aretrieve"):
        fields = {"tool_type": "retriever"}
        calls.begin(id_, "tool", type(instance).__name__, parent=parent, input=arguments, fields=fields)
    elif isinstance(instance, BaseQueryEngine) and method in ("query", "aquery"):
        calls.begin(id_, "node", type(instance).__name__, parent=parent, input=arguments)
    else:
        return False
    return True


def _recorded(span_id: str | None) -> str | None:
    return _around.get(span_id, span_id) if span_id is not None else None


def _arguments(bound_args: Any) -> dict[str, object]:
    given = dict(bound_args.arguments)
    named = given.pop("kwargs", None)
    return {**given, **named} if isinstance(named, Mapping) else given


def _given(arguments: dict[str, object]) -> object:
    start = arguments.get("start_event")
    found = {"user_msg": getattr(start, "user_msg", None), "input": getattr(start, "input", None)}
    return {name: value for name, value in found.items() if value is not None} or None


def _text(result: object) -> object:
    """What is stored of a result: its response where it has one, plain data as it is."""
    if isinstance(result, list):
        return [_text(each) for each in result]
    response = getattr(result, "response", None)
    return str(getattr(response, "content", response)) if response is not None else result


def _model_key(span_id: str | None) -> tuple[str, str | None]:
    return "model", span_id


def _begin_model(event: Any, operation: str, given: list[dict[str, object]]) -> None:
    model = event.model_dict or {}
    parameters = {name: model[name] for name in PARAMETERS if model.get(name) is not None}
    calls.begin(
        _model_key(event.span_id),
        "model",
        _name(model),
        parent=_recorded(event.span_id),
        input=given,
        fields={"operation": operation, "provider": _provider(model), "parameters": parameters or None},
    )


def _name(model: Mapping[str, Any]) -> str:
    """The name of a model; LlamaIndex calls one without a name `unknown`."""
    names = (model.get("model"), model.get("model_name"), model.get("class_name"))
    return next((str(name) for name in names if name and name != "unknown"), "model")


def _end_model(event: Any) -> None:
    response = event.response
    if response is None:
        return calls.end(_model_key(event.span_id))
    raw = getattr(response, "raw", None)
    message = getattr(response, "message", None)
    output = [{"role": "assistant", "content": response.text}] if message is None else [_message(message)]
    fields = {
        "usage": _usage(raw, getattr(response, "additional_kwargs", None)),
        "response_id": _read(raw, "id"),
        "response_model": _read(raw, "model"),
    }
    return calls.end(_model_key(event.span_id), output=output, fields=fields)


def _usage(raw: object, stated: object) -> ModelUsage | None:
    usage = _read(raw, "usage") or stated
    given = _read(usage, "prompt_tokens") or _read(usage, "input_tokens")
    produced = _read(usage, "completion_tokens") or _read(usage, "output_tokens")
    if given is None and produced is None:
        return None
    return ModelUsage(input_tokens=given, output_tokens=produced)


def _provider(model: Mapping[str, Any]) -> str | None:
    name = str(model.get("class_name") or "").lower()
    known = {"openai": "openai", "anthropic": "anthropic", "bedrock": "aws.bedrock", "gemini": "gcp.gemini"}
    return next((provider for word, provider in known.items() if word in name), None)


def _message(message: Any) -> dict[str, object]:
    blocks = [_block(block) for block in message.blocks]
    role = getattr(message.role, "value", message.role)
    return message_of({"role": role, "content": blocks}, role="user")


def _block(block: Any) -> object:
    kind = getattr(block, "block_type", "text")
    if kind == "tool_call":
        call = {"id": block.tool_call_id, "name": block.tool_name, "arguments": block.tool_kwargs}
        return {"type": "tool_call", **call}
    if kind == "text":
        return {"type": "text", "text": block.text}
    media_type = getattr(block, f"{kind}_mimetype", None)
    data = getattr(block, kind, None)
    return {"type": kind, "media_type": media_type, "bytes": len(data) if isinstance(data, bytes) else None}


def _read(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


_is_installed = False


def install() -> None:
    """Add the handlers to the root dispatcher."""
    global _is_installed  # noqa: PLW0603 - once for the process
    if not _is_installed:
        _is_installed = True
        dispatcher = get_dispatcher()
        dispatcher.add_span_handler(RecordingSpanHandler())
        dispatcher.add_event_handler(RecordingEventHandler())
