"""Translates a span of any dialect to the payloads of its two events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from longwatch.telemetry.dialect import OTHER, PROVIDERS, Dialect, SpanKind, SpanOperation, first_set
from longwatch.telemetry.genai import GENAI, NAME_PREFIXES
from longwatch.telemetry.messages import decode_json
from longwatch.telemetry.openinference import OPENINFERENCE
from longwatch.telemetry.span import Attributes, SpanData
from longwatch.telemetry.traceloop import TRACELOOP

DIALECTS = (OPENINFERENCE, TRACELOOP, GENAI)  # the first that recognises a span counts
RECORDED_BY = "otel"

EVENT_TYPES: Mapping[SpanKind, tuple[str, str]] = {  # of its start and its end
    SpanKind.WORKFLOW: ("node_start", "node_stop"),  # inside a run; otherwise it is the run
    SpanKind.NODE: ("node_start", "node_stop"),
    SpanKind.AGENT: ("agent_start", "agent_end"),
    SpanKind.TOOL: ("tool_call", "tool_call"),
    SpanKind.MODEL: ("model_call", "model_call"),
    SpanKind.OTHER: ("span", "span"),
}
MESSAGE_KINDS = frozenset({SpanKind.MODEL, SpanKind.AGENT})  # their content is messages
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class SpanReading(NamedTuple):
    """What a span is, and the dialect that its attributes are in."""

    dialect: Dialect
    operation: SpanOperation

    @property
    def kind(self) -> SpanKind:
        return self.operation.kind


UNRECOGNISED = SpanReading(GENAI, OTHER)


def read_span(name: str, attributes: Attributes) -> SpanReading:
    """What a span with this name and these attributes is."""
    is_stated = False
    for dialect in DIALECTS:
        operation = dialect.operation_of(attributes)
        if operation is not None:
            is_stated = is_stated or dialect is GENAI
            if operation is not OTHER:
                return SpanReading(dialect, operation)
    first = name.partition(" ")[0]
    if first in NAME_PREFIXES and not is_stated:
        return SpanReading(GENAI, GENAI.operations[first])
    return UNRECOGNISED


def name_of(reading: SpanReading, name: str, attributes: Attributes) -> str | None:
    """The name of the agent, tool, model or workflow; None if the span does not state it.

    The GenAI conventions put it into the name of the span, `invoke_agent Ada`, which takes precedence: some
    instrumentations start every agent span with the same default attribute and set the real one at the end.
    """
    dialect, operation = reading
    if dialect is GENAI and operation.detail is None:
        first, _, rest = name.partition(" ")
        if rest and GENAI.operations.get(first) == operation:
            return rest
    found = first_set(attributes, dialect.names.get(operation.kind, ()))
    return found if isinstance(found, str) else None


def title_of(reading: SpanReading, name: str, attributes: Attributes) -> str:
    """The name of the agent, tool, model or workflow, otherwise of the span."""
    return name_of(reading, name, attributes) or name


def describe_span(reading: SpanReading, span: SpanData, *, ended: bool) -> dict[str, object]:
    """The payload of a span without its content; with its response once it has `ended`.

    A span whose attributes are set after its start is recorded when it ends.
    """
    (dialect, operation), attributes = reading, span.attributes
    match operation.kind:
        case SpanKind.OTHER:
            return {"name": span.name, "attributes": dict(attributes)}
        case SpanKind.TOOL:
            payload: dict[str, object] = {
                "operation": title_of(reading, span.name, attributes),
                "system": operation.detail,
                "tool_type": _field(dialect, attributes, "tool_type"),
                "tool_call_id": _field(dialect, attributes, "tool_call_id"),
            }
        case SpanKind.MODEL:
            payload = {
                "operation": operation.detail or _field(dialect, attributes, "operation"),
                "provider": _provider(_field(dialect, attributes, "provider")),
                "model": _field(dialect, attributes, "model") or name_of(reading, span.name, attributes),
                "recorded_by": RECORDED_BY,
            }
        case SpanKind.AGENT:
            payload = {
                "agent_id": _field(dialect, attributes, "agent_id"),
                "model": _field(dialect, attributes, "model"),
            }
        case _:
            payload = {
                "node_name": title_of(reading, span.name, attributes),
                "node_type": operation.detail,
            }
    if ended and operation.kind in (SpanKind.MODEL, SpanKind.AGENT):
        payload |= _response(dialect, attributes)
    payload["conversation_id"] = _field(dialect, attributes, "conversation_id")
    return {key: value for key, value in payload.items() if value is not None}


def _response(dialect: Dialect, attributes: Attributes) -> dict[str, object]:
    response: dict[str, object] = {
        name: _field(dialect, attributes, name) for name in ("response_model", "response_id")
    }
    response["finish_reasons"] = _reasons(_field(dialect, attributes, "finish_reasons"))
    for name in TOKENS:
        response[name] = _count(_field(dialect, attributes, name))
    seconds = _field(dialect, attributes, "time_to_first_token_seconds")
    if isinstance(seconds, int | float):
        response["time_to_first_token_ms"] = round(seconds * 1000, 3)
    return response


def content_of(reading: SpanReading, span: SpanData, *, ended: bool) -> dict[str, object]:
    """The content of a span, which the capture policy covers: `input`, `output` and `parameters`.

    The output is there once it has `ended`. Spans contain it only if their instrumentation records it.
    """
    (dialect, operation), attributes = reading, span.attributes
    if operation.kind is SpanKind.OTHER:
        return {}
    given, result = dialect.read_content(operation.kind, span)
    found: dict[str, object] = {"input": given, "output": result if ended else None}
    if operation.kind is SpanKind.MODEL:
        parameters = {
            name: value
            for name, attributes_of in dialect.parameters.items()
            if (value := first_set(attributes, attributes_of)) is not None
        }
        found["parameters"] = {**parameters, **dialect.read_parameters(attributes)} or None
    return {name: value for name, value in found.items() if value is not None}


def outcome_of(span: SpanData) -> dict[str, object]:
    """The fields that every end has."""
    failure = span.failure
    if failure is None:
        return {"status": "completed", "duration_ms": span.duration_ms}
    return {"status": "failed", "error_message": failure, "duration_ms": span.duration_ms}


def _field(dialect: Dialect, attributes: Attributes, name: str) -> object:
    names = dialect.fields.get(name)
    return first_set(attributes, names) if names is not None else None


def _provider(value: object) -> object:
    """The provider by the name of the GenAI conventions, which are all in lower case."""
    return PROVIDERS.get(value.lower(), value.lower()) if isinstance(value, str) else value


def _reasons(value: object) -> list[object] | None:
    decoded = decode_json(value)
    if decoded is None:
        return None
    return list(decoded) if isinstance(decoded, list | tuple) else [decoded]


def _count(value: object) -> int | None:
    """A token count. Some exporters write whole numbers as floats or text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
