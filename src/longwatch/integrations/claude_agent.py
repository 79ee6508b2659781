"""Records the Claude Agent SDK from its messages: queries, tools, subagents, model calls and approvals.

Claude Code runs in a process of its own. Its messages state when a tool is called and what it returned; a
model call is known only from its response, so it is timed from the first block of that to the last.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import claude_agent_sdk
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    ResultMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from longwatch.model.usage import ModelUsage
from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.calls import report_fault, reported_faults
from longwatch.recording.waiting import ActiveWait

AGENT_NAME = "claude"
SYNTHETIC = "<synthetic>"  # the model of messages that Claude Code writes itself

tracker = CallTracker("claude_agent")


class QueryRecord:
    """One query: an agent's call that the messages of Claude Code fill."""

    def __init__(self, prompt: object) -> None:
        self._model_id: object = None  # of the response whose blocks are arriving
        self._parts: list[dict[str, object]] = []
        self._response: AssistantMessage | None = None
        self._tools: dict[str, None] = {}  # that are running
        given = {"prompt": prompt} if isinstance(prompt, str) else None
        tracker.begin(self, "agent", AGENT_NAME, input=given)

    def add(self, message: object) -> None:
        """Record what a message states. Never raises."""
        try:
            if isinstance(message, AssistantMessage):
                self._add_response(message)
            elif isinstance(message, UserMessage):
                self._end_model()
                self._add_results(message)
            elif isinstance(message, ResultMessage):
                failure = message.result or ", ".join(message.errors or ()) or message.subtype
                fields = {"session_id": message.session_id, "turns": message.num_turns}
                self.end(output=message.result, error=failure if message.is_error else None, fields=fields)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def end(
        self,
        *,
        output: object = None,
        error: BaseException | str | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Record the end of the query once, and that of everything inside that is still open."""
        with reported_faults():
            self._end_model()
        for tool_id in self._tools:
            tracker.end((self, tool_id), error="the query ended before the tool")
        self._tools.clear()
        tracker.end(self, output=output, error=error, fields=fields)

    def _add_response(self, message: AssistantMessage) -> None:
        parent = (self, message.parent_tool_use_id) if message.parent_tool_use_id else self
        message_id = message.message_id or message.uuid
        if message_id is None or message_id != self._model_id:
            self._end_model()
            if message.model != SYNTHETIC:
                self._model_id = message_id or object()
                fields = {"provider": "anthropic"}
                tracker.begin((self, "model"), "model", message.model, parent=parent, fields=fields)
        self._response = message
        for block in message.content:
            self._parts.append(_part(block))
            if isinstance(block, ToolUseBlock):
                self._tools[block.id] = None
                fields = {"tool_call_id": block.id}
                tracker.begin(
                    (self, block.id), "tool", block.name, parent=parent, input=block.input, fields=fields
                )

    def _end_model(self) -> None:
        response, parts = self._response, self._parts
        self._model_id, self._response, self._parts = None, None, []
        if response is None or response.model == SYNTHETIC:
            return
        fields = {
            "usage": _usage(response.usage),
            "response_id": response.message_id,
            "response_model": response.model,
            "finish_reasons": [response.stop_reason] if response.stop_reason else None,
        }
        output = [{"role": "assistant", "content": parts}]
        tracker.end((self, "model"), output=output, error=response.error, fields=fields)

    def _add_results(self, message: UserMessage) -> None:
        for block in message.content if isinstance(message.content, list) else ():
            if isinstance(block, ToolResultBlock):
                self._tools.pop(block.tool_use_id, None)
                text = _text(block.content)
                error = str(text) if block.is_error else None
                tracker.end((self, block.tool_use_id), output=None if block.is_error else text, error=error)


def _part(block: object) -> dict[str, object]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingBlock):
        return {"type": "reasoning", "text": block.thinking}
    if isinstance(block, ToolUseBlock):
        return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input}
    return {"type": type(block).__name__}


def _text(content: object) -> object:
    """The text of a result that is text only."""
    texts = [each.get("text") for each in content] if isinstance(content, list) else [None]
    return "\n".join(map(str, texts)) if None not in texts else content


def _usage(usage: Mapping[str, Any] | None) -> ModelUsage | None:
    if not usage or usage.get("input_tokens") is None:
        return None
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    return ModelUsage(
        input_tokens=usage["input_tokens"] + (read or 0) + (written or 0),  # Anthropic counts them apart
        output_tokens=usage.get("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _with_waits(options: Any, record_of: Callable[[], QueryRecord | None]) -> Any:
    """The options, with a permission callback during which the run waits for an approval."""
    decide = options.can_use_tool if options is not None else None
    if decide is None:
        return options

    @functools.wraps(decide)
    async def recorded(tool_name: str, tool_input: dict[str, Any], context: Any) -> Any:
        record = record_of()
        tool = tracker.scope_of((record, context.tool_use_id)) if record is not None else None
        async with ActiveWait("approval", detail=tool_name, scope=tool or tracker.scope_of(record)):
            return await decide(tool_name, tool_input, context)

    return replace(options, can_use_tool=recorded)


_records: WeakKeyDictionary[Any, QueryRecord] = WeakKeyDictionary()  # the last query of each client


def _record_query(query: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(query)
    async def recorded(*, prompt: Any, options: Any = None, **others: Any) -> AsyncIterator[Any]:
        record = QueryRecord(prompt)
        try:
            asked = _with_waits(options, lambda: record)
            async for message in query(prompt=prompt, options=asked, **others):
                record.add(message)
                yield message
        except BaseException as error:
            record.end(error=None if isinstance(error, GeneratorExit) else error)
            raise
        record.end()

    return recorded


def _record_init(initialize: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialize)
    def recorded(self: Any, options: Any = None, *args: Any, **others: Any) -> None:
        initialize(self, _with_waits(options, lambda: _records.get(self)), *args, **others)

    return recorded


def _record_client_query(query: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(query)
    async def recorded(self: Any, prompt: Any, *args: Any, **options: Any) -> Any:
        before = _records.pop(self, None)
        if before is not None:
            before.end()
        _records[self] = QueryRecord(prompt)
        return await query(self, prompt, *args, **options)

    return recorded


def _record_messages(receive: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(receive)
    async def recorded(self: Any) -> AsyncIterator[Any]:
        try:
            async for message in receive(self):
                record = _records.get(self)
                if record is not None:
                    record.add(message)
                yield message
        except Exception as error:
            record = _records.pop(self, None)
            if record is not None:
                record.end(error=error)
            raise

    return recorded


def install() -> None:
    """Wrap the function and the methods of the client that return messages."""
    if not hasattr(ClaudeSDKClient.query, "__wrapped__"):
        claude_agent_sdk.query = _record_query(claude_agent_sdk.query)
        ClaudeSDKClient.__init__ = _record_init(ClaudeSDKClient.__init__)
        ClaudeSDKClient.query = _record_client_query(ClaudeSDKClient.query)
        ClaudeSDKClient.receive_messages = _record_messages(ClaudeSDKClient.receive_messages)
