"""What a span with GenAI names says, in our words."""

from __future__ import annotations

import pytest

from longwatch.integrations.genai import SpanKind, content_of, describe_span, kind_of, title_of


@pytest.mark.parametrize(
    ("name", "operation", "kind"),
    [
        ("anything", "invoke_workflow", SpanKind.WORKFLOW),
        ("anything", "invoke_agent", SpanKind.AGENT),
        ("anything", "execute_tool", SpanKind.TOOL),
        ("anything", "chat", SpanKind.MODEL),
        ("anything", "generate_content", SpanKind.MODEL),
        ("anything", "text_completion", SpanKind.MODEL),
        ("anything", "embeddings", SpanKind.MODEL),
        ("create_agent Ada", "create_agent", SpanKind.OTHER),
        ("invoke_agent Ada", "something_new", SpanKind.OTHER),
        ("invoke_agent Ada", None, SpanKind.AGENT),
        ("execute_tool", None, SpanKind.TOOL),
        ("invoke_workflow nightly", None, SpanKind.WORKFLOW),
        ("chat with a friend", None, SpanKind.OTHER),  # a word that anybody may use
        ("GET /", None, SpanKind.OTHER),
    ],
)
def test_a_span_is_known_by_its_operation_or_by_a_telling_name(
    name: str, operation: str | None, kind: SpanKind
) -> None:
    attributes = {"gen_ai.operation.name": operation} if operation else {}

    assert kind_of(name, attributes) is kind


@pytest.mark.parametrize(
    ("kind", "name", "attributes", "title"),
    [
        (SpanKind.AGENT, "agent", {"gen_ai.agent.name": "Ada"}, "Ada"),
        (SpanKind.AGENT, "invoke_agent Ada", {"gen_ai.agent.name": "OpenAI Agent"}, "Ada"),
        (SpanKind.AGENT, "invoke_agent Ada Lovelace", {}, "Ada Lovelace"),
        (SpanKind.AGENT, "invoke_agent", {}, "invoke_agent"),
        (SpanKind.TOOL, "my tool", {}, "my tool"),
        (SpanKind.MODEL, "chat large", {}, "large"),
        (SpanKind.WORKFLOW, "x", {"gen_ai.workflow.name": "nightly"}, "nightly"),
        (SpanKind.OTHER, "GET /", {"gen_ai.agent.name": "Ada"}, "GET /"),
    ],
)
def test_a_title_comes_from_the_attributes_or_the_rest_of_the_name(
    kind: SpanKind, name: str, attributes: dict[str, object], title: str
) -> None:
    assert title_of(kind, name, attributes) == title


def test_what_is_not_told_is_left_out() -> None:
    assert describe_span(SpanKind.TOOL, "execute_tool search", {}, ended=True) == {"operation": "search"}
    assert describe_span(SpanKind.AGENT, "invoke_agent Ada", {}, ended=True) == {}


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
    assert describe_span(SpanKind.MODEL, name, attributes, ended=True).get("model") == model


def test_the_response_is_described_only_at_the_end() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "large-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.output_tokens": 6,
    }

    assert describe_span(SpanKind.MODEL, "chat", attributes, ended=False) == {"operation": "chat"}
    assert describe_span(SpanKind.MODEL, "chat", attributes, ended=True) == {
        "operation": "chat",
        "response_model": "large-2",
        "finish_reasons": ("stop",),
        "output_tokens": 6,
    }


def test_the_older_name_of_the_provider_is_read_too() -> None:
    said = describe_span(SpanKind.MODEL, "chat", {"gen_ai.system": "acme"}, ended=False)

    assert said["provider"] == "acme"


def test_every_kind_of_usage_is_kept() -> None:
    usage = {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.cache_read.input_tokens": 2}

    said = describe_span(SpanKind.AGENT, "x", usage, ended=True)

    assert said == {"input_tokens": 1, "cache_read_input_tokens": 2}


def test_json_in_text_is_opened_and_other_text_stays() -> None:
    attributes = {"gen_ai.tool.call.arguments": ' {"a": 1}', "gen_ai.tool.call.result": "{oops"}

    assert content_of(attributes, ended=True) == {"input": {"a": 1}, "output": "{oops"}
    assert content_of({"gen_ai.tool.call.arguments": "plain"}, ended=True) == {"input": "plain"}


TOOL_CALL = '[{"role": "tool", "parts": [{"type": "tool_call", "id": "t1", "arguments": {"a": 1}}]}]'
TOOL_RESPONSE = '[{"role": "tool", "parts": [{"type": "tool_call_response", "response": [{"text": "2"}]}]}]'
DETAILS = "gen_ai.client.inference.operation.details"


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.tool.call.arguments": '{"a": 1}', "gen_ai.tool.call.result": '[{"text": "2"}]'}, []),
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
    ids=["attributes", "messages in events", "details in events", "details in attributes"],
)
def test_a_tools_input_and_output_are_found_where_frameworks_put_them(
    attributes: dict[str, object], events: list[tuple[str, dict[str, object]]]
) -> None:
    assert content_of(attributes, events, ended=False) == {"input": {"a": 1}}
    assert content_of(attributes, events, ended=True) == {"input": {"a": 1}, "output": [{"text": "2"}]}


@pytest.mark.parametrize("messages", ["[1]", '[{"parts": 1}]', '[{"parts": [1]}]', "{}", "x", 1])
def test_messages_of_an_unknown_form_are_ignored(messages: object) -> None:
    assert content_of({"gen_ai.input.messages": messages}, ended=True) == {}
