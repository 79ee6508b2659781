"""What a span with GenAI names says, in our words."""

from __future__ import annotations

import pytest

from longwatch.integrations.genai import SpanKind, content_of, described, kind_of, title_of


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
        (SpanKind.AGENT, "invoke_agent x", {"gen_ai.agent.name": "Ada"}, "Ada"),
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
    assert described(SpanKind.TOOL, "execute_tool search", {}) == {"operation": "search"}
    assert described(SpanKind.AGENT, "invoke_agent Ada", {}) == {}


def test_the_older_name_of_the_provider_is_read_too() -> None:
    said = described(SpanKind.MODEL, "chat", {"gen_ai.system": "acme"})

    assert said["provider"] == "acme"


def test_every_kind_of_usage_is_kept() -> None:
    usage = {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.cache_read.input_tokens": 2}

    assert described(SpanKind.AGENT, "x", usage) == {"input_tokens": 1, "cache_read_input_tokens": 2}


def test_json_in_text_is_opened_and_other_text_stays() -> None:
    attributes = {"gen_ai.tool.call.arguments": ' {"a": 1}', "gen_ai.tool.call.result": "{oops"}

    assert content_of(attributes) == {"input": {"a": 1}, "output": "{oops"}
    assert content_of({"gen_ai.tool.call.arguments": "plain"}) == {"input": "plain"}
