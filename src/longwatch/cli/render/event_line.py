"""One event as one line: when, who, what, and a few words of what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo

from longwatch.cli.render.styles import Segment, StyledLine, call_look
from longwatch.cli.render.text import clean, columns_of, fit, pad
from longwatch.cli.render.times import clock_text, duration_text, local
from longwatch.model.calls import mark_of
from longwatch.model.event import UNREADABLE, Event, call_status, duration_of, error_of, text_of
from longwatch.model.process import ProcessIdentity
from longwatch.model.run import ENDS, Ending, Status

LONGEST_TEXT = 400  # characters of a payload on a line that nothing limits
NARROW_COLUMNS = 72

_AGENT_COLUMNS = 14
_TYPE_COLUMNS = 18
_LATE = "  (late)"
_NO_TIME = "–"  # in the place of a time that is not known
_SPOKEN = ("message", "text", "line", "data", "name", "status")


def event_line(
    event: Event, *, width: int | None = None, dated: bool = False, zone: tzinfo | None = None
) -> StyledLine:
    """The event on one line, cut to the width if there is one. A narrow one leaves out the agent."""
    look_style = "bad" if reports_failure(event) else _type_style(event)
    death = _death(event)
    when = clock_text(event.occurred_at, dated=dated, zone=zone)
    if death is not None:
        when = _NO_TIME.ljust(len(when))
    line = [Segment(f"{when}  ", "dim")]
    agent = clean(event.agent_name or "")
    kind = clean(event.type)
    if width is not None and width < NARROW_COLUMNS:
        line = [Segment(f"{when} ", "dim"), Segment(f"{kind} ", look_style)]
    else:
        line.append(Segment(pad(fit(agent, _AGENT_COLUMNS), _AGENT_COLUMNS) + "  "))
        line.append(Segment(pad(kind, _TYPE_COLUMNS) + "  ", look_style))
    words = clean(event_text(event)[:LONGEST_TEXT])
    if death is not None:
        words = f"{_death_words(death, dated=dated, zone=zone)}: {words}"
    if width is not None:
        used = sum(columns_of(segment.text) for segment in line)
        if used >= width:  # the type alone fills the line
            last = line.pop()
            used -= columns_of(last.text)
            return [*line, Segment(fit(last.text.rstrip(), width - used), last.style)]
        words = fit(words, width - used)
    return [*line, Segment(words)]


def followed_line(event: Event, *, late: bool, width: int | None = None, dated: bool = False) -> StyledLine:
    """The line of an event that has just come, with a mark if others that happened later came before."""
    if not late:
        return event_line(event, width=width, dated=dated)
    room = None if width is None else width - len(_LATE)
    return [*event_line(event, width=room, dated=dated), Segment(_LATE, "warn")]


def need_dates(events: list[Event], *, now_ms: int, zone: tzinfo | None = None) -> bool:
    """Whether the times need their dates: some of these events are not of today."""
    today = local(now_ms, zone).date()
    ends = (events[0], events[-1]) if events else ()
    return any(local(event.occurred_at, zone).date() != today for event in ends)


def reports_failure(event: Event) -> bool:
    """Whether the event says that something failed, or cannot be read."""
    if event.type == UNREADABLE:
        return True
    word = text_of(event.payload, "status")
    if word is not None and call_status(word) == "failed":
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


def _death_words(death: Ending, *, dated: bool, zone: tzinfo | None) -> str:
    """`died between 14:17:06.123 and 14:17:30.456`: the time of such an event is only a place."""
    not_before = clock_text(death.not_before or 0, dated=dated, zone=zone)
    if death.not_after is None:
        return f"died after {not_before}"
    return f"died between {not_before} and {clock_text(death.not_after, dated=dated, zone=zone)}"


def event_text(event: Event) -> str:
    """What the event says, in a few words."""
    if event.type in _KNOWN_WORDS:
        return _KNOWN_WORDS[event.type](event.payload)
    call = mark_of(event)
    if call is not None:
        mark = call[1]
        parts = [mark.name, "…" if mark.begins else call_look(mark.status).symbol]
        if mark.duration_ms is not None:
            parts.append(duration_text(mark.duration_ms))
        if mark.error:
            parts.append(mark.error)
        return " ".join(parts)
    error = error_of(event.payload)
    spoken = text_of(event.payload, *_SPOKEN)
    length = duration_of(event.payload)
    if error or event.type in ENDS:
        words = [error or spoken or "", duration_text(length) if length is not None else ""]
        return " ".join(word for word in words if word)
    return _plain(spoken) if spoken and len(event.payload) == 1 else _fields(event.payload)


def _block_words(payload: Mapping[str, object]) -> str:
    kind, error = text_of(payload, "kind") or "block", text_of(payload, "error")
    if kind == "tool_use":
        return f"{text_of(payload, 'tool_name') or 'tool'} … {_short(payload.get('parameters'))}"
    if kind == "tool_result":
        return f"{call_look('failed').symbol} {error}" if error else _result_words(payload)
    return f"{kind}: {_plain(text_of(payload, 'text') or '')}"


def _result_words(payload: Mapping[str, object]) -> str:
    result = payload.get("result")
    shown = _plain(result) if isinstance(result, str) else _short(result)
    return f"{call_look('completed').symbol} {shown}"


def _line_words(payload: Mapping[str, object]) -> str:
    return _short(payload.get("line"))


def _report_words(payload: Mapping[str, object]) -> str:
    result = text_of(payload, "error_message", "result")
    return _plain(result) if result else text_of(payload, "reported") or ""


def _started_words(payload: Mapping[str, object]) -> str:
    source, mode = text_of(payload, "source") or "", text_of(payload, "mode") or ""
    return f"{text_of(payload, 'name') or ''} ({source} {mode})"


def _transition_words(payload: Mapping[str, object]) -> str:
    """`failed (TIMED_OUT) demo:1: no answer`: what it is now, which must fit, then what changed and why."""
    name = text_of(payload, "action", "server_id", "job_id") or ""
    to, word, reason = (text_of(payload, key) or "" for key in ("to", "word", "reason"))
    if to == "launched" and word.lower() != to:
        to = "done"  # nobody would say of a build that it is launched when it has succeeded
    said = f" ({word})" if word and word != reason and word.lower() != to else ""
    return f"{to}{said} {name}" + (f": {reason}" if reason else "")


def _verdict_words(payload: Mapping[str, object]) -> str:
    """`succeeded; 2 warnings: s-1 was terminated afterwards; …`: the reasons or the status, then the rest."""
    said = error_of(payload) or text_of(payload, "message", "status") or ""
    warnings = payload.get("warnings")
    if not isinstance(warnings, Sequence) or isinstance(warnings, str) or not warnings:
        return said
    word = "warning" if len(warnings) == 1 else "warnings"
    return f"{said}; {len(warnings)} {word}: {'; '.join(map(str, warnings))}"


def _unreadable_words(payload: Mapping[str, object]) -> str:
    return f"position {payload.get('position')}: {text_of(payload, 'reason') or ''}"


_KNOWN_WORDS = {
    UNREADABLE: _unreadable_words,
    "block": _block_words,
    "turn_line": _line_words,
    "turn_result": _report_words,
    "turn_end_claimed": lambda payload: text_of(payload, "ends_as") or "",
    "execution_started": _started_words,
    "job_transition": _transition_words,
    "server_transition": _transition_words,
    "action_transition": _transition_words,
    "execution_ended": _verdict_words,
    "execution_corrected": _verdict_words,
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
