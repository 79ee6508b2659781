"""Records the client `openai`: chat completions, responses, completions and embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longwatch.integrations.client_calls import (
    Message,
    ModelResponse,
    parameters_of,
    plain,
    read,
)
from longwatch.integrations.generated_clients import ClientApi, ClientLibrary
from longwatch.recording.model_calls import ModelUsage
from longwatch.telemetry.messages import message_of, part_of

CONTENT_FIELDS = (
    *("model", "messages", "input", "instructions", "prompt"),
    *("tools", "functions", "stream_options"),
)
INCOMPLETE = {"max_output_tokens": "length"}


def install() -> None:
    """Record every client, those that exist already included."""
    import openai

    LIBRARY.install(openai.OpenAI, openai.AsyncOpenAI)


def read_parameters(body: Mapping[str, Any]) -> dict[str, object]:
    found = parameters_of(body, content=CONTENT_FIELDS)
    tools = [
        read(tool, "name") or read(read(tool, "function"), "name") or read(tool, "type")
        for tool in body.get("tools") or ()
    ]
    return {**found, "tools": tools} if tools else found


# Chat completions


def read_chat_input(body: Mapping[str, Any]) -> list[Message]:
    return [message_of(plain(each), role="user") for each in body.get("messages") or ()]


def read_chat_response(response: object) -> ModelResponse:
    choices = read(response, "choices") or ()
    return ModelResponse(
        response_id=read(response, "id"),
        response_model=read(response, "model"),
        finish_reasons=_reasons(read(choice, "finish_reason") for choice in choices),
        usage=read_chat_usage(read(response, "usage")),
        output=[_choice_message(choice) for choice in choices],
    )


def _choice_message(choice: object) -> Message:
    given = plain(read(choice, "message"))
    if not isinstance(given, Mapping):  # of the completions API
        return message_of(read(choice, "text"), role="assistant")
    return message_of({**given, "content": given.get("content") or given.get("refusal")}, role="assistant")


def read_chat_usage(usage: object) -> ModelUsage | None:
    if usage is None:
        return None
    prompt, completion = read(usage, "prompt_tokens_details"), read(usage, "completion_tokens_details")
    return ModelUsage(
        input_tokens=read(usage, "prompt_tokens"),
        output_tokens=read(usage, "completion_tokens"),
        cache_read_tokens=read(prompt, "cached_tokens"),
        cache_write_tokens=read(prompt, "cache_write_tokens"),
        reasoning_tokens=read(completion, "reasoning_tokens"),
    )


def _reasons(reasons: Iterable[object]) -> list[str] | None:
    return [str(reason) for reason in reasons if reason] or None


class _Choice:
    """A choice of a stream so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}
        self.reason: str | None = None

    def message(self) -> Message:
        calls = [{**call, "arguments": "".join(call["arguments"])} for call in self.calls.values()]
        return message_of({"content": "".join(self.text), "tool_calls": calls}, role="assistant")


class ChatStream:
    """Collects the chunks of a chat completion or a completion."""

    def __init__(self) -> None:
        self._head = ModelResponse()
        self._choices: dict[int, _Choice] = {}
        self._usage: ModelUsage | None = None

    def add(self, chunk: object) -> bool:
        if self._head.response_id is None:
            self._head = ModelResponse(response_id=read(chunk, "id"), response_model=read(chunk, "model"))
        self._usage = read_chat_usage(read(chunk, "usage")) or self._usage
        added = [self._add_choice(choice) for choice in read(chunk, "choices") or ()]
        return any(added)

    def _add_choice(self, choice: object) -> bool:
        state = self._choices.setdefault(read(choice, "index") or 0, _Choice())
        state.reason = read(choice, "finish_reason") or state.reason
        delta = read(choice, "delta")
        text = read(delta, "content") or read(delta, "refusal") or read(choice, "text")
        if text:
            state.text.append(text)
        calls = read(delta, "tool_calls") or ()
        for call in calls:
            function = read(call, "function")
            new = {"id": read(call, "id"), "name": read(function, "name"), "arguments": []}
            known = state.calls.setdefault(read(call, "index") or 0, new)
            known["arguments"].append(read(function, "arguments") or "")
        return bool(text or calls)

    def response(self) -> ModelResponse:
        choices = self._choices.values()
        return ModelResponse(
            response_id=self._head.response_id,
            response_model=self._head.response_model,
            finish_reasons=_reasons(choice.reason for choice in choices),
            usage=self._usage,
            output=[choice.message() for choice in choices],
        )


