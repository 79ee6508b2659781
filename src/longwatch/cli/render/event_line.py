"""One event as one line: its time, agent and type, and a short text of its payload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo

from longwatch.cli.render.styles import Segment, StyledLine, call_look, line_columns
from longwatch.cli.render.text import clean, columns_of, count_text, fit, pad
from longwatch.cli.render.times import clock_text, duration_text, local
from longwatch.model.calls import mark_of
from longwatch.model.endings import warning_count
from longwatch.model.event import UNREADABLE, Event, call_status, duration_of, error_of, text_of
from longwatch.model.process import ProcessIdentity
from longwatch.model.run import ENDS, Ending, Status

LONGEST_TEXT = 400  # characters of a payload on a line that nothing limits
NARROW_COLUMNS = 72

_AGENT_COLUMNS = 14
_TYPE_COLUMNS = 18
_LATE = "  (late)"
_NO_TIME = "–"  # instead of an unknown time
_TEXT_FIELDS = ("message", "text", "line", "data", "name", "status")


def event_line(
    event: Event, *, width: int | None = None, dated: bool = False, zone: tzinfo | None = None
) -> StyledLine:
    """The event on one line, cut to the width if there is one. A narrow one leaves out the agent."""
    style = "bad" if reports_failure(event) else _type_style(event)
    death = _death(event)
    when = clock_text(event.occurred_at, dated=dated, zone=zone)
    if death is not None:
        when = _NO_TIME.ljust(len(when))
    line = [Segment(f"{when}  ", "dim")]
    agent = clean(event.agent_name or "")
    kind = clean(event.type)
    if width is not None and width < NARROW_COLUMNS:
        line = [Segment(f"{when} ", "dim"), Segment(f"{kind} ", style)]
    else:
        line.append(Segment(pad(fit(agent, _AGENT_COLUMNS), _AGENT_COLUMNS) + "  "))
        line.append(Segment(pad(kind, _TYPE_COLUMNS) + "  ", style))
    text = clean(event_text(event)[:LONGEST_TEXT])
    if death is not None:
        text = f"{_death_text(death, dated=dated, zone=zone)}: {text}"
    if width is not None:
        used = line_columns(line)
        if used >= width:  # the type alone fills the line
            last = line.pop()
            used -= columns_of(last.text)
            return [*line, Segment(fit(last.text.rstrip(), width - used), last.style)]
        text = fit(text, width - used)
    return [*line, Segment(text)]


def followed_line(event: Event, *, late: bool, width: int | None = None, dated: bool = False) -> StyledLine:
    """The line of an event that has just arrived, marked if it is late."""
    if not late:
        return event_line(event, width=width, dated=dated)
    room = None if width is None else width - len(_LATE)
    return [*event_line(event, width=room, dated=dated), Segment(_LATE, "warn")]


def need_dates(events: list[Event], *, now_ms: int, zone: tzinfo | None = None) -> bool:
    """Whether the times need dates, because some of the events are not of today."""
    today = local(now_ms, zone).date()
    ends = (events[0], events[-1]) if events else ()
    return any(local(event.occurred_at, zone).date() != today for event in ends)


def reports_failure(event: Event) -> bool:
    """Whether the event reports a failure, or cannot be read."""
    if event.type == UNREADABLE:
        return True
    status = text_of(event.payload, "status")
    if status is not None and call_status(status) == "failed":
        return True
    if event.type in ENDS:
        ending = Ending.of(event)
        return ending is not None and ending.status not in (Status.SUCCEEDED, Status.CANCELLED)
    if event.type.lower().endswith(("_failed", "_error")):
        return True
    return error_of(event.payload) is not None


def _death(event: Event) -> Ending | None:
    ending = Ending.of(event) if event.type in ENDS else None
    return ending if ending is not None and ending.status is Status.DIED else None


def _death_text(death: Ending, *, dated: bool, zone: tzinfo | None) -> str:
    """`died between 14:17:06.123 and 14:17:30.456`: the time of such an event only sets its order."""
    not_before = clock_text(death.not_before or 0, dated=dated, zone=zone)
    if death.not_after is None:
        return f"died after {not_before}"
    return f"died between {not_before} and {clock_text(death.not_after, dated=dated, zone=zone)}"


def event_text(event: Event) -> str:
    """A short text of what the event reports."""
    if event.type in _TEXTS:
        return _TEXTS[event.type](event.payload)
    call = mark_of(event)
    if call is not None:
        mark = call[1]
        parts = [mark.name, "…" if mark.is_start else call_look(mark.status).symbol]
        if mark.duration_ms is not None:
            parts.append(duration_text(mark.duration_ms))
        if mark.error:
            parts.append(mark.error)
        used = mark.model.usage if mark.model is not None and not mark.is_start else None
        if used is not None and used.total_tokens is not None:
            parts.append(count_text(used.total_tokens, "token"))
        return " ".join(parts)
    error = error_of(event.payload)
    message = text_of(event.payload, *_TEXT_FIELDS)
    length = duration_of(event.payload)
    if error or event.type in ENDS:
        parts = [error or message or "", duration_text(length) if length is not None else ""]
        return " ".join(part for part in parts if part)
    return _plain(message) if message and len(event.payload) == 1 else _fields(event.payload)


def _block_text(payload: Mapping[str, object]) -> str:
    kind, error = text_of(payload, "kind") or "block", text_of(payload, "error")
    if kind == "tool_use":
        return f"{text_of(payload, 'tool_name') or 'tool'} … {_short(payload.get('parameters'))}"
    if kind == "tool_result":
        return f"{call_look('failed').symbol} {error}" if error else _result_text(payload)
    return f"{kind}: {_plain(text_of(payload, 'text') or '')}"


def _result_text(payload: Mapping[str, object]) -> str:
    result = payload.get("result")
    shown = _plain(result) if isinstance(result, str) else _short(result)
    return f"{call_look('completed').symbol} {shown}"


def _line_text(payload: Mapping[str, object]) -> str:
    return _short(payload.get("line"))


def _report_text(payload: Mapping[str, object]) -> str:
    result = text_of(payload, "error_message", "result")
    return _plain(result) if result else text_of(payload, "reported") or ""


def _started_text(payload: Mapping[str, object]) -> str:
    source, mode = text_of(payload, "source") or "", text_of(payload, "mode") or ""
    return f"{text_of(payload, 'name') or ''} ({source} {mode})"


def _transition_text(payload: Mapping[str, object]) -> str:
    """`failed (TIMED_OUT) demo:1: no response`: the new state first, because it must fit."""
    name = text_of(payload, "action", "server_id", "job_id") or ""
    to, status, reason = (text_of(payload, key) or "" for key in ("to", "word", "reason"))
    if to == "launched" and status.lower() != to:
        to = "done"  # only DRS calls an item launched when it has succeeded
    detail = f" ({status})" if status and status != reason and status.lower() != to else ""
    return f"{to}{detail} {name}" + (f": {reason}" if reason else "")


def _verdict_text(payload: Mapping[str, object]) -> str:
    """`succeeded; 2 warnings: s-1 was terminated afterwards; …`: the outcome, then the warnings."""
    verdict = error_of(payload) or text_of(payload, "message", "status") or ""
    warnings = payload.get("warnings")
    if not isinstance(warnings, Sequence) or isinstance(warnings, str) or not warnings:
        return verdict
    return f"{verdict}; {count_text(warning_count(payload), 'warning')}: {'; '.join(map(str, warnings))}"


def _unreadable_text(payload: Mapping[str, object]) -> str:
    return f"position {payload.get('position')}: {text_of(payload, 'reason') or ''}"


_TEXTS = {
    UNREADABLE: _unreadable_text,
    "block": _block_text,
    "block_delta": _block_text,
    "turn_line": _line_text,
    "turn_result": _report_text,
    "turn_end_claimed": lambda payload: text_of(payload, "ends_as") or "",
    "execution_started": _started_text,
    "job_transition": _transition_text,
    "server_transition": _transition_text,
    "action_transition": _transition_text,
    "execution_ended": _verdict_text,
    "execution_corrected": _verdict_text,
}


def _fields(payload: Mapping[str, object]) -> str:
    return " ".join(f"{key}={_value(key, value)}" for key, value in payload.items() if value is not None)


def _value(key: str, value: object) -> str:
    process = ProcessIdentity.of(value) if key == "process" else None
    return _short(value) if process is None else f"{process.pid}@{process.host}"


def _short(value: object) -> str:
    if isinstance(value, str):
        return (
            _plain(value)
            if value and " " not in value
            else json.dumps(value[:LONGEST_TEXT], ensure_ascii=False)
        )
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError):
        return str(value)


def _plain(text: str) -> str:
    return text[:LONGEST_TEXT].rstrip("\n")


def _type_style(event: Event) -> str:
    if event.type in ENDS:
        return "good"
    call = mark_of(event)
    return call_look(call[1].status).style if call else ""
