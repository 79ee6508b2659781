"""The tables of the dialects, beside the constants of the packages that define them."""

from __future__ import annotations

import warnings
from typing import Any

import openinference.semconv.trace as arize
import opentelemetry.semconv_ai as openllmetry
import pytest

from longwatch.telemetry import genai, openinference, traceloop
from longwatch.telemetry.dialect import PROVIDERS, Dialect
from longwatch.telemetry.genai import GENAI
from longwatch.telemetry.openinference import OPENINFERENCE
from longwatch.telemetry.traceloop import TRACELOOP

with warnings.catch_warnings():  # the constants moved to a repository that has no Python package
    warnings.simplefilter("ignore", DeprecationWarning)
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes


def constants(*holders: Any) -> set[str]:
    return {
        value
        for holder in holders
        for name, value in vars(holder).items()
        if not name.startswith("_") and isinstance(value, str)
    }


def names_in(dialect: Dialect) -> set[str]:
    tables = (*dialect.fields.values(), *dialect.parameters.values(), *dialect.names.values())
    return {name for names in (*tables, dialect.kind_attributes) for name in names}


# In the conventions after the last release of the constants, or written by instrumentations before them.
GENAI_BEYOND_CONSTANTS = {
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "gen_ai.task.name",
    "gen_ai.memory.query.text",
    "gen_ai.memory.records",
}
TRACELOOP_BEYOND_CONSTANTS = {
    "llm.usage.prompt_tokens",
    "llm.usage.completion_tokens",
    "traceloop.association.properties.session_id",
}


def test_every_genai_name_is_one_of_the_conventions() -> None:
    defined = constants(gen_ai_attributes) | GENAI_BEYOND_CONSTANTS
    content = {genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.SYSTEM_INSTRUCTIONS, genai.TOOL_DEFINITIONS}

    assert names_in(GENAI) | content | {*genai.TOOL_INPUT, *genai.TOOL_OUTPUT} <= defined


def test_every_openinference_name_is_one_of_its_package() -> None:
    defined = constants(arize.SpanAttributes, arize.ToolCallAttributes, arize.RerankerAttributes)
    content = {
        openinference.INPUT_MESSAGES,
        openinference.OUTPUT_MESSAGES,
        openinference.OUTPUT_VALUE,
        openinference.INVOCATION_PARAMETERS,
        openinference.TOOLS,
        openinference.RETRIEVED,
        openinference.RERANKED,
        openinference.EMBEDDINGS,
        *openinference.TOOL_INPUT,
    }

    assert names_in(OPENINFERENCE) | content <= defined


def test_the_parts_of_openinference_lists_have_the_names_that_are_read() -> None:
    assert arize.MessageAttributes.MESSAGE_ROLE == "message.role"
    assert arize.MessageAttributes.MESSAGE_CONTENTS == "message.contents"
    assert arize.MessageAttributes.MESSAGE_TOOL_CALLS == "message.tool_calls"
    assert arize.MessageAttributes.MESSAGE_TOOL_CALL_ID == "message.tool_call_id"
    assert arize.MessageContentAttributes.MESSAGE_CONTENT_TEXT == "message_content.text"
    assert arize.MessageContentAttributes.MESSAGE_CONTENT_IMAGE == "message_content.image"
    assert arize.ImageAttributes.IMAGE_URL == "image.url"
    assert arize.ToolCallAttributes.TOOL_CALL_FUNCTION_NAME == "tool_call.function.name"
    assert arize.ToolAttributes.TOOL_JSON_SCHEMA == "tool.json_schema"
    assert arize.DocumentAttributes.DOCUMENT_CONTENT == "document.content"
    assert arize.EmbeddingAttributes.EMBEDDING_TEXT == "embedding.text"


def test_every_traceloop_name_is_one_of_its_package_or_of_the_conventions() -> None:
    defined = constants(openllmetry.SpanAttributes, gen_ai_attributes)
    content = {traceloop.ENTITY_INPUT, traceloop.ENTITY_OUTPUT, traceloop.PROPERTIES}

    assert names_in(TRACELOOP) | content <= defined | GENAI_BEYOND_CONSTANTS | TRACELOOP_BEYOND_CONSTANTS


@pytest.mark.parametrize(
    ("values", "dialect", "not_recorded"),
    [
        (gen_ai_attributes.GenAiOperationNameValues, GENAI, set()),
        (openllmetry.GenAICustomOperationName, GENAI, set()),
        (arize.OpenInferenceSpanKindValues, OPENINFERENCE, {"UNKNOWN"}),
        (openllmetry.TraceloopSpanKindValues, TRACELOOP, {"unknown"}),
        (openllmetry.LLMRequestTypeValues, TRACELOOP, {"unknown"}),
    ],
    ids=["genai", "openllmetry operations", "openinference", "traceloop", "traceloop requests"],
)
def test_every_kind_of_span_is_mapped(values: Any, dialect: Dialect, not_recorded: set[str]) -> None:
    assert {each.value for each in values} - set(dialect.operations) == not_recorded


def test_older_names_of_providers_become_those_of_the_conventions() -> None:
    current = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    older = {each.value for each in gen_ai_attributes.GenAiSystemValues} - current

    assert older <= set(PROVIDERS)
    assert set(PROVIDERS.values()) <= current
