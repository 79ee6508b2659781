"""Records pydantic-ai: runs of agents, model requests, tool calls and approvals, through a capability.

A capability sees arguments and results as Python values, in the context of the step. pydantic-ai has no
default for the capabilities of all agents, so agents are created with it. For agents that exist already,
`Agent.iter`, which every way to run an agent goes through, passes it on; that costs more for each run.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Instrumentation
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.tools import DeferredToolRequests

from longwatch.model.usage import ModelUsage
from longwatch.recording.calls import report_fault, reported_faults
from longwatch.recording.decorators import ambient_scope
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall, begin_model_call
from longwatch.recording.open_call import CallBlock
from longwatch.recording.scope import SCOPE, RecordingScope
from longwatch.recording.waiting import ActiveWait
from longwatch.telemetry.messages import decode_json

MAX_WAITS = 1_000  # beyond that the oldest are dropped
PROVIDERS = {  # pydantic-ai's names, where the GenAI conventions have others
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


class Iteration:
    """How the program uses one run of an agent."""

    def __init__(self) -> None:
        self.is_left = False  # before the end, and without an exception


_iteration: ContextVar[Iteration | None] = ContextVar("longwatch_pydantic_ai", default=None)


@dataclass
class RecordingCapability(AbstractCapability[Any]):
    """Records everything an agent does. It changes nothing."""

    _safe_at_runtime: ClassVar[bool] = True  # may be added to a run whose agent is executed durably

    def get_ordering(self) -> CapabilityOrdering:
        # Around pydantic-ai's own spans, which are not recorded again inside.
        return CapabilityOrdering(position="outermost", wraps=[Instrumentation])

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        name = (ctx.agent.name if ctx.agent is not None else None) or "agent"
        given = {"user_prompt": ctx.prompt} if ctx.prompt is not None else None
        outer = SCOPE.get() or ambient_scope()
        iteration = _iteration.get()
        with reported_faults():
            _end_waits(ctx.messages)
        with CallBlock("agent", name, input=given, fields={"conversation_id": ctx.conversation_id}) as block:
            try:
                result = await handler()
            except asyncio.CancelledError:
                if iteration is not None and iteration.is_left:
                    block.error = GeneratorExit()  # its consumer stopped reading: not a failure
                raise
            block.output = result.output
        if outer is not None and isinstance(result.output, DeferredToolRequests):
            with reported_faults():
                _begin_waits(result.output, outer)
        return result

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Mapping[str, Any], handler: Any
    ) -> Any:
        fields, deferral = {"tool_call_id": call.tool_call_id}, None
        with CallBlock("tool", call.tool_name, input=dict(args), fields=fields) as block:
            try:
                block.output = await handler(args)
            except (ApprovalRequired, CallDeferred) as error:  # it runs later, or elsewhere: not a failure
                block.end_fields, deferral = {"interrupted": True}, error
        if deferral is not None:
            raise deferral
        return block.output

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        call = _begin_request(request_context)
        if call is None:
            response: ModelResponse = await handler(request_context)
            return response
        token = MODEL_CALL_LAYER.set(call)
        try:
            response = await handler(request_context)
        except BaseException as error:
            call.fail(error)
            raise
        finally:
            MODEL_CALL_LAYER.reset(token)
        call.succeed(**_read_response(response))
        return response


_waits: OrderedDict[str, ActiveWait] = OrderedDict()  # by the id of the deferred call
_waits_lock = threading.Lock()


def _begin_waits(requests: DeferredToolRequests, scope: RecordingScope) -> None:
    """The run around the agent waits for approvals, and for results of tools that are executed elsewhere."""
    reasons = (("approval", requests.approvals), ("tool result", requests.calls))
    with _waits_lock:
        for reason, deferred in reasons:
            for call in deferred:
                wait = ActiveWait(reason, detail=call.tool_name, scope=scope).begin()
                _waits[call.tool_call_id] = wait
        while len(_waits) > MAX_WAITS:
            _waits.popitem(last=False)


def _end_waits(history: Sequence[ModelMessage]) -> None:
    """A run that continues these messages has the results of the calls that they deferred."""
    if not _waits:
        return
    with _waits_lock:
        for part in chain.from_iterable(message.parts for message in history):
            wait = _waits.pop(getattr(part, "tool_call_id", None) or "", None)
            if wait is not None:
                wait.end()


def _begin_request(request: Any) -> ModelCall | None:
    try:
        model, provider = request.model.model_name, request.model.system
        return begin_model_call(
            model,
            recorded_by="pydantic_ai",
            provider=PROVIDERS.get(provider, provider),
            parameters=_parameters(request),
            input=[
                *_instructions(request.messages),
                *chain.from_iterable(map(messages_of, request.messages)),
            ],
        )
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)
        return None


def _instructions(messages: Sequence[Any]) -> list[dict[str, object]]:
    """The instructions, which each request repeats; those of the last one are sent."""
    found = [each.instructions for each in messages if getattr(each, "instructions", None)]
    return [{"role": "system", "content": found[-1]}] if found else []


def _parameters(request: Any) -> dict[str, object]:
    found = {name: value for name, value in (request.model_settings or {}).items() if value is not None}
    tools = [tool.name for tool in request.model_request_parameters.function_tools]
    return {
        **found,
        **({"stream": True} if request.streaming else {}),
        **({"tools": tools} if tools else {}),
    }


def _read_response(response: ModelResponse) -> dict[str, Any]:
    try:
        usage = response.usage
        counts = ModelUsage(  # pydantic-ai states 0 for what it does not know
            input_tokens=usage.input_tokens or None,
            output_tokens=usage.output_tokens or None,
            cache_read_tokens=usage.cache_read_tokens or None,
            cache_write_tokens=usage.cache_write_tokens or None,
            reasoning_tokens=getattr(usage, "output_reasoning_tokens", None) or None,
        )
        return {
            "usage": counts,
            "output": messages_of(response),
            "response_id": response.provider_response_id,
            "response_model": response.model_name,
            "finish_reasons": [response.finish_reason] if response.finish_reason else None,
        }
    except Exception as error:  # noqa: BLE001 - the end is recorded all the same
        report_fault(error)
        return {}


def messages_of(message: ModelMessage) -> list[dict[str, object]]:
    """The messages in a request, which combines several roles, or in a response."""
    if message.kind == "response":
        return [_message("assistant", [_part(part) for part in message.parts])]
    return [_message(_role(part), _parts(part)) for part in message.parts]


def _message(role: str, parts: list[dict[str, object]]) -> dict[str, object]:
    if len(parts) == 1 and parts[0]["type"] == "text":
        return {"role": role, "content": parts[0]["text"]}
    return {"role": role, "content": parts}


def _role(part: Any) -> str:
    if part.part_kind == "system-prompt":
        return "system"
    return "tool" if getattr(part, "tool_name", None) else "user"


def _parts(part: Any) -> list[dict[str, object]]:
    content = part.content if part.part_kind == "user-prompt" else None
    return [_part(part)] if content is None or isinstance(content, str) else [_item(each) for each in content]


def _part(part: Any) -> dict[str, object]:
    match part.part_kind:
        case "tool-call" | "builtin-tool-call":
            arguments = decode_json(part.args)
            return {
                "type": "tool_call",
                "id": part.tool_call_id,
                "name": part.tool_name,
                "arguments": arguments,
            }
        case "tool-return" | "builtin-tool-return":
            return {"type": "tool_result", "id": part.tool_call_id, "result": part.content}
        case "retry-prompt" if part.tool_name:
            return {"type": "tool_result", "id": part.tool_call_id, "result": part.content}
        case "thinking":
            return {"type": "reasoning", "text": part.content}
    content = getattr(part, "content", None)
    return {"type": "text", "text": content if isinstance(content, str) else str(content)}


def _item(item: Any) -> dict[str, object]:
    """One item of a prompt: text, or a file by its media type and size."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    media_type = getattr(item, "media_type", None) or "file"
    data = getattr(item, "data", None)
    found: dict[str, object] = {"type": media_type.partition("/")[0], "media_type": media_type}
    return {**found, "bytes": len(data)} if isinstance(data, bytes) else found


def _record_init(initialize: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialize)
    def recorded(self: Any, *args: Any, capabilities: Any = None, **options: Any) -> None:
        initialize(self, *args, capabilities=[RecordingCapability(), *(capabilities or ())], **options)
        self.is_recorded_by_longwatch = True

    return recorded


def _record_iter(iterate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(iterate)
    @asynccontextmanager
    async def recorded(self: Any, *args: Any, capabilities: Any = None, **options: Any) -> AsyncIterator[Any]:
        if not getattr(self, "is_recorded_by_longwatch", False):  # it was created before
            capabilities = [RecordingCapability(), *(capabilities or ())]
        iteration = Iteration()
        token = _iteration.set(iteration)
        async with iterate(self, *args, capabilities=capabilities, **options) as run:
            _iteration.reset(token)
            yield run
            iteration.is_left = True

    return recorded


_is_installed = False


def install() -> None:
    """Give the capability to every agent, and to each run of those that exist already."""
    global _is_installed  # noqa: PLW0603 - once for the process
    if not _is_installed:
        _is_installed = True
        Agent.__init__ = _record_init(Agent.__init__)  # type: ignore[method-assign]
        Agent.iter = _record_iter(Agent.iter)  # type: ignore[method-assign]