def read_prompt(body: Mapping[str, Any]) -> list[Message]:
    """The prompts or inputs of a request without messages; tokens that are given as numbers are left out."""
    given = body.get("prompt") or body.get("input") or ()
    texts = [given] if isinstance(given, str) else given
    return [message_of(text, role="user") for text in texts if isinstance(text, str)]


# Responses


def read_responses_input(body: Mapping[str, Any]) -> list[Message]:
    given = body.get("input")
    items = [given] if isinstance(given, str) else given or ()
    instructions = body.get("instructions")
    system = [message_of(instructions, role="system")] if isinstance(instructions, str) else []
    return [*system, *(read_item(item) for item in items)]


def read_item(item: object) -> Message:
    """An item of the responses API as a message."""
    value: Any = plain(item)
    kind = str(read(value, "type") or "message")
    if kind == "reasoning":
        texts = [read(part, "text") or "" for part in read(value, "summary") or ()]
        return {"role": "assistant", "content": [{"type": "reasoning", "text": "\n".join(texts)}]}
    if kind.endswith("_call_output"):
        return message_of({"tool_call_id": value.get("call_id"), "content": value.get("output")}, role="tool")
    if kind.endswith("_call"):
        call = {
            "id": value.get("call_id") or value.get("id"),
            "name": value.get("name") or kind.removesuffix("_call"),
            "arguments": value.get("arguments") or value.get("input") or value.get("action"),
        }
        return {"role": "assistant", "content": [part_of({"type": "tool_call", **call})]}
    return message_of(value, role="user")


def read_response(response: object) -> ModelResponse:
    """A response of the responses API. It has no finish reason of its own."""
    items = read(response, "output") or ()
    reason = read(read(response, "incomplete_details"), "reason")
    calls = any(str(read(item, "type")).endswith("_call") for item in items)
    reason = INCOMPLETE.get(reason, reason) or ("tool_calls" if calls else "stop")
    usage = read(response, "usage")
    return ModelResponse(
        response_id=read(response, "id"),
        response_model=read(response, "model"),
        finish_reasons=[reason] if read(response, "status") in ("completed", "incomplete") else None,
        usage=None if usage is None else _responses_usage(usage),
        output=[read_item(item) for item in items],
    )


def _responses_usage(usage: object) -> ModelUsage:
    given, made = read(usage, "input_tokens_details"), read(usage, "output_tokens_details")
    return ModelUsage(
        input_tokens=read(usage, "input_tokens"),
        output_tokens=read(usage, "output_tokens"),
        cache_read_tokens=read(given, "cached_tokens"),
        cache_write_tokens=read(given, "cache_write_tokens"),
        reasoning_tokens=read(made, "reasoning_tokens"),
    )


class ResponseStream:
    """Collects the events of a response. Its last event has the whole response."""

    def __init__(self) -> None:
        self._response: object = None
        self._items: list[object] = []  # that are complete
        self._text: list[str] = []  # of the item that is not

    def add(self, event: object) -> bool:
        kind = str(read(event, "type"))
        whole = read(event, "response")
        if whole is not None:
            self._response = whole
        elif kind == "response.output_text.delta":
            self._text.append(read(event, "delta") or "")
        elif kind == "response.output_item.done":
            self._items.append(read(event, "item"))
            self._text.clear()
        return kind.endswith(".delta")

    def response(self) -> ModelResponse:
        response = read_response(self._response)
        if response.output:
            return response
        output = [read_item(item) for item in self._items]
        if self._text:
            output.append(message_of("".join(self._text), role="assistant"))
        return ModelResponse(response.response_id, response.response_model, output=output)


LIBRARY = ClientLibrary(
    "openai",
    (
        ClientApi(
            "/chat/completions", "chat", read_chat_input, read_parameters, read_chat_response, ChatStream
        ),
        ClientApi("/responses", "chat", read_responses_input, read_parameters, read_response, ResponseStream),
        ClientApi(
            "/completions", "text_completion", read_prompt, read_parameters, read_chat_response, ChatStream
        ),
        ClientApi("/embeddings", "embeddings", read_prompt, read_parameters, read_chat_response),
    ),
)
