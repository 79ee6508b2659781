"""OpenInference, the conventions of Arize: a span states its kind, and lists are spread over attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.telemetry.dialect import Content, Dialect, SpanKind, SpanOperation, first_set
from longwatch.telemetry.messages import decode_json, merge_inner, message_of, unflatten
from longwatch.telemetry.span import Attributes, SpanData

SPAN_KIND = "openinference.span.kind"
INPUT_VALUE, OUTPUT_VALUE = "input.value", "output.value"
INPUT_MESSAGES, OUTPUT_MESSAGES = "llm.input_messages", "llm.output_messages"
INVOCATION_PARAMETERS, TOOLS = "llm.invocation_parameters", "llm.tools"
TOOL_INPUT = (INPUT_VALUE, "tool.parameters", "reranker.query")
RETRIEVED, RERANKED = "retrieval.documents", "reranker.output_documents"
EMBEDDINGS = "embedding.embeddings"

OPERATIONS: Mapping[str, SpanOperation] = {
    "CHAIN": SpanOperation(SpanKind.WORKFLOW),
    "AGENT": SpanOperation(SpanKind.AGENT),
    "TOOL": SpanOperation(SpanKind.TOOL),
    "LLM": SpanOperation(SpanKind.MODEL, "chat"),
    "EMBEDDING": SpanOperation(SpanKind.MODEL, "embeddings"),
    "RETRIEVER": SpanOperation(SpanKind.TOOL, "retrieval"),
    "RERANKER": SpanOperation(SpanKind.TOOL, "rerank"),
    "GUARDRAIL": SpanOperation(SpanKind.NODE, "guardrail"),
    "EVALUATOR": SpanOperation(SpanKind.NODE, "evaluator"),
    "PROMPT": SpanOperation(SpanKind.NODE, "prompt"),
    "DECISION": SpanOperation(SpanKind.MODEL, "decision"),
}
MODEL = (
    *("llm.request.model_name", "llm.model_name", "embedding.model_name"),
    *("decision.request.model_name", "decision.model_name"),
)
NAMES: Mapping[SpanKind, tuple[str, ...]] = {
    SpanKind.WORKFLOW: ("graph.node.name", "graph.node.id"),
    SpanKind.AGENT: ("agent.name",),
    SpanKind.TOOL: ("tool.name",),
    SpanKind.MODEL: MODEL,
}
FIELDS: Mapping[str, tuple[str, ...]] = {
    "provider": ("llm.provider", "llm.system", "decision.provider", "decision.system"),
    "model": MODEL,
    "response_model": ("llm.response.model_name", "decision.response.model_name"),
    "finish_reasons": ("llm.finish_reason",),
    "input_tokens": ("llm.token_count.prompt", "decision.token_count.input"),
    "output_tokens": ("llm.token_count.completion", "decision.token_count.output"),
    "cache_read_tokens": ("llm.token_count.prompt_details.cache_read",),
    "cache_write_tokens": ("llm.token_count.prompt_details.cache_write",),
    "reasoning_tokens": ("llm.token_count.completion_details.reasoning",),
    "tool_call_id": ("tool_call.id", "tool.id"),
    "conversation_id": ("session.id",),
}


def read_content(kind: SpanKind, span: SpanData) -> Content:
    """The messages of a model call; the input and output of anything else."""
    attributes = span.attributes
    given, result = attributes.get(INPUT_VALUE), attributes.get(OUTPUT_VALUE)
    if kind is SpanKind.MODEL:
        texts = _texts(attributes)
        if texts:
            return texts, None
        sent = _messages(attributes, INPUT_MESSAGES, "user")
        received = _messages(attributes, OUTPUT_MESSAGES, "assistant")
        return sent or decode_json(given), received or decode_json(result)
    if kind is SpanKind.TOOL:
        given = first_set(attributes, TOOL_INPUT)
        documents = _documents(attributes, RETRIEVED) or _documents(attributes, RERANKED)
        return decode_json(given), documents or decode_json(result)
    return decode_json(given), decode_json(result)


def _messages(attributes: Attributes, prefix: str, role: str) -> list[dict[str, object]]:
    return [
        message_of(_plain(each), role=role) for each in merge_inner(unflatten(attributes, prefix), "message")
    ]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the envelopes of its parts and of its tool calls."""
    contents = message.get("contents")
    if isinstance(contents, list):
        message = {**message, "content": merge_inner(contents, "message_content")}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message = {**message, "tool_calls": merge_inner(calls, "tool_call")}
    return message


def _texts(attributes: Attributes) -> list[dict[str, object]]:
    """The texts to embed, without their vectors."""
    embedded = merge_inner(unflatten(attributes, EMBEDDINGS), "embedding")
    return [{"role": "user", "content": each["text"]} for each in embedded if "text" in each]


def _documents(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    return merge_inner(unflatten(attributes, prefix), "document")


def read_parameters(attributes: Attributes) -> Mapping[str, object]:
    """The parameters, which are one JSON text, and the names of the tools that the model may call."""
    given = decode_json(first_set(attributes, (INVOCATION_PARAMETERS,)))
    parameters = {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    for large in ("messages", "tools", "model"):  # the messages and the model are recorded on their own
        parameters.pop(large, None)
    names = [_tool_name(each) for each in merge_inner(unflatten(attributes, TOOLS), "tool")]
    if any(names):
        parameters["tools"] = [name for name in names if name]
    return parameters


def _tool_name(tool: Mapping[str, Any]) -> str | None:
    schema = decode_json(tool.get("json_schema"))
    if not isinstance(schema, Mapping):
        return tool.get("name")
    function = schema.get("function")
    return (function if isinstance(function, Mapping) else schema).get("name")


OPENINFERENCE = Dialect(
    name="openinference",
    kind_attributes=(SPAN_KIND,),
    operations=OPERATIONS,
    names=NAMES,
    fields=FIELDS,
    parameters={},
    read_content=read_content,
    read_parameters=read_parameters,
)
