"""The values in a span: arguments and results, messages and parameters, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.telemetry.span_events import content_of, read_span
from tests.unit.telemetry.spans import span

TOOL = {"gen_ai.operation.name": "execute_tool"}


def content(
    name: str, attributes: dict[str, Any], events: Any = (), *, ended: bool = True
) -> dict[str, object]:
    return content_of(read_span(name, attributes), span(name, attributes, events=events), ended=ended)


@pytest.mark.parametrize(
    ("attributes", "arguments", "result"),
    [
        (
            {**TOOL, "gen_ai.tool.call.arguments": ' {"a": 1}', "gen_ai.tool.call.result": "{oops"},
            {"a": 1},
            "{oops",
        ),
        ({**TOOL, "gen_ai.tool.call.arguments": {"a": 1}, "gen_ai.tool.call.result": 2}, {"a": 1}, 2),
        (
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.query.text": "tides",
                "gen_ai.retrieval.documents": '[{"id": "d"}]',
            },
            "tides",
            [{"id": "d"}],
        ),
        (
            {"openinference.span.kind": "TOOL", "input.value": '{"a": 1}', "output.value": "2"},
            {"a": 1},
            "2",
        ),
        (
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "tides",
                "retrieval.documents.0.document.id": "d",
                "retrieval.documents.1.document.id": "e",
                "output.value": "ignored",
            },
            "tides",
            [{"id": "d"}, {"id": "e"}],
        ),
        (
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.input": '{"a": 1}',
                "traceloop.entity.output": "2",
            },
            {"a": 1},
            "2",
        ),
    ],
)
def test_arguments_and_results_are_read_in_every_dialect(
    attributes: dict[str, Any], arguments: object, result: object
) -> None:
    assert content("x", attributes) == {"input": arguments, "output": result}
    assert content("x", attributes, ended=False) == {"input": arguments}


TOOL_CALL = '[{"role": "tool", "parts": [{"type": "tool_call", "id": "t1", "arguments": {"a": 1}}]}]'
TOOL_RESPONSE = '[{"role": "tool", "parts": [{"type": "tool_call_response", "response": [{"text": "2"}]}]}]'
DETAILS = "gen_ai.client.inference.operation.details"


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        (
            {},
            [
                ("gen_ai.tool.message", {"content": '{"a": 1}'}),
                ("gen_ai.choice", {"message": '[{"text": "2"}]'}),
            ],
        ),
        (
            {},
            [
                (DETAILS, {"gen_ai.input.messages": TOOL_CALL}),
                (DETAILS, {"gen_ai.output.messages": TOOL_RESPONSE}),
            ],
        ),
        ({"gen_ai.input.messages": TOOL_CALL, "gen_ai.output.messages": TOOL_RESPONSE}, []),
    ],
    ids=["messages in events", "details in events", "details in attributes"],
)
def test_a_tools_input_and_output_are_found_where_frameworks_put_them(
    attributes: dict[str, object], events: list[tuple[str, dict[str, object]]]
) -> None:
    found = content("x", {**TOOL, **attributes}, events)

    assert found == {"input": {"a": 1}, "output": [{"text": "2"}]}


@pytest.mark.parametrize("messages", ["[1]", '[{"parts": 1}]', '[{"parts": [1]}]', "{}", "x", 1])
def test_messages_of_an_unknown_form_are_not_arguments(messages: object) -> None:
    assert content("x", {**TOOL, "gen_ai.input.messages": messages}) == {}


CHAT = {"gen_ai.operation.name": "chat"}
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1+2?"},
]
ANSWERED = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Adding."},
            {"type": "tool_call", "id": "t1", "name": "add", "arguments": {"a": 1}},
        ],
    }
]


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        (
            {
                **CHAT,
                "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
                "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "1+2?"}]}]',
                "gen_ai.output.messages": '[{"role": "assistant", "finish_reason": "tool_calls", "parts": ['
                '{"type": "text", "content": "Adding."},'
                '{"type": "tool_call", "id": "t1", "name": "add", "arguments": {"a": 1}}]}]',
            },
            [],
        ),
        (
            CHAT,
            [
                ("gen_ai.system.message", {"content": "Be brief."}),
                ("gen_ai.user.message", {"content": '[{"text": "1+2?"}]'}),
                (
                    "gen_ai.choice",
                    {
                        "message": '[{"text": "Adding."}, '
                        '{"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 1}}}]'
                    },
                ),
            ],
        ),
        (
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "system",
                "gen_ai.prompt.0.content": "Be brief.",
                "gen_ai.prompt.1.role": "user",
                "gen_ai.prompt.1.content": "1+2?",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "Adding.",
                "gen_ai.completion.0.tool_calls.0.id": "t1",
                "gen_ai.completion.0.tool_calls.0.name": "add",
                "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 1}',
            },
            [],
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "system",
                "llm.input_messages.0.message.content": "Be brief.",
                "llm.input_messages.1.message.role": "user",
                "llm.input_messages.1.message.contents.0.message_content.type": "text",
                "llm.input_messages.1.message.contents.0.message_content.text": "1+2?",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": "Adding.",
                "llm.output_messages.0.message.tool_calls.0.tool_call.id": "t1",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "add",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
                "input.value": "ignored",
            },
            [],
        ),
    ],
    ids=["genai", "events", "traceloop", "openinference"],
)
def test_messages_have_one_shape(attributes: dict[str, Any], events: Any) -> None:
    assert content("chat", attributes, events) == {"input": ASKED, "output": ANSWERED}


@pytest.mark.parametrize(
    "attributes",
    [
        {
            **CHAT,
            "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "blob", "modality": "image", '
            '"mime_type": "image/png", "content": "QUJDRA=="}]}]',
        },
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "image",
            "llm.input_messages.0.message.contents.0.message_content.image.image.url": "data:image/png;"
            "base64,QUJDRA==",
        },
    ],
)
def test_an_image_is_recorded_by_type_and_size_only(attributes: dict[str, Any]) -> None:
    image = {"type": "image", "media_type": "image/png", "bytes": 4}

    assert content("chat", attributes)["input"] == [{"role": "user", "content": [image]}]


@pytest.mark.parametrize(
    ("attributes", "parameters"),
    [
        (
            {
                **CHAT,
                "gen_ai.request.temperature": 0.5,
                "gen_ai.request.max_tokens": 9,
                "gen_ai.tool.definitions": '[{"type": "function", "name": "add"}]',
            },
            {"temperature": 0.5, "max_tokens": 9, "tools": ["add"]},
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "llm.invocation_parameters": '{"temperature": 0.5, "model": "large", "messages": []}',
                "llm.tools.0.tool.json_schema": '{"type": "function", "function": {"name": "add"}}',
            },
            {"temperature": 0.5, "tools": ["add"]},
        ),
        ({"llm.request.type": "chat", "gen_ai.is_streaming": True}, {"stream": True}),
    ],
)
def test_the_parameters_of_a_model_call_are_read_in_every_dialect(
    attributes: dict[str, Any], parameters: dict[str, object]
) -> None:
    assert content("chat", attributes, ended=False)["parameters"] == parameters


def test_a_tool_result_in_the_conversation_keeps_its_call() -> None:
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "tool",
        "gen_ai.prompt.0.content": "3",
        "gen_ai.prompt.0.tool_call_id": "t1",
    }

    result = {"type": "tool_result", "id": "t1", "result": "3"}
    assert content("chat", attributes)["input"] == [{"role": "tool", "content": [result]}]
