"""The events of a span of any dialect, in our terms."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.telemetry.dialect import SpanKind
from longwatch.telemetry.span_events import describe_span, outcome_of, read_span, title_of
from tests.unit.telemetry.spans import span


def described(name: str, attributes: dict[str, Any], *, ended: bool = True) -> dict[str, object]:
    return describe_span(read_span(name, attributes), span(name, attributes), ended=ended)


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


def test_the_outcome_states_failure_and_duration() -> None:
    failed = span(status=2, status_message="no such key")

    assert outcome_of(span()) == {"status": "completed", "duration_ms": 2500}
    assert outcome_of(failed) == {
        "status": "failed",
        "error_message": "no such key",
        "duration_ms": 2500,
    }
