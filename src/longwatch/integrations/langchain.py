"""Records LangChain through its callbacks: models, tools, retrievers, and the nodes of LangGraph.

LangChain reports every step with an ID of its own and that of its parent. Prompts, parsers and other steps
that only pass values on are not recorded; what they contain belongs to the nearest recorded step.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any
from uuid import UUID

from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from longwatch.integrations.attach import when_imported
from longwatch.model.usage import ModelUsage
from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall
from longwatch.recording.scope import SCOPE, RecordingScope
from longwatch.telemetry.messages import message_of

MESSAGE_DEPTH = 3  # levels of a state that are searched for messages; a state may contain itself
HIDDEN = "langsmith:hidden"  # tag of steps that LangGraph adds to the program's own
MAX_STEPS = 10_000  # steps that are not recorded themselves and still open

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}
PROVIDERS = {  # LangChain's names, where the GenAI conventions have others
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "google_anthropic_vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
PARAMETERS = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed", "stream"),
    *("frequency_penalty", "presence_penalty", "reasoning_effort", "response_format", "tool_choice"),
)

tracker = CallTracker("langchain")
STARTING_GRAPH: ContextVar[object] = ContextVar("longwatch_starting_graph", default=None)
"""The key of a graph's call whose first step LangChain is about to report; see `langgraph.py`."""
BEGUN: ContextVar[list[UUID] | None] = ContextVar("longwatch_begun", default=None)
"""The models and tools that the current method has begun; see `end_when_cancelled`."""


