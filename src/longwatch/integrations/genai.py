"""The GenAI names of OpenTelemetry, in one place, and what a span that bears them says in our words.

The conventions are still in development and their Python constants are deprecated, so the names are written
here as text. Nothing in this module needs OpenTelemetry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
USAGE = "gen_ai.usage."  # input_tokens, output_tokens and whatever is counted next
ERROR_TYPE = "error.type"

Attributes = Mapping[str, object]


class SpanKind(StrEnum):
    """What a span tells of."""

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
# Some frameworks set the attributes after the start; these words in a span's name leave no doubt by then.
_TELLING_NAMES = ("invoke_workflow", "invoke_agent", "execute_tool")

EVENT_TYPES: Mapping[SpanKind, tuple[str, str]] = {  # of its start and its end
    SpanKind.WORKFLOW: ("node_start", "node_stop"),  # inside a run; otherwise it is the run
    SpanKind.AGENT: ("agent_start", "agent_end"),
    SpanKind.TOOL: ("tool_call", "tool_call"),
    SpanKind.MODEL: ("model_call", "model_call"),
    SpanKind.OTHER: ("span", "span"),
}


def kind_of(name: str, attributes: Attributes) -> SpanKind:
    """What a span with this name and these attributes tells of."""
    operation = attributes.get(OPERATION_NAME)
    if isinstance(operation, str):
        return OPERATIONS.get(operation, SpanKind.OTHER)
    first = name.partition(" ")[0]
    return OPERATIONS[first] if first in _TELLING_NAMES else SpanKind.OTHER


def title_of(kind: SpanKind, name: str, attributes: Attributes) -> str:
    """What the agent, tool, model or workflow is called."""
    wanted = {
        SpanKind.WORKFLOW: WORKFLOW_NAME,
        SpanKind.AGENT: AGENT_NAME,
        SpanKind.TOOL: TOOL_NAME,
        SpanKind.MODEL: REQUEST_MODEL,
    }.get(kind)
    found = attributes.get(wanted) if wanted is not None else None
    if isinstance(found, str) and found:
        return found
    first, _, rest = name.partition(" ")  # "execute_tool search"
    return rest if rest and first in OPERATIONS else name


def described(kind: SpanKind, name: str, attributes: Attributes) -> dict[str, object]:
    """What a span says, without its arguments and results."""
    title = title_of(kind, name, attributes)
    match kind:
        case SpanKind.TOOL:
            said: dict[str, object] = {
                "operation": title,
                "tool_type": attributes.get(TOOL_TYPE),
                "tool_call_id": attributes.get(TOOL_CALL_ID),
            }
        case SpanKind.MODEL:
            said = {
                "operation": attributes.get(OPERATION_NAME),
                "model": title,
                "response_model": attributes.get(RESPONSE_MODEL),
                "provider": attributes.get(PROVIDER_NAME) or attributes.get(OLD_PROVIDER_NAME),
                "finish_reasons": attributes.get(FINISH_REASONS),
                **_usage(attributes),
            }
        case SpanKind.AGENT:
            said = {
                "agent_id": attributes.get(AGENT_ID),
                "model": attributes.get(REQUEST_MODEL),
                **_usage(attributes),
            }
        case SpanKind.WORKFLOW:
            said = {"node_name": title}
        case _:
            return {"name": name, "attributes": dict(attributes)}
    said["conversation_id"] = attributes.get(CONVERSATION_ID)
    return {key: value for key, value in said.items() if value is not None}


def content_of(attributes: Attributes) -> dict[str, object]:
    """A tool's arguments and result, where the instrumentation was allowed to tell them."""
    found = {"input": attributes.get(TOOL_ARGUMENTS), "output": attributes.get(TOOL_RESULT)}
    return {key: _opened(value) for key, value in found.items() if value is not None}


def _usage(attributes: Attributes) -> dict[str, object]:
    return {
        key.removeprefix(USAGE).replace(".", "_"): value
        for key, value in attributes.items()
        if key.startswith(USAGE)
    }


def _opened(value: object) -> object:
    """JSON in a text as what it says: secrets in it are known by the names of their fields."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # it only looked like JSON
    return value
