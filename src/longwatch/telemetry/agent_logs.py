"""Turns the log events of coding agents and of GenAI instrumentations into the events of runs.

A session of Claude Code or Codex is a run. Both report a request to a model or the use of a tool when it is
over, with its duration, so one record becomes the start and the end of a call. Neither reports the end of a
session: its run stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from longwatch.errors import InvalidEvent
from longwatch.model.event import Event
from longwatch.recording.scope import ATTEMPT_DIGITS
from longwatch.telemetry.dialect import SpanKind
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.messages import decode_json
from longwatch.telemetry.otlp import ExportBatch, LogRecord
from longwatch.telemetry.span import Attributes, SpanData, SpanStatus
from longwatch.telemetry.span_events import content_of, describe_span, outcome_of, read_span
from longwatch.telemetry.span_runs import named_run, run_id_of

RECORDED_BY = "otlp"
CLAUDE_CODE, CODEX = "claude_code.", "codex."
GENAI_DETAILS = "gen_ai.client.inference.operation.details"


class LoggedEvent(NamedTuple):
    """One event that a record states. Content follows the capture policy."""

    type: str
    payload: Mapping[str, object]
    content: Mapping[str, object] = {}  # never changed
    call_id: str | None = None
    earlier_ms: int = 0  # how long before the record it happened


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFormat:
    """How one coding agent names its sessions and events."""

    name: str
    run_prefix: str
    session: str  # attribute with the id of the session
    events: Mapping[str, Callable[[Attributes, str], Sequence[LoggedEvent]]]  # by name, without the prefix


def log_events(batch: ExportBatch[LogRecord], builder: EventBuilder) -> list[Event]:
    """The events of these records. Records of other programs, and other events of agents, have none.

    A record that no journal can store is rejected.
    """
    events: list[Event] = []
    for record in batch.items:
        try:
            events += _events(record, builder)
        except InvalidEvent as error:
            batch.reject(str(error))
    return events


def _events(record: LogRecord, builder: EventBuilder) -> list[Event]:
    name = record.body if isinstance(record.body, str) and record.body.startswith(CLAUDE_CODE) else None
    name = name or record.event_name
    if name == GENAI_DETAILS:
        return _details(record, builder)
    prefix, _, rest = name.partition(".")
    agent = FORMATS.get(f"{prefix}.")
    session = record.attributes.get(agent.session) if agent is not None else None
    if agent is None or not isinstance(session, str) or not session:
        return []
    return _agent_events(record, agent, session, rest, builder)


def _agent_events(
    record: LogRecord, agent: AgentFormat, session: str, name: str, builder: EventBuilder
) -> list[Event]:
    named = named_run(record.resource)
    run_id = named or f"{agent.run_prefix}{session}"
    at = record.time_ns // 1_000_000
    digest = _digest(record, name)
    parse = agent.events.get(name)
    found = list(parse(record.attributes, digest)) if parse is not None else []
    is_first = name == "conversation_starts" or _number(record.attributes, "event.sequence") == 0
    if is_first and named is None:
        attempt = session.replace("-", "")[:ATTEMPT_DIGITS]
        start = {"kind": "workflow", "name": agent.name, "attempt": attempt}
        found.insert(0, LoggedEvent("workflow_start", start))
    return [
        builder.event(
            run_id,
            f"{digest}{number}",
            each.type,
            at - each.earlier_ms,
            {**each.payload, **builder.captured(dict(each.content))},
            agent_name=agent.name if each.type != "workflow_start" else None,
            call_id=each.call_id,
            trace_id=record.trace_id or None,
        )
        for number, each in enumerate(found)
    ]


def _digest(record: LogRecord, name: str) -> str:
    """The same for a record that is sent again, and for no other."""
    content = repr((name, record.time_ns, sorted(record.attributes.items(), key=repr), record.body))
    return sha256(content.encode(errors="replace")).hexdigest()[:16]


def _details(record: LogRecord, builder: EventBuilder) -> list[Event]:
    """The end of a model call, in the event that instrumentations log inside its span."""
    if len(record.trace_id) != 32 or len(record.span_id) != 16:
        return []
    span = SpanData(
        record.trace_id,
        record.span_id,
        None,
        "",
        record.time_ns,
        record.time_ns,
        record.attributes,
        status=SpanStatus.ERROR if record.attributes.get("error.type") else SpanStatus.UNSET,
        resource=record.resource,
    )
    reading = read_span(span.name, span.attributes)
    if reading.kind is not SpanKind.MODEL:
        return []
    outcome = outcome_of(span)
    del outcome["duration_ms"]  # unknown
    payload = {**outcome, **describe_span(reading, span, ended=True), "recorded_by": RECORDED_BY}
    payload |= builder.captured(content_of(reading, span, ended=True), are_messages=True)
    return [
        builder.event(
            run_id_of(span),
            f"{_digest(record, GENAI_DETAILS)}0",
            "model_call",
            span.ended_at,
            payload,
            call_id=span.span_id,
            trace_id=span.trace_id,
        )
    ]


def _prompt(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    payload = _known(
        prompt_length=_number(attributes, "prompt_length"), prompt_id=attributes.get("prompt.id")
    )
    return [LoggedEvent("user_prompt", payload, _known(prompt=attributes.get("prompt")))]


def _response(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    payload = _known(response_length=_number(attributes, "response_length"), model=attributes.get("model"))
    return [LoggedEvent("assistant_response", payload, _known(response=attributes.get("response")))]


def _decision(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    names = ("tool_name", "decision", "source", "tool_use_id", "call_id")
    return [LoggedEvent("tool_decision", _known(**{name: attributes.get(name) for name in names}))]


def _tool(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    given = next(
        (attributes[name] for name in ("tool_input", "arguments", "tool_parameters") if attributes.get(name)),
        None,
    )
    output, error = attributes.get("output"), attributes.get("error")
    failed = str(attributes.get("success", "true")).lower() == "false"
    fixed = {"operation": attributes.get("tool_name") or "tool", "recorded_by": RECORDED_BY}
    end = _known(error_message=error if error is not None else output) if failed else {}
    call_id = attributes.get("tool_use_id") or attributes.get("call_id") or digest
    return _call(
        "tool_call",
        str(call_id),
        {**fixed},
        {**fixed, **end, "status": "failed" if failed else "completed"},
        duration_ms=_number(attributes, "duration_ms"),
        given=decode_json(given),
        result=decode_json(output),
    )


def _claude_request(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    """A request to Anthropic, whose input tokens do not include the cached ones."""
    read, written = (_number(attributes, f"cache_{name}_tokens") for name in ("read", "creation"))
    uncached = _number(attributes, "input_tokens")
    tokens = _known(
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=_number(attributes, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    cost = _known(cost_usd=attributes.get("cost_usd"))
    return _model_call(attributes, digest, "anthropic", {**tokens, **cost, "status": "completed"})


def _claude_error(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    failure = _known(
        error_message=attributes.get("error"),
        status_code=_number(attributes, "status_code"),
        attempt_number=_number(attributes, "attempt"),
    )
    return _model_call(attributes, digest, "anthropic", {**failure, "status": "failed"})


def _codex_request(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    """Only a request that failed: the response of any other has its own record, with the tokens."""
    status = _number(attributes, "http.response.status_code")
    error = attributes.get("error.message")
    if error is None and (status is None or status < 400):
        return []
    failure = {"status": "failed", "error_message": error or f"HTTP {status}", **_known(status_code=status)}
    return _model_call(attributes, digest, "openai", failure)


def _codex_response(attributes: Attributes, digest: str) -> Sequence[LoggedEvent]:
    """The record of a completed response that has the token counts, or of a failed one."""
    error, tokens = attributes.get("error.message"), _number(attributes, "input_token_count")
    if error is not None:
        return _model_call(attributes, digest, "openai", {"status": "failed", "error_message": error})
    if attributes.get("event.kind") != "response.completed" or tokens is None:
        return []
    counts = _known(
        input_tokens=tokens,
        output_tokens=_number(attributes, "output_token_count"),
        cache_read_tokens=_number(attributes, "cached_token_count"),
        cache_write_tokens=_number(attributes, "cache_write_token_count"),
        reasoning_tokens=_number(attributes, "reasoning_token_count"),
        time_to_first_token_ms=_number(attributes, "ttft_ms"),
    )
    return _model_call(attributes, digest, "openai", {**counts, "status": "completed"})


def _model_call(
    attributes: Attributes, digest: str, provider: str, end: Mapping[str, object]
) -> Sequence[LoggedEvent]:
    fixed = _known(
        operation="chat", provider=provider, model=attributes.get("model"), recorded_by=RECORDED_BY
    )
    duration = _number(attributes, "duration_ms")
    return _call("model_call", digest, fixed, {**fixed, **end}, duration_ms=duration)


def _call(
    type: str,
    call_id: str,
    start: Mapping[str, object],
    end: Mapping[str, object],
    *,
    duration_ms: int | None,
    given: object = None,
    result: object = None,
) -> Sequence[LoggedEvent]:
    """The start and the end of a call; without a duration, only its end."""
    if duration_ms is None:
        return [LoggedEvent(type, end, _known(input=given, output=result), call_id)]
    return [
        LoggedEvent(type, {**start, "status": "started"}, _known(input=given), call_id, duration_ms),
        LoggedEvent(type, {**end, "duration_ms": duration_ms}, _known(output=result), call_id),
    ]


def _known(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def _number(attributes: Attributes, name: str) -> int | None:
    """A whole number from 0. Some agents write numbers as text."""
    value = attributes.get(name)
    try:
        number = int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < 2**53 else None


FORMATS: Mapping[str, AgentFormat] = {
    CLAUDE_CODE: AgentFormat(
        name="Claude Code",
        run_prefix="claude-code-",
        session="session.id",
        events={
            "user_prompt": _prompt,
            "assistant_response": _response,
            "api_request": _claude_request,
            "api_error": _claude_error,
            "tool_result": _tool,
            "tool_decision": _decision,
        },
    ),
    CODEX: AgentFormat(
        name="Codex",
        run_prefix="codex-",
        session="conversation.id",
        events={
            "user_prompt": _prompt,
            "api_request": _codex_request,
            "sse_event": _codex_response,
            "tool_result": _tool,
            "tool_decision": _decision,
        },
    ),
}
