"""Records Google's Agent Development Kit: agents, models and tools, through a plugin of every runner."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner

from longwatch.integrations.scoped_calls import ScopedCalls
from longwatch.model.usage import ModelUsage
from longwatch.recording.calls import report_fault, reported_faults

PARAMETERS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed")

calls = ScopedCalls("google_adk")


def _quiet(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    async def quiet(*args: Any, **options: Any) -> None:
        with reported_faults():
            await callback(*args, **options)

    return quiet


def quiet_callbacks(plugin: type) -> type:
    """Let no callback of a plugin raise: its runner would fail."""
    for name, callback in list(vars(plugin).items()):
        if name.endswith("_callback"):
            setattr(plugin, name, _quiet(callback))
    return plugin


@quiet_callbacks
class RecordingPlugin(BasePlugin):  # type: ignore[misc]
    """Records what a runner does. Every callback returns None, which changes nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._agents: dict[
            object, list[tuple[object, ...]]
        ] = {}  # by invocation, in the order of their starts

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        self._end_agents(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        self._end_agents(invocation_context.invocation_id, error)

    def _end_agents(self, invocation_id: object, error: Exception | None = None) -> None:
        """End the agents whose end was not reported, as that of one that has transferred to another."""
        for key in reversed(self._agents.pop(invocation_id, [])):
            calls.end((*key, "model"), error=error)
            calls.end(key, error=error)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        key = _agent_key(callback_context, agent.name)
        self._agents.setdefault(callback_context.invocation_id, []).append(key)
        content = getattr(callback_context, "user_content", None)
        # Events are consumed in the context of the caller, which must not become part of the agent.
        self._begin(
            key, "agent", agent.name, _outer_agent(callback_context, agent), _parts(content), is_entered=False
        )

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        key, raised = _agent_key(callback_context, agent.name), sys.exception()
        error = raised if isinstance(raised, asyncio.CancelledError) else None
        calls.end((*key, "model"), error=error)
        calls.end(key, error=error)

    async def on_agent_error_callback(self, *, agent: Any, callback_context: Any, error: Exception) -> None:
        calls.end(_agent_key(callback_context, agent.name), error=error)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        name = callback_context.agent_name
        fields: dict[str, object] = {
            "operation": "generate_content",
            "provider": _provider(llm_request.model),
            "parameters": _parameters(llm_request),
        }
        given = [_message(content) for content in llm_request.contents]
        instructions = getattr(llm_request.config, "system_instruction", None)
        if isinstance(instructions, str) and instructions:
            given.insert(0, {"role": "system", "content": instructions})
        self._begin(
            (*_agent_key(callback_context, name), "model"),
            "model",
            llm_request.model or "model",
            _agent_key(callback_context, name),
            given,
            fields,
        )

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        key = (*_agent_key(callback_context, callback_context.agent_name), "model")
        if llm_response.partial:
            calls.chunk(key)
            return
        try:
            reason = llm_response.finish_reason
            fields: dict[str, object] = {
                "usage": _usage(llm_response.usage_metadata),
                "response_model": llm_response.model_version,
                "response_id": getattr(llm_response, "interaction_id", None),
                "finish_reasons": [str(getattr(reason, "value", reason))] if reason else None,
            }
            output = [_message(llm_response.content)] if llm_response.content else None
            error = llm_response.error_message or llm_response.error_code
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)
            fields, output, error = {}, None, None
        calls.end(key, output=output, fields=fields, error=error)

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> None:
        calls.end((*_agent_key(callback_context, callback_context.agent_name), "model"), error=error)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        parent = _agent_key(tool_context, tool_context.agent_name)
        fields = {"tool_call_id": tool_context.function_call_id}
        self._begin(_tool_key(tool_context), "tool", tool.name, parent, dict(tool_args), fields)

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        calls.end(_tool_key(tool_context), output=result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Exception
    ) -> None:
        calls.end(_tool_key(tool_context), error=error)

    def _begin(
        self,
        key: tuple[object, ...],
        kind: str,
        name: str,
        parent: tuple[object, ...] | None,
        given: object,
        fields: dict[str, object] | None = None,
        *,
        is_entered: bool = True,
    ) -> None:
        calls.begin(key, kind, name, parent=parent, input=given, fields=fields, is_entered=is_entered)


def _agent_key(context: Any, name: str) -> tuple[object, ...]:
    return context.invocation_id, name


def _tool_key(context: Any) -> tuple[object, ...]:
    return context.invocation_id, "tool", context.function_call_id


def _outer_agent(context: Any, agent: Any) -> tuple[object, ...] | None:
    """The nearest agent around this one that is running."""
    outer = agent.parent_agent
    while outer is not None:
        key = _agent_key(context, outer.name)
        if calls.is_open(key):
            return key
        outer = outer.parent_agent
    return None


def _provider(model: str | None) -> str | None:
    if not model:
        return None
    return "gcp.gemini" if "gemini" in model else model.rpartition("/")[0] or None


def _parameters(request: Any) -> dict[str, object] | None:
    config = request.config
    found = {name: value for name in PARAMETERS if (value := getattr(config, name, None)) is not None}
    tools = list(request.tools_dict)
    return {**found, "tools": tools} if tools else found or None


def _usage(usage: Any) -> ModelUsage | None:
    if usage is None or usage.prompt_token_count is None:
        return None
    thoughts = usage.thoughts_token_count
    return ModelUsage(
        input_tokens=usage.prompt_token_count,
        output_tokens=(usage.candidates_token_count or 0) + (thoughts or 0),  # Gemini counts them apart
        cache_read_tokens=usage.cached_content_token_count,
        reasoning_tokens=thoughts,
    )


def _message(content: Any) -> dict[str, object]:
    role = {"model": "assistant"}.get(content.role, content.role or "user")
    parts = [_part(part) for part in content.parts or ()]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return {"role": role, "content": parts[0]["text"]}
    return {"role": role, "content": parts}


def _part(part: Any) -> dict[str, object]:
    if part.function_call is not None:
        call = part.function_call
        return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
    if part.function_response is not None:
        response = part.function_response
        return {"type": "tool_result", "id": response.id, "result": response.response}
    if part.inline_data is not None:
        data = part.inline_data
        kind = (data.mime_type or "file").partition("/")[0]
        return {"type": kind, "media_type": data.mime_type, "bytes": len(data.data or b"")}
    return {"type": "reasoning" if part.thought else "text", "text": part.text or ""}


def _parts(content: Any) -> object:
    return None if content is None else {"user_content": _message(content)["content"]}


def _record_init(initialize: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialize)
    def recorded(self: Any, *args: Any, **options: Any) -> None:
        initialize(self, *args, **options)
        try:
            if self.plugin_manager.get_plugin("longwatch") is None:
                self.plugin_manager.register_plugin(RecordingPlugin(name="longwatch"))
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    return recorded


def install() -> None:
    """Add the plugin to every runner that is created from now on."""
    if not hasattr(Runner.__init__, "__wrapped__"):
        Runner.__init__ = _record_init(Runner.__init__)
