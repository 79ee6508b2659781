"""Translates spans with the GenAI attributes of OpenTelemetry to events.

The conventions are still in development and their Python constants are deprecated, so this module defines the
names as text. It does not need OpenTelemetry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum

OPERATION_NAME = "gen_ai.operation.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME, AGENT_ID = "gen_ai.agent.name", "gen_ai.agent.id"
CONVERSATION_ID = "gen_ai.conversation.id"
TOOL_NAME, TOOL_TYPE, TOOL_CALL_ID = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
TOOL_ARGUMENTS, TOOL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
PROVIDER_NAME, OLD_PROVIDER_NAME = "gen_ai.provider.name", "gen_ai.system"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
USAGE = "gen_ai.usage."  # input_tokens, output_tokens and further counts
ERROR_TYPE = "error.type"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
TOOL_MESSAGE, CHOICE = "gen_ai.tool.message", "gen_ai.choice"  # span events

Attributes = Mapping[str, object]
SpanEvents = Iterable[tuple[str, Attributes]]  # name and attributes


class SpanKind(StrEnum):
    """What a span represents."""

    WORKFLOW = "workflow"
    AGENT = "agent"
    TOOL = "tool"
    MODEL = "model"
    OTHER = "other"


OPERATIONS: Mapping[str, SpanKind] = {
    "invoke_workflow": SpanKind.WORKFLOW,
    "invoke_agent": SpanKind.AGENT,
    "execute_tool": SpanKind.TOOL,
    "chat": SpanKind.MODEL,
    "generate_content": SpanKind.MODEL,
    "text_completion": SpanKind.MODEL,
    "embeddings": SpanKind.MODEL,
}
# Some frameworks set the attributes after the start; these prefixes of a span's name are unambiguous.
_NAME_PREFIXES = ("invoke_workflow", "invoke_agent", "execute_tool")

EVENT_TYPES: Mapping[SpanKind, tuple[str, str]] = {  # of its start and its end
    SpanKind.WORKFLOW: ("node_start", "node_stop"),  # inside a run; otherwise it is the run
    SpanKind.AGENT: ("agent_start", "agent_end"),
    SpanKind.TOOL: ("tool_call", "tool_call"),
    SpanKind.MODEL: ("model_call", "model_call"),
    SpanKind.OTHER: ("span", "span"),
}


def kind_of(name: str, attributes: Attributes) -> SpanKind:
    """The kind of a span with this name and these attributes."""
    operation = attributes.get(OPERATION_NAME)
    if isinstance(operation, str):
        return OPERATIONS.get(operation, SpanKind.OTHER)
    first = name.partition(" ")[0]
    return OPERATIONS[first] if first in _NAME_PREFIXES else SpanKind.OTHER


def name_of(kind: SpanKind, name: str, attributes: Attributes) -> str | None:
    """The name of the agent, tool, model or workflow; None if the span does not state it.

    The conventions put it into the name of the span, `invoke_agent Ada`, which takes precedence: some
    instrumentations start every agent span with the same default attribute and set the real one at the end.
    """
    first, _, rest = name.partition(" ")
    if rest and OPERATIONS.get(first) is kind:
        return rest
    wanted = {
        SpanKind.WORKFLOW: WORKFLOW_NAME,
        SpanKind.AGENT: AGENT_NAME,
        SpanKind.TOOL: TOOL_NAME,
        SpanKind.MODEL: REQUEST_MODEL,
    }.get(kind)
    found = attributes.get(wanted) if wanted is not None else None
    return found if isinstance(found, str) and found else None


def title_of(kind: SpanKind, name: str, attributes: Attributes) -> str:
    """The name of the agent, tool, model or workflow, otherwise of the span."""
    return name_of(kind, name, attributes) or name


def describe_span(kind: SpanKind, name: str, attributes: Attributes, *, ended: bool) -> dict[str, object]:
    """The payload of a span without arguments and results; with its response once it has `ended`.

    A span whose attributes are set after its start is recorded when it ends.
    """
    response: dict[str, object] = {}
    if ended:
        response = {
            "response_model": attributes.get(RESPONSE_MODEL),
            "finish_reasons": attributes.get(FINISH_REASONS),
            **_usage(attributes),
        }
    match kind:
        case SpanKind.TOOL:
            payload: dict[str, object] = {
                "operation": title_of(kind, name, attributes),
                "tool_type": attributes.get(TOOL_TYPE),
                "tool_call_id": attributes.get(TOOL_CALL_ID),
            }
        case SpanKind.MODEL:
            payload = {
                "operation": attributes.get(OPERATION_NAME),
                "model": attributes.get(REQUEST_MODEL) or name_of(kind, name, attributes),
                "provider": attributes.get(PROVIDER_NAME) or attributes.get(OLD_PROVIDER_NAME),
                **response,
            }
        case SpanKind.AGENT:
            payload = {
                "agent_id": attributes.get(AGENT_ID),
                "model": attributes.get(REQUEST_MODEL),
                **response,
            }
        case SpanKind.WORKFLOW:
            payload = {"node_name": title_of(kind, name, attributes)}
        case _:
            return {"name": name, "attributes": dict(attributes)}
    payload["conversation_id"] = attributes.get(CONVERSATION_ID)
    return {key: value for key, value in payload.items() if value is not None}


def content_of(attributes: Attributes, events: SpanEvents = (), *, ended: bool) -> dict[str, object]:
    """A tool's arguments and, once it has `ended`, its result, if the instrumentation records them.

    They are attributes of the span, or, as in Strands, attributes of its events.
    """
    found = {"input": attributes.get(TOOL_ARGUMENTS), "output": attributes.get(TOOL_RESULT)}
    for event, payload in ((None, attributes), *events):
        for key, value in _content_of_event(event, payload).items():
            if found[key] is None:
                found[key] = value
    if not ended:
        del found["output"]
    return {key: _decode_json(value) for key, value in found.items() if value is not None}


def _content_of_event(event: str | None, attributes: Attributes) -> dict[str, object]:
    return {
        "input": attributes.get("content")
        if event == TOOL_MESSAGE
        else _part(attributes.get(INPUT_MESSAGES), "tool_call", "arguments"),
        "output": attributes.get("message")
        if event == CHOICE
        else _part(attributes.get(OUTPUT_MESSAGES), "tool_call_response", "response"),
    }


def _part(messages: object, type: str, field: str) -> object:
    """A field of the first part of this type, in messages as the conventions encode them."""
    decoded = _decode_json(messages)
    for message in decoded if isinstance(decoded, list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == type:
                return part.get(field)
    return None


def _usage(attributes: Attributes) -> dict[str, object]:
    return {
        key.removeprefix(USAGE).replace(".", "_"): value
        for key, value in attributes.items()
        if key.startswith(USAGE)
    }


def _decode_json(value: object) -> object:
    """Decode JSON in a text, so that secrets in it can be recognised by the names of their fields."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # not JSON after all
    return value
