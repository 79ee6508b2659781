"""The GenAI conventions of OpenTelemetry.

They are in development and their Python constants are deprecated, so the names are text here; a test compares
them with the constants. Older names of the same attributes are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.telemetry.dialect import Content, Dialect, SpanKind, SpanOperation, first_set
from longwatch.telemetry.messages import decode_json, messages_of, unflatten
from longwatch.telemetry.span import Attributes, SpanData, SpanEvents

OPERATION_NAME = "gen_ai.operation.name"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_MESSAGE, CHOICE = "gen_ai.tool.message", "gen_ai.choice"  # span events
MESSAGE_EVENTS: Mapping[str, str] = {  # span events of earlier versions -> role
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    TOOL_MESSAGE: "tool",
}

OPERATIONS: Mapping[str, SpanOperation] = {
    "invoke_workflow": SpanOperation(SpanKind.WORKFLOW),
    "invoke_agent": SpanOperation(SpanKind.AGENT),
    "execute_tool": SpanOperation(SpanKind.TOOL),
    "chat": SpanOperation(SpanKind.MODEL),
    "generate_content": SpanOperation(SpanKind.MODEL),
    "text_completion": SpanOperation(SpanKind.MODEL),
    "embeddings": SpanOperation(SpanKind.MODEL),
    "fetch_response": SpanOperation(SpanKind.MODEL),
    "retrieval": SpanOperation(SpanKind.TOOL, "retrieval"),
    "create_agent": SpanOperation(SpanKind.TOOL, "agent"),
    "search_memory": SpanOperation(SpanKind.TOOL, "memory"),
    "create_memory": SpanOperation(SpanKind.TOOL, "memory"),
    "update_memory": SpanOperation(SpanKind.TOOL, "memory"),
    "upsert_memory": SpanOperation(SpanKind.TOOL, "memory"),
    "delete_memory": SpanOperation(SpanKind.TOOL, "memory"),
    "create_memory_store": SpanOperation(SpanKind.TOOL, "memory"),
    "delete_memory_store": SpanOperation(SpanKind.TOOL, "memory"),
    "plan": SpanOperation(SpanKind.NODE, "plan"),
    "run_guardrail": SpanOperation(SpanKind.NODE, "guardrail"),
    "apply_guardrail": SpanOperation(SpanKind.NODE, "guardrail"),
    # Written by OpenLLMetry beside the operations of the conventions:
    "execute_task": SpanOperation(SpanKind.NODE, "task"),
    "llm_request": SpanOperation(SpanKind.MODEL, "chat"),
    "vector_db_retrieve": SpanOperation(SpanKind.TOOL, "retrieval"),
}
# Some frameworks set the attributes after the start; these prefixes of a span's name are unambiguous.
NAME_PREFIXES = ("invoke_workflow", "invoke_agent", "execute_tool")

NAMES: Mapping[SpanKind, tuple[str, ...]] = {
    SpanKind.WORKFLOW: ("gen_ai.workflow.name",),
    SpanKind.AGENT: ("gen_ai.agent.name",),
    SpanKind.TOOL: ("gen_ai.tool.name",),
    SpanKind.NODE: ("gen_ai.task.name",),
    SpanKind.MODEL: ("gen_ai.request.model",),
}
FIELDS: Mapping[str, tuple[str, ...]] = {
    "operation": (OPERATION_NAME,),
    "provider": ("gen_ai.provider.name", "gen_ai.system"),
    "model": ("gen_ai.request.model",),
    "response_model": ("gen_ai.response.model",),
    "response_id": ("gen_ai.response.id",),
    "finish_reasons": ("gen_ai.response.finish_reasons",),
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cache_read_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
    ),
    "time_to_first_token_seconds": ("gen_ai.response.time_to_first_chunk",),
    "agent_id": ("gen_ai.agent.id",),
    "tool_type": ("gen_ai.tool.type",),
    "tool_call_id": ("gen_ai.tool.call.id",),
    "conversation_id": ("gen_ai.conversation.id",),
}
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("gen_ai.request.temperature",),
    "max_tokens": ("gen_ai.request.max_tokens",),
    "top_p": ("gen_ai.request.top_p",),
    "top_k": ("gen_ai.request.top_k",),
    "stop_sequences": ("gen_ai.request.stop_sequences",),
    "frequency_penalty": ("gen_ai.request.frequency_penalty",),
    "presence_penalty": ("gen_ai.request.presence_penalty",),
    "seed": ("gen_ai.request.seed",),
    "stream": ("gen_ai.request.stream",),
    "choice_count": ("gen_ai.request.choice.count",),
    "output_type": ("gen_ai.output.type",),
    "dimensions": ("gen_ai.embeddings.dimension.count",),
}
# The input and the output of tools, of retrievals, and of operations on memory.
TOOL_INPUT = ("gen_ai.tool.call.arguments", "gen_ai.retrieval.query.text", "gen_ai.memory.query.text")
TOOL_OUTPUT = ("gen_ai.tool.call.result", "gen_ai.retrieval.documents", "gen_ai.memory.records")


def read_content(kind: SpanKind, span: SpanData) -> Content:
    """The arguments and result of a tool; the messages of anything else."""
    if kind is SpanKind.TOOL:
        return read_tool_content(span.attributes, span.events)
    return read_messages(span.attributes, span.events)


def read_tool_content(attributes: Attributes, events: SpanEvents) -> Content:
    """Attributes of the span, or, as in Strands, attributes of its events."""
    given, result = first_set(attributes, TOOL_INPUT), first_set(attributes, TOOL_OUTPUT)
    for event, found in ((None, attributes), *events):
        if given is None:
            given = (
                found.get("content")
                if event == TOOL_MESSAGE
                else _part(found.get(INPUT_MESSAGES), "tool_call", "arguments")
            )
        if result is None:
            result = (
                found.get("message")
                if event == CHOICE
                else _part(found.get(OUTPUT_MESSAGES), "tool_call_response", "response", "result")
            )
    return decode_json(given), decode_json(result)


def read_messages(attributes: Attributes, events: SpanEvents) -> Content:
    """The messages to and from a model: in attributes, in the details event, or an event for each."""
    given, result = attributes.get(INPUT_MESSAGES), attributes.get(OUTPUT_MESSAGES)
    instructions = attributes.get(SYSTEM_INSTRUCTIONS)
    sent: list[dict[str, object]] = []
    received: list[dict[str, object]] = []
    for name, found in events:
        given, result = given or found.get(INPUT_MESSAGES), result or found.get(OUTPUT_MESSAGES)
        instructions = instructions or found.get(SYSTEM_INSTRUCTIONS)
        if name in MESSAGE_EVENTS:
            sent += messages_of(found.get("content"), role=MESSAGE_EVENTS[name]) or []
        elif name == CHOICE:
            received += messages_of(found.get("message"), role="assistant") or []
    system = messages_of(instructions, role="system") or []
    before = messages_of(given, role="user") or sent or numbered_messages(attributes, "gen_ai.prompt", "user")
    after = (
        messages_of(result, role="assistant")
        or received
        or numbered_messages(attributes, "gen_ai.completion", "assistant")
    )
    return [*system, *before] or None, after or None


def numbered_messages(attributes: Attributes, prefix: str, role: str) -> list[dict[str, object]]:
    """The messages in `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content` and so on."""
    if f"{prefix}.0.role" not in attributes and f"{prefix}.0.content" not in attributes:
        return []  # as usual; searching every attribute costs more
    return [each for found in unflatten(attributes, prefix) for each in messages_of([found], role=role) or []]


def read_parameters(attributes: Attributes) -> Mapping[str, object]:
    """The names of the tools that a model may call."""
    definitions = decode_json(attributes.get(TOOL_DEFINITIONS))
    names = [_definition_name(each) for each in definitions] if isinstance(definitions, list) else []
    return {"tools": [name for name in names if name]} if any(names) else {}


def _definition_name(definition: Any) -> str | None:
    if not isinstance(definition, Mapping):
        return None
    inner = definition.get("function")
    name = (inner if isinstance(inner, Mapping) else definition).get("name")
    return name if isinstance(name, str) else None


def _part(messages: object, type: str, *fields: str) -> object:
    """A field of the first part of this type, in messages as the conventions encode them."""
    decoded = decode_json(messages)
    for message in decoded if isinstance(decoded, list) else ():
        parts = message.get("parts") if isinstance(message, Mapping) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping) and part.get("type") == type:
                return next((part[field] for field in fields if part.get(field) is not None), None)
    return None


GENAI = Dialect(
    name="genai",
    kind_attributes=(OPERATION_NAME,),
    operations=OPERATIONS,
    names=NAMES,
    fields=FIELDS,
    parameters=PARAMETERS,
    read_content=read_content,
    read_parameters=read_parameters,
)
