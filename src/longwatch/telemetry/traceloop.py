"""Traceloop's OpenLLMetry: spans of its decorators, and of its instrumentations before the GenAI conventions.

Its attributes are those of the GenAI conventions and some of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.telemetry import genai
from longwatch.telemetry.dialect import Content, Dialect, SpanKind, SpanOperation
from longwatch.telemetry.messages import decode_json
from longwatch.telemetry.span import SpanData

SPAN_KIND, REQUEST_TYPE = "traceloop.span.kind", "llm.request.type"
ENTITY_NAME, WORKFLOW_NAME = "traceloop.entity.name", "traceloop.workflow.name"
ENTITY_INPUT, ENTITY_OUTPUT = "traceloop.entity.input", "traceloop.entity.output"
PROPERTIES = "traceloop.association.properties"

OPERATIONS: Mapping[str, SpanOperation] = {
    "workflow": SpanOperation(SpanKind.WORKFLOW),
    "task": SpanOperation(SpanKind.NODE, "task"),
    "agent": SpanOperation(SpanKind.AGENT),
    "tool": SpanOperation(SpanKind.TOOL),
    # Of the request type:
    "chat": SpanOperation(SpanKind.MODEL, "chat"),
    "completion": SpanOperation(SpanKind.MODEL, "text_completion"),
    "embedding": SpanOperation(SpanKind.MODEL, "embeddings"),
    "rerank": SpanOperation(SpanKind.TOOL, "rerank"),
}
NAMES: Mapping[SpanKind, tuple[str, ...]] = {
    SpanKind.WORKFLOW: (ENTITY_NAME, WORKFLOW_NAME),
    SpanKind.AGENT: (ENTITY_NAME, "gen_ai.agent.name"),
    SpanKind.TOOL: (ENTITY_NAME, "gen_ai.tool.name"),
    SpanKind.NODE: (ENTITY_NAME,),
    SpanKind.MODEL: ("gen_ai.request.model",),
}
FIELDS: Mapping[str, tuple[str, ...]] = {
    **genai.FIELDS,
    "input_tokens": (*genai.FIELDS["input_tokens"], "llm.usage.prompt_tokens"),
    "output_tokens": (*genai.FIELDS["output_tokens"], "llm.usage.completion_tokens"),
    "reasoning_tokens": (*genai.FIELDS["reasoning_tokens"], "llm.usage.reasoning_tokens"),
    "finish_reasons": (
        *genai.FIELDS["finish_reasons"],
        "gen_ai.response.finish_reason",
        "llm.response.finish_reason",
    ),
    "conversation_id": (*genai.FIELDS["conversation_id"], f"{PROPERTIES}.session_id"),
}
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **genai.PARAMETERS,
    "stream": (*genai.PARAMETERS["stream"], "gen_ai.is_streaming", "llm.is_streaming"),
    "max_tokens": (*genai.PARAMETERS["max_tokens"], "gen_ai.request.max_completion_tokens"),
    "choice_count": (*genai.PARAMETERS["choice_count"], "gen_ai.request.n"),
    "reasoning_effort": ("gen_ai.request.reasoning_effort", "llm.request.reasoning_effort"),
    "top_k": (*genai.PARAMETERS["top_k"], "llm.top_k"),
    "frequency_penalty": (*genai.PARAMETERS["frequency_penalty"], "llm.frequency_penalty"),
    "presence_penalty": (*genai.PARAMETERS["presence_penalty"], "llm.presence_penalty"),
}


def read_content(kind: SpanKind, span: SpanData) -> Content:
    """The input and output of a decorated function; the messages of a model call."""
    given, result = span.attributes.get(ENTITY_INPUT), span.attributes.get(ENTITY_OUTPUT)
    if given is None and result is None:
        return genai.read_content(kind, span)
    return decode_json(given), decode_json(result)


TRACELOOP = Dialect(
    name="traceloop",
    kind_attributes=(SPAN_KIND, REQUEST_TYPE),
    operations=OPERATIONS,
    names=NAMES,
    fields=FIELDS,
    parameters=PARAMETERS,
    read_content=read_content,
    read_parameters=genai.read_parameters,
)
