"""The events of a span of any dialect, in our terms."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.telemetry.dialect import SpanKind
from longwatch.telemetry.span_events import content_of, describe_span, outcome_of, read_span, title_of
from tests.unit.telemetry.spans import span


def described(name: str, attributes: dict[str, Any], *, ended: bool = True) -> dict[str, object]:
    return describe_span(read_span(name, attributes), span(name, attributes), ended=ended)


def content(
    name: str, attributes: dict[str, Any], events: Any = (), *, ended: bool = True
) -> dict[str, object]:
    return content_of(read_span(name, attributes), span(name, attributes, events=events), ended=ended)


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        ("anything", {"gen_ai.operation.name": "invoke_workflow"}, SpanKind.WORKFLOW),
        ("anything", {"gen_ai.operation.name": "invoke_agent"}, SpanKind.AGENT),
        ("anything", {"gen_ai.operation.name": "execute_tool"}, SpanKind.TOOL),
        ("anything", {"gen_ai.operation.name": "chat"}, SpanKind.MODEL),
        ("anything", {"gen_ai.operation.name": "embeddings"}, SpanKind.MODEL),
        ("anything", {"gen_ai.operation.name": "retrieval"}, SpanKind.TOOL),
        ("anything", {"gen_ai.operation.name": "search_memory"}, SpanKind.TOOL),
        ("create_agent Ada", {"gen_ai.operation.name": "create_agent"}, SpanKind.TOOL),
        ("plan", {"gen_ai.operation.name": "plan"}, SpanKind.NODE),
        ("x", {"gen_ai.operation.name": "run_guardrail"}, SpanKind.NODE),
        ("invoke_agent Ada", {"gen_ai.operation.name": "something_new"}, SpanKind.OTHER),
        ("invoke_agent Ada", {}, SpanKind.AGENT),
        ("execute_tool", {}, SpanKind.TOOL),
        ("invoke_workflow nightly", {}, SpanKind.WORKFLOW),
        ("chat with a friend", {}, SpanKind.OTHER),  # a word that any program may use
        ("GET /", {}, SpanKind.OTHER),
        ("x", {"openinference.span.kind": "LLM"}, SpanKind.MODEL),
        ("x", {"openinference.span.kind": "CHAIN"}, SpanKind.WORKFLOW),
        ("x", {"openinference.span.kind": "UNKNOWN"}, SpanKind.OTHER),
        ("x", {"openinference.span.kind": "UNKNOWN", "gen_ai.operation.name": "chat"}, SpanKind.MODEL),
        ("x", {"traceloop.span.kind": "task"}, SpanKind.NODE),
        ("x.chat", {"llm.request.type": "completion"}, SpanKind.MODEL),
        ("x", {"traceloop.span.kind": 3}, SpanKind.OTHER),
    ],
)
def test_a_span_is_recognised_by_its_kind_or_by_an_unambiguous_name(
    name: str, attributes: dict[str, Any], kind: SpanKind
) -> None:
    assert read_span(name, attributes).kind is kind


AGENT, TOOL = {"gen_ai.operation.name": "invoke_agent"}, {"gen_ai.operation.name": "execute_tool"}


@pytest.mark.parametrize(
    ("name", "attributes", "title"),
    [
        ("agent", {**AGENT, "gen_ai.agent.name": "Ada"}, "Ada"),
        ("invoke_agent Ada", {**AGENT, "gen_ai.agent.name": "OpenAI Agent"}, "Ada"),
        ("invoke_agent Ada Lovelace", AGENT, "Ada Lovelace"),
        ("invoke_agent", AGENT, "invoke_agent"),
        ("my tool", TOOL, "my tool"),
        ("chat large", {"gen_ai.operation.name": "chat"}, "large"),
        ("x", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "nightly"}, "nightly"),
        ("GET /", {"gen_ai.agent.name": "Ada"}, "GET /"),
        ("search_memory prefs", {"gen_ai.operation.name": "search_memory"}, "search_memory prefs"),
        ("AgentExecutor", {"openinference.span.kind": "AGENT", "agent.name": "Ada"}, "Ada"),
        ("AgentExecutor", {"openinference.span.kind": "AGENT"}, "AgentExecutor"),
        ("search.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}, "search"),
    ],
)
def test_a_title_comes_from_the_attributes_or_the_name(
    name: str, attributes: dict[str, Any], title: str
) -> None:
    assert title_of(read_span(name, attributes), name, attributes) == title


def test_unknown_values_are_omitted() -> None:
    assert described("execute_tool search", {}) == {"operation": "search"}
    assert described("invoke_agent Ada", {}) == {}


@pytest.mark.parametrize(
    ("name", "attributes", "model"),
    [
        ("chat", {}, None),
        ("ask the model", {}, None),
        ("chat large", {}, "large"),
        ("chat", {"gen_ai.request.model": "large"}, "large"),
        ("chat short", {"gen_ai.request.model": "large"}, "large"),
    ],
)
def test_a_model_is_named_by_the_request_or_not_at_all(
    name: str, attributes: dict[str, object], model: str | None
) -> None:
    assert described(name, {"gen_ai.operation.name": "chat", **attributes}).get("model") == model


GENAI_CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "large",
    "gen_ai.response.model": "large-2",
    "gen_ai.response.id": "r-1",
    "gen_ai.response.finish_reasons": ("stop",),
    "gen_ai.usage.input_tokens": 20,
    "gen_ai.usage.output_tokens": 6,
    "gen_ai.usage.cache_read.input_tokens": 9,
    "gen_ai.usage.cache_creation.input_tokens": 4,
    "gen_ai.usage.reasoning.output_tokens": 3,
    "gen_ai.conversation.id": "c-1",
}
OPENINFERENCE_CALL = {
    "openinference.span.kind": "LLM",
    "llm.provider": "openai",
    "llm.request.model_name": "large",
    "llm.response.model_name": "large-2",
    "llm.finish_reason": "stop",
    "llm.token_count.prompt": 20,
    "llm.token_count.completion": 6,
    "llm.token_count.prompt_details.cache_read": 9,
    "llm.token_count.prompt_details.cache_write": 4,
    "llm.token_count.completion_details.reasoning": 3,
    "session.id": "c-1",
}
TRACELOOP_CALL = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "large",
    "gen_ai.response.model": "large-2",
    "gen_ai.response.id": "r-1",
    "gen_ai.response.finish_reason": "stop",
    "gen_ai.usage.prompt_tokens": 20,
    "gen_ai.usage.completion_tokens": 6,
    "gen_ai.usage.cache_read_input_tokens": 9,
    "gen_ai.usage.cache_creation_input_tokens": 4,
    "llm.usage.reasoning_tokens": 3,
    "traceloop.association.properties.session_id": "c-1",
}
CALL = {
    "operation": "chat",
    "provider": "openai",
    "model": "large",
    "recorded_by": "otel",
    "conversation_id": "c-1",
}
RESPONSE = {
    "response_model": "large-2",
    "response_id": "r-1",
    "finish_reasons": ["stop"],
    "input_tokens": 20,
    "output_tokens": 6,
    "cache_read_tokens": 9,
    "cache_write_tokens": 4,
    "reasoning_tokens": 3,
}


@pytest.mark.parametrize(
    ("attributes", "unknown"),
    [(GENAI_CALL, set()), (OPENINFERENCE_CALL, {"response_id"}), (TRACELOOP_CALL, set())],
    ids=["genai", "openinference", "traceloop"],
)
def test_a_model_call_reads_the_same_in_every_dialect(attributes: dict[str, Any], unknown: set[str]) -> None:
    response = {name: value for name, value in RESPONSE.items() if name not in unknown}

    assert described("chat", attributes, ended=False) == CALL
    assert described("chat", attributes) == {**CALL, **response}


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
    ],
)
def test_tokens_written_to_the_cache_have_one_name(name: str) -> None:
    found = described("chat", {"gen_ai.operation.name": "chat", name: 7})

    assert found["cache_write_tokens"] == 7


@pytest.mark.parametrize(
    ("value", "count"),
    [(7, 7), (0, 0), (7.0, 7), ("7", 7), (7.5, None), (-1, None), (True, None), ("x", None)],
)
def test_a_token_count_is_a_whole_number_or_unknown(value: object, count: int | None) -> None:
    found = described("chat", {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": value})

    assert found.get("input_tokens") == count


@pytest.mark.parametrize(
    ("given", "provider"),
    [("gemini", "gcp.gemini"), ("OpenAI", "openai"), ("az.ai.openai", "azure.ai.openai"), ("acme", "acme")],
)
def test_a_provider_has_the_name_of_the_conventions(given: str, provider: str) -> None:
    assert (
        described("chat", {"gen_ai.operation.name": "chat", "gen_ai.system": given})["provider"] == provider
    )


def test_the_time_to_the_first_token_is_in_milliseconds() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": 0.25}

    assert described("chat", attributes)["time_to_first_token_ms"] == 250


@pytest.mark.parametrize(
    ("name", "attributes", "payload"),
    [
        (
            "retrieval docs",
            {"gen_ai.operation.name": "retrieval"},
            {"operation": "retrieval docs", "system": "retrieval"},
        ),
        (
            "Retriever",
            {"openinference.span.kind": "RETRIEVER"},
            {"operation": "Retriever", "system": "retrieval"},
        ),
        (
            "search_memory p",
            {"gen_ai.operation.name": "search_memory"},
            {"operation": "search_memory p", "system": "memory"},
        ),
        (
            "create_agent Ada",
            {"gen_ai.operation.name": "create_agent"},
            {"operation": "create_agent Ada", "system": "agent"},
        ),
        ("plan trip", {"gen_ai.operation.name": "plan"}, {"node_name": "plan trip", "node_type": "plan"}),
        ("guard", {"openinference.span.kind": "GUARDRAIL"}, {"node_name": "guard", "node_type": "guardrail"}),
        (
            "fetch.task",
            {"traceloop.span.kind": "task", "traceloop.entity.name": "fetch"},
            {"node_name": "fetch", "node_type": "task"},
        ),
        ("invoke_workflow nightly", {}, {"node_name": "nightly"}),
    ],
)
def test_other_operations_are_tool_calls_or_nodes_of_a_type(
    name: str, attributes: dict[str, Any], payload: dict[str, object]
) -> None:
    assert described(name, attributes) == payload


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


def test_the_outcome_states_failure_and_duration() -> None:
    failed = span(status=2, status_message="no such key")

    assert outcome_of(span()) == {"status": "completed", "duration_ms": 2500}
    assert outcome_of(failed) == {
        "status": "failed",
        "error_message": "no such key",
        "duration_ms": 2500,
    }
