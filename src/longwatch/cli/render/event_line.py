"""One event as one line: its time, agent and type, and a short text of its payload."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from longwatch.cli.render.styles import Segment, StyledLine, call_look, line_columns
from longwatch.cli.render.text import clean, columns_of, count_text, fit, pad
from longwatch.cli.render.times import clock_text, duration_text, local
from longwatch.model.calls import mark_of
from longwatch.model.event import UNREADABLE, Event, call_status, duration_of, error_of, text_of
from longwatch.model.preview import event_preview
from longwatch.model.run import ENDS, Ending, Status

LONGEST_TEXT = 400  # characters of a payload on a line that nothing limits
NARROW_COLUMNS = 72
NOTIFIED = "notified"

_AGENT_COLUMNS = 14
_TYPE_COLUMNS = 18
_LATE = "  (late)"
_NO_TIME = "–"  # instead of an unknown time


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
    text = clean(event_text(event))
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


def need_dates(events: Sequence[Event], *, now_ms: int, zone: tzinfo | None = None) -> bool:
    """Whether the times need dates, because some of the events are not of today."""
    ends = (events[0], events[-1]) if events else ()
    return any(is_of_another_day(event.occurred_at, now_ms=now_ms, zone=zone) for event in ends)


def is_of_another_day(moment_ms: int, *, now_ms: int, zone: tzinfo | None = None) -> bool:
    """Whether a time needs its date, because it is not of today."""
    return local(moment_ms, zone).date() != local(now_ms, zone).date()


def reports_failure(event: Event) -> bool:
    """Whether the event reports a failure, or cannot be read."""
    if event.type == UNREADABLE:
        return True
    if event.type == NOTIFIED:  # the status that it reports is the run's
        return event.payload.get("delivered") is False
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
    if event.type == NOTIFIED:
        return _notice_text(event)
    preview = event_preview(event, LONGEST_TEXT)
    call = mark_of(event)
    if call is None:
        length = duration_of(event.payload) if event.type in ENDS else None
        return _joined(preview, duration_text(length) if length is not None else "")
    mark = call[1]
    is_result = event.type == "block" and not mark.is_start  # it does not name its tool
    used = mark.model.usage if mark.model is not None and not mark.is_start else None
    tokens = used.total_tokens if used is not None else None
    return _joined(
        "" if is_result else mark.name,
        "…" if mark.is_start else call_look(mark.status).symbol,
        duration_text(mark.duration_ms) if mark.duration_ms is not None else "",
        preview,
        count_text(tokens, "token") if tokens is not None else "",
    )


def _notice_text(event: Event) -> str:
    """`failed · sent by failures through web_push: 2 of 2 browsers`."""
    payload = event.payload
    attempts, count = (
        each if isinstance(each := payload.get(name), int) else 1 for name in ("attempts", "count")
    )
    happened = text_of(payload, "trigger") or ""
    happened += " resolved" if payload.get("is_resolved") is True else ""
    others = f" with {count_text(count - 1, 'other notice')}" if count > 1 else ""
    is_sent = payload.get("delivered") is not False
    fate = "sent" if is_sent else f"given up after {count_text(attempts, 'attempt')}"
    through = text_of(payload, "channel") or "a channel"
    response = text_of(payload, "response")
    text = f"{happened}{others} · {fate} by {text_of(payload, 'rule') or 'a rule'} through {through}"
    return f"{text}: {response}" if response else text


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _type_style(event: Event) -> str:
    if event.type in ENDS:
        return "good"
    call = mark_of(event)
    return call_look(call[1].status).style if call else ""
