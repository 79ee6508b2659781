"""Records Strands Agents: agents, models and tools with input and output, through hooks on every agent."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from strands import Agent
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
)
from strands.middleware import InvokeModelStage

from longwatch.integrations.scoped_calls import ScopedCalls
from longwatch.model.usage import ModelUsage
from longwatch.recording.calls import reported_faults
from longwatch.recording.open_call import Failure
from longwatch.telemetry.messages import message_of

PROVIDERS = {  # modules of strands.models, where the GenAI conventions have other names
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai_responses": "openai",
}
PARAMETERS = ("temperature", "top_p", "max_tokens", "stop_sequences")

calls = ScopedCalls("strands")
_open_tools: dict[int, set[str]] = {}  # of each agent that is running


def on_invocation_start(event: Any) -> None:
    agent = event.agent
    given = {"prompt": [_message(each) for each in event.messages]} if event.messages else None
    # A stream is consumed in the context of the caller, which must not become part of the agent.
    calls.begin(id(agent), "agent", agent.name, input=given, is_entered=False)


def on_invocation_end(event: Any) -> None:
    agent, result = id(event.agent), event.result
    error: Failure | None = None
    if result is None:  # it failed, was cancelled, or its consumer stopped reading
        error = sys.exception() or "the agent did not finish"
    calls.end((agent, "model"), error=error)
    for tool_id in _open_tools.pop(agent, ()):
        calls.end((agent, tool_id), error=error)
    output = _message(result.message)["content"] if result is not None else None
    calls.end(agent, output=output, error=error)


def on_model_start(event: Any) -> None:
    agent = event.agent
    config = agent.model.get_config() or {}
    instructions = [{"role": "system", "content": agent.system_prompt}] if agent.system_prompt else []
    parameters = {name: config[name] for name in PARAMETERS if config.get(name) is not None}
    tools = list(agent.tool_names)
    calls.begin(
        (id(agent), "model"),
        "model",
        str(config.get("model_id") or type(agent.model).__name__),
        parent=id(agent),
        input=[*instructions, *(_message(each) for each in agent.messages)],
        fields={
            "provider": _provider(agent.model),
            "parameters": {**parameters, "tools": tools} if tools else parameters or None,
        },
    )


async def count_chunks(context: Any, call_next: Callable[[Any], AsyncGenerator[Any, None]]) -> Any:
    """A middleware that passes the events of a model on. The first content is the first token."""
    key = (id(context.agent), "model")
    async with aclosing(call_next(context)) as events:
        async for event in events:
            chunk = event.get("event") if isinstance(event, dict) else None
            if isinstance(chunk, dict) and "contentBlockDelta" in chunk:
                calls.chunk(key)
            yield event


def on_model_end(event: Any) -> None:
    key, response = (id(event.agent), "model"), event.stop_response
    if response is None:
        return calls.end(key, error=event.exception or "the model did not respond")
    usage = (response.message.get("metadata") or {}).get("usage") or {}
    fields = {"usage": _usage(usage), "finish_reasons": [str(response.stop_reason)]}
    return calls.end(key, output=[_message(response.message)], fields=fields)


def on_tool_start(event: Any) -> None:
    use = event.tool_use
    _open_tools.setdefault(id(event.agent), set()).add(use["toolUseId"])
    calls.begin(
        (id(event.agent), use["toolUseId"]),
        "tool",
        use["name"],
        parent=id(event.agent),
        input=use.get("input"),
        fields={"tool_call_id": use["toolUseId"]},
    )


def on_tool_end(event: Any) -> None:
    key, result = (id(event.agent), event.tool_use["toolUseId"]), event.result
    _open_tools.get(id(event.agent), set()).discard(event.tool_use["toolUseId"])
    output = _content(result.get("content"))
    if event.exception is not None or result.get("status") == "error":
        return calls.end(key, error=event.exception or str(output))
    return calls.end(key, output=output)


def _message(message: Mapping[str, Any]) -> dict[str, object]:
    return message_of({"role": message.get("role"), "content": message.get("content")}, role="user")


def _content(blocks: Any) -> object:
    """What a tool returned: the value of a single block, otherwise all blocks."""
    values = [block.get("json", block.get("text", block)) for block in blocks or ()]
    return values[0] if len(values) == 1 else values


def _usage(usage: Mapping[str, Any]) -> ModelUsage | None:
    if not usage.get("totalTokens"):
        return None
    read, written = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    return ModelUsage(
        input_tokens=usage["inputTokens"] + (read or 0) + (written or 0),  # Bedrock counts them apart
        output_tokens=usage["outputTokens"],
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _provider(model: object) -> str | None:
    package, _, module = type(model).__module__.rpartition(".")
    return PROVIDERS.get(module, module) if package == "strands.models" else None


HANDLERS: Mapping[type, Callable[[Any], None]] = {
    BeforeInvocationEvent: on_invocation_start,
    AfterInvocationEvent: on_invocation_end,
    BeforeModelCallEvent: on_model_start,
    AfterModelCallEvent: on_model_end,
    BeforeToolCallEvent: on_tool_start,
    AfterToolCallEvent: on_tool_end,
}


def _quiet(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    def handler(event: Any) -> None:
        with reported_faults():
            handle(event)

    return handler


def _record_init(initialize: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialize)
    def recorded(self: Any, *args: Any, **options: Any) -> None:
        initialize(self, *args, **options)
        with reported_faults():
            for event, handle in HANDLERS.items():
                self.hooks.add_callback(event, _quiet(handle))
            self.add_middleware(InvokeModelStage, count_chunks)

    return recorded


def install() -> None:
    """Add the hooks to every agent that is created from now on."""
    if not hasattr(Agent.__init__, "__wrapped__"):
        Agent.__init__ = _record_init(Agent.__init__)
