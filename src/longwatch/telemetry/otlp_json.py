"""Decodes OTLP in JSON: ids are hex, names are in camel case, and 64-bit integers are text."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from longwatch.errors import InvalidInput
from longwatch.telemetry.otlp import (
    REMOTE_FLAGS,
    ExportBatch,
    LogRecord,
    event_name,
    log_problem,
    span_problem,
)
from longwatch.telemetry.span import Attributes, SpanData, SpanStatus

T = TypeVar("T")

MAX_DEPTH = 60  # of nested values, far below Python's limit
METRIC_KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
STATUS_NAMES = {f"STATUS_CODE_{status.name}": status.value for status in SpanStatus}


def decode_traces(body: bytes) -> ExportBatch[SpanData]:
    """The spans in an `ExportTraceServiceRequest`."""
    batch: ExportBatch[SpanData] = ExportBatch()
    for resource, spans in _scopes(body, "resourceSpans", "scopeSpans", "spans"):
        batch.add_each([_span(each, resource) for each in spans], span_problem)
    return batch


def decode_logs(body: bytes) -> ExportBatch[LogRecord]:
    """The records in an `ExportLogsServiceRequest`."""
    batch: ExportBatch[LogRecord] = ExportBatch()
    for resource, records in _scopes(body, "resourceLogs", "scopeLogs", "logRecords"):
        batch.add_each([_log_record(each, resource) for each in records], log_problem)
    return batch


def count_data_points(body: bytes) -> int:
    """How many data points an `ExportMetricsServiceRequest` has."""
    return sum(
        sum(1 for kind in METRIC_KINDS for _ in _objects(_part(metric, kind), "dataPoints"))
        for _, metrics in _scopes(body, "resourceMetrics", "scopeMetrics", "metrics")
        for metric in metrics
    )


def _scopes(body: bytes, outer: str, middle: str, inner: str) -> Iterator[tuple[Attributes, list[Any]]]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The body is not valid JSON: {str(error)[:200]}.") from error
    for group in _objects(_object(request, "the body"), outer):
        resource = _attributes(_part(group, "resource"))
        for scope in _objects(group, middle):
            yield resource, list(_objects(scope, inner))


def _span(span: dict[str, Any], resource: Attributes) -> SpanData:
    status = _part(span, "status")
    code = status.get("code") or 0
    return SpanData(
        trace_id=_hex(span, "traceId"),
        span_id=_hex(span, "spanId"),
        parent_id=_hex(span, "parentSpanId") or None,
        name=_text(span, "name"),
        start_ns=_whole(span, "startTimeUnixNano"),
        end_ns=_whole(span, "endTimeUnixNano"),
        attributes=_attributes(span),
        events=[(_text(event, "name"), _attributes(event)) for event in _objects(span, "events")],
        status=STATUS_NAMES.get(code, 0) if isinstance(code, str) else _whole(status, "code"),
        status_message=_text(status, "message"),
        resource=resource,
        trace_state=_text(span, "traceState"),
        is_parent_remote=_whole(span, "flags") & REMOTE_FLAGS == REMOTE_FLAGS,
    )


def _log_record(record: dict[str, Any], resource: Attributes) -> LogRecord:
    attributes = _attributes(record)
    return LogRecord(
        event_name=event_name(_text(record, "eventName"), attributes),
        time_ns=_whole(record, "timeUnixNano") or _whole(record, "observedTimeUnixNano"),
        attributes=attributes,
        body=_value(record.get("body"), 0),
        resource=resource,
        trace_id=_hex(record, "traceId"),
        span_id=_hex(record, "spanId"),
    )


def _attributes(holder: dict[str, Any]) -> dict[str, object]:
    return {_text(each, "key"): _value(each.get("value"), 0) for each in _objects(holder, "attributes")}


def _value(value: object, depth: int) -> object:
    """An `AnyValue`."""
    if value is None:
        return None
    if depth > MAX_DEPTH:
        raise InvalidInput(f"A value is nested deeper than {MAX_DEPTH} levels.")
    kinds = _object(value, "value")
    for kind, item in kinds.items():
        decode = _KINDS.get(kind)
        if decode is not None and item is not None:
            return decode(kinds, depth)
    return None


def _array(value: dict[str, Any], depth: int) -> list[object]:
    values = _object(value["arrayValue"], "arrayValue").get("values")
    return [_value(each, depth + 1) for each in _list([] if values is None else values, "values")]


def _map(value: dict[str, Any], depth: int) -> dict[str, object]:
    pairs = _objects(_object(value["kvlistValue"], "kvlistValue"), "values")
    return {_text(each, "key"): _value(each.get("value"), depth + 1) for each in pairs}


def _bytes(value: dict[str, Any], depth: int) -> bytes:
    try:
        return base64.b64decode(_text(value, "bytesValue"))
    except ValueError as error:
        raise InvalidInput("bytesValue must be base64.") from error


def _double(value: dict[str, Any], depth: int) -> float:
    try:
        return float(value["doubleValue"])  # also "NaN" and "Infinity"
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"doubleValue must be a number, not {value['doubleValue']!r:.60}.") from error


_KINDS: dict[str, Callable[[dict[str, Any], int], object]] = {
    "stringValue": lambda value, _: _text(value, "stringValue"),
    "boolValue": lambda value, _: bool(value["boolValue"]),
    "intValue": lambda value, _: _whole(value, "intValue"),
    "doubleValue": _double,
    "arrayValue": _array,
    "kvlistValue": _map,
    "bytesValue": _bytes,
}


def _objects(holder: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    value = holder.get(name)
    for each in () if value is None else _list(value, name):
        yield _object(each, f"each of {name}")


def _part(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return {} if value is None else _object(value, name)


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"Invalid OTLP: {name} must be an object, not {_kind(value)}.")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(f"Invalid OTLP: {name} must be an array, not {_kind(value)}.")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"Invalid OTLP: {name} must be text, not {_kind(value)}.")
    return value


def _hex(holder: dict[str, Any], name: str) -> str:
    text = _text(holder, name).lower()
    if text.strip("0123456789abcdef"):
        raise InvalidInput(f"Invalid OTLP: {name} must be hex digits, not {text!r:.60}.")
    return text


def _whole(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name)
    if value is None:
        return 0
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"Invalid OTLP: {name} must be a whole number, not {value!r:.60}.") from error
    if not -(2**63) <= number < 2**64:
        raise InvalidInput(f"Invalid OTLP: {name} must fit into 64 bits.")
    return number


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