class RecordingHandler(BaseCallbackHandler):
    """Translates callbacks to calls. LangChain logs what a handler raises and continues."""

    run_inline = True  # in the context of the step, so that what runs inside it belongs to it
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self) -> None:
        # Steps that are not recorded, with the nearest recorded step around each.
        self._around: OrderedDict[UUID, object] = OrderedDict()
        self._graphs: dict[UUID, object] = {}  # the key of the call of each graph
        self._scopes: dict[UUID, Token[RecordingScope | None]] = {}
        # Whether a step raised an error to steer its graph, which is not a failure; set by `langgraph.py`.
        self.is_control_flow: Callable[[BaseException, object], bool] = lambda error, graph: False

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        graph = STARTING_GRAPH.get()
        if graph is not None:
            STARTING_GRAPH.set(None)
            self._graphs[run_id] = graph
            self._skip(run_id, graph)
        elif is_node(tags, kwargs.get("metadata") or {}, kwargs.get("name")):
            self._begin(run_id, "node", kwargs.get("name") or "node", parent_run_id, readable(inputs))
            self._enter(run_id)
        elif parent_run_id is None:
            self._begin(run_id, "node", kwargs.get("name") or "chain", None, readable(inputs))
        else:
            self._skip(run_id, self._recorded(parent_run_id))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        is_recorded = run_id in self._graphs or run_id not in self._around
        self._end(run_id, output=readable(outputs) if is_recorded else None)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._fail(run_id, error, parent_run_id)

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        name = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        given = inputs if inputs is not None else {"input": input_str}
        fields = {"tool_call_id": kwargs.get("tool_call_id")}
        self._begin(run_id, "tool", name, parent_run_id, given, fields)
        self._enter(run_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        if isinstance(output, BaseMessage):
            if getattr(output, "status", None) == "error":
                return self._end(run_id, error=str(output.content))
            output = output.content
        return self._end(run_id, output=output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._fail(run_id, error)

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        name = kwargs.get("name") or (serialized or {}).get("name") or "retriever"
        self._begin(run_id, "tool", name, parent_run_id, {"query": query}, {"tool_type": "retriever"})

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **kwargs: Any) -> None:
        self._end(run_id, output=list(documents))

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._fail(run_id, error)

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given = [_message(message) for batch in messages for message in batch]
        self._begin_model("chat", serialized, given, run_id, parent_run_id, metadata or {}, kwargs)

    def on_llm_start(
        self,
        serialized: Any,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given: list[dict[str, object]] = [{"role": "user", "content": prompt} for prompt in prompts]
        self._begin_model("text_completion", serialized, given, run_id, parent_run_id, metadata or {}, kwargs)

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        tracker.chunk(run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        try:
            output, fields = read_response(response)
        except Exception as error:  # noqa: BLE001 - the end is recorded all the same
            report_fault(error)
            output, fields = None, {}
        tracker.end(run_id, output=output, fields=fields)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        tracker.end(run_id, error=error)

    def _begin_model(
        self,
        operation: str,
        serialized: Any,
        given: list[dict[str, object]],
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        if isinstance(tracker.scope_of(parent_run_id), ModelCall):  # a model that wraps another one
            return
        layer = MODEL_CALL_LAYER.get()
        if isinstance(layer, ModelCall) and layer.recorded_by == "langchain":  # one of several prompts
            MODEL_CALL_LAYER.set(None)
        called_with = options.get("invocation_params") or {}
        fields = {
            "operation": operation,
            "provider": _provider(metadata),
            "parameters": _parameters(called_with),
        }
        name = (
            metadata.get("ls_model_name")
            or called_with.get("model")
            or called_with.get("model_name")
            or ((serialized or {}).get("id") or ["model"])[-1]
        )
        self._begin(run_id, "model", str(name), parent_run_id, given, fields)
        call = tracker.scope_of(run_id)
        if isinstance(call, ModelCall):
            # Never reset: the end is often reported in another context. It has no effect once the call ended.
            MODEL_CALL_LAYER.set(call)

    def _begin(
        self,
        run_id: UUID,
        kind: str,
        name: str,
        parent: UUID | None,
        given: object,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        tracker.begin(run_id, kind, name, parent=self._recorded(parent), input=given, fields=fields)
        begun = BEGUN.get()
        if begun is not None:
            begun.append(run_id)

    def _end(self, run_id: UUID, *, output: object = None, error: BaseException | str | None = None) -> None:
        self._leave(run_id)
        if self._around.pop(run_id, None) is None:
            tracker.end(run_id, output=output, error=error)
        elif (graph := self._graphs.pop(run_id, None)) is not None:
            tracker.end(graph, output=output, error=error)

    def cancel(self, run_ids: Sequence[UUID], error: BaseException) -> None:
        """End the calls that were cancelled, the innermost first. Those that have ended are ignored."""
        for run_id in reversed(run_ids):
            tracker.end(run_id, error=error)

    def _fail(self, run_id: UUID, error: BaseException, parent: UUID | None = None) -> None:
        if self.is_control_flow(error, self._recorded(parent)):
            self._leave(run_id)
            tracker.end(run_id, fields={"interrupted": True})
        else:
            self._end(run_id, error=error)

    def _skip(self, run_id: UUID, around: object) -> None:
        self._around[run_id] = around
        if len(self._around) > MAX_STEPS:
            self._around.popitem(last=False)

    def _recorded(self, run_id: UUID | None) -> Any:
        """The step itself, or the nearest one around it that is recorded."""
        return None if run_id is None else self._around.get(run_id, run_id)

    def _enter(self, run_id: UUID) -> None:
        scope = tracker.scope_of(run_id)
        if scope is not None:
            self._scopes[run_id] = SCOPE.set(scope)

    def _leave(self, run_id: UUID) -> None:
        token = self._scopes.pop(run_id, None)
        if token is not None:
            try:
                SCOPE.reset(token)
            except ValueError:  # the end is reported in a context of its own, which has no further use
                pass


def read_response(response: LLMResult) -> tuple[object, dict[str, object]]:
    """The messages of a response, and its tokens, model, ID and finish reasons as far as they are stated."""
    generations = [generation for batch in response.generations for generation in batch]
    messages = [getattr(generation, "message", None) for generation in generations]
    stated: dict[str, Any] = dict(response.llm_output or {})
    for generation, message in zip(generations, messages, strict=True):
        stated |= generation.generation_info or {}
        stated |= getattr(message, "response_metadata", None) or {}
    reason = stated.get("finish_reason") or stated.get("stop_reason") or stated.get("stopReason")
    fields: dict[str, object] = {
        "usage": _usage(messages, stated),
        "response_model": stated.get("model_name") or stated.get("model"),
        "response_id": _response_id(messages, stated),
        "finish_reasons": [str(reason)] if reason else None,
    }
    output = [
        {"role": "assistant", "content": generation.text} if message is None else _message(message)
        for generation, message in zip(generations, messages, strict=True)
    ]
    return output, fields


def _usage(messages: Sequence[Any], stated: Mapping[str, Any]) -> ModelUsage | None:
    found = next((usage for each in messages if (usage := getattr(each, "usage_metadata", None))), None)
    if found:
        read, written = found.get("input_token_details") or {}, found.get("output_token_details") or {}
        return ModelUsage(
            input_tokens=found.get("input_tokens"),
            output_tokens=found.get("output_tokens"),
            cache_read_tokens=read.get("cache_read"),
            cache_write_tokens=read.get("cache_creation"),
            reasoning_tokens=written.get("reasoning"),
        )
    counts = stated.get("token_usage") or stated.get("usage")  # of a completion model
    if not isinstance(counts, Mapping):
        return None
    return ModelUsage(
        input_tokens=counts.get("prompt_tokens", counts.get("input_tokens")),
        output_tokens=counts.get("completion_tokens", counts.get("output_tokens")),
    )


def _response_id(messages: Sequence[Any], stated: Mapping[str, Any]) -> str | None:
    """The provider's ID. LangChain gives messages without one an ID of its own, which is not returned."""
    own = next((message.id for message in messages if message is not None and message.id), None)
    found = stated.get("id") or own
    return None if found is None or str(found).startswith(("run-", "lc_")) else str(found)


def readable(value: Any, depth: int = MESSAGE_DEPTH) -> Any:
    """A state with each message as role and content, without the fields that only LangChain uses."""
    if isinstance(value, BaseMessage):
        return _message(value)
    if depth and isinstance(value, list):
        return [readable(each, depth - 1) for each in value]
    if depth and isinstance(value, dict):
        return {name: readable(each, depth - 1) for name, each in value.items()}
    return value


def _message(message: BaseMessage) -> dict[str, object]:
    return message_of(
        {
            "role": ROLES.get(message.type, message.type),
            "content": message.content,
            "tool_calls": [
                {"id": call.get("id"), "name": call["name"], "arguments": call["args"]}
                for call in getattr(message, "tool_calls", ())
            ],
            "tool_call_id": getattr(message, "tool_call_id", None),
        },
        role="user",
    )


def _provider(metadata: Mapping[str, Any]) -> str | None:
    name = metadata.get("ls_provider")
    return PROVIDERS.get(name, name) if isinstance(name, str) else None


def _parameters(called_with: Mapping[str, Any]) -> dict[str, object] | None:
    found = {name: called_with[name] for name in PARAMETERS if called_with.get(name) is not None}
    tools = [_tool_name(tool) for tool in called_with.get("tools") or ()]
    return {**found, "tools": tools} if tools else found or None


def _tool_name(tool: Any) -> str:
    """The name of a tool as providers declare it: on top, or inside a function."""
    declared = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return str(declared.get("name") or declared.get("type") or "tool")


def is_node(tags: Sequence[str] | None, metadata: Mapping[str, Any], name: str | None) -> bool:
    """Whether a step is a node of a graph, or a task of LangGraph's functional API."""
    if not tags or HIDDEN in tags:
        return False
    if any(tag.startswith("graph:step:") for tag in tags):
        return True
    path = metadata.get("langgraph_path")
    is_task = isinstance(path, tuple) and path[:1] == ("__pregel_push",) and path[-1] is True
    return is_task and tags[0] == "seq:step:1" and name == metadata.get("langgraph_node")


def end_when_cancelled(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that reports no end when it is cancelled, as by a timeout."""

    @functools.wraps(method)
    async def ending(*args: Any, **options: Any) -> Any:
        begun: list[UUID] = []
        token = BEGUN.set(begun)
        try:
            return await method(*args, **options)
        except asyncio.CancelledError as error:
            handler.cancel(begun, error)
            raise
        finally:
            BEGUN.reset(token)

    return ending


CANCELLABLE = (  # programs import these modules as they need them
    ("langchain_core.language_models.chat_models", "BaseChatModel", "agenerate"),
    ("langchain_core.language_models.llms", "BaseLLM", "agenerate"),
    ("langchain_core.tools.base", "BaseTool", "arun"),
    ("langchain_core.retrievers", "BaseRetriever", "ainvoke"),
)


def _wrap_cancellable(module: str, owner: str, name: str) -> None:
    kind = getattr(sys.modules[module], owner)
    setattr(kind, name, end_when_cancelled(getattr(kind, name)))


handler = RecordingHandler()
_current_handler: ContextVar[RecordingHandler | None] = ContextVar("longwatch_langchain", default=handler)
_is_installed = False


def install() -> None:
    """Add the handler to every run of LangChain, and wrap the methods that are silent when cancelled."""
    global _is_installed  # noqa: PLW0603 - once for the process
    if not _is_installed:
        _is_installed = True
        from langchain_core.tracers.context import register_configure_hook  # its import attaches this adapter

        register_configure_hook(_current_handler, inheritable=True)
        for method in CANCELLABLE:
            when_imported(method[0], functools.partial(_wrap_cancellable, *method))
