"""One call in full: its times, error, arguments, result, attempts and the calls in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from longwatch.cli.render.styles import Segment, StyledLine, call_look
from longwatch.cli.render.text import fit
from longwatch.cli.render.times import clock_text, duration_text
from longwatch.cli.render.usage import cost_text
from longwatch.journal.call_views import CallDetails

_LABEL_COLUMNS = 12
_INDENT = "  "


def call_lines(details: CallDetails, *, width: int | None, zone: tzinfo | None = None) -> list[StyledLine]:
    """The text view of one call. Its values are not cut."""
    call = details.call
    symbol, style = call_look(call["status"])
    lines: list[StyledLine] = [
        [Segment(f"{symbol} {call['status']}", style), Segment(f"  {call['name']}", "strong")]
    ]
    for label, text in _facts(details, zone):
        lines.append([Segment(label.ljust(_LABEL_COLUMNS), "dim"), Segment(text)])
    if call["error"]:
        lines += _section("Error", _text_lines(call["error"], "bad"))
    if details.traceback:
        lines += _section("Traceback", _text_lines(details.traceback))
    if details.parameters is not None:
        lines += _section("Parameters", _value_lines(details.parameters))
    if details.input is not None:
        lines += _section("Input", _content_lines(details.input))
    if details.output is not None:
        lines += _section("Output", _content_lines(details.output))
    if len(details.attempts) > 1:
        marked = [(each, each["call_id"] == call["call_id"]) for each in details.attempts]
        lines += _section("Attempts", [_row(each, width, is_shown=shown) for each, shown in marked])
    if details.children:
        lines += _section("Calls", [_row(each, width) for each in details.children])
    return lines


def _facts(details: CallDetails, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    call, parent = details.call, details.parent
    yield "kind", call["kind"]
    yield "call", call["call_id"]
    yield "run", details.run_id
    if call["agent_name"]:
        yield "agent", call["agent_name"]
    if parent is not None:
        yield "called by", f"{parent['name']} ({parent['kind']}, {parent['call_id']})"
    yield "started", clock_text(call["started_at"], dated=True, zone=zone)
    if call["ended_at"] is not None:
        yield "ended", clock_text(call["ended_at"], dated=True, zone=zone)
    if call["duration_ms"] is not None:
        yield "took", duration_text(call["duration_ms"])
    if len(details.attempts) > 1:
        at = [each["call_id"] for each in details.attempts].index(call["call_id"])
        yield "attempt", f"{at + 1} of {len(details.attempts)}"
    yield from _model_facts(call)


def _model_facts(call: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if call.get("provider"):
        yield "provider", call["provider"]
    if call.get("response_model") and call["response_model"] != call["model"]:
        yield "responded", call["response_model"]
    if call.get("usage"):
        counts = call["usage"]
        known = [
            f"{count:,} {name[:-7].replace('_', ' ')}" for name, count in counts.items() if count is not None
        ]
        yield "tokens", ", ".join(known)
    if call.get("cost") is not None:
        yield "cost", cost_text(Decimal(str(call["cost"])))
    if call.get("time_to_first_token_ms") is not None:
        yield "first token", f"after {duration_text(call['time_to_first_token_ms'])}"
    if call.get("finish_reasons"):
        yield "finish", ", ".join(call["finish_reasons"])


def _section(title: str, lines: Sequence[StyledLine]) -> list[StyledLine]:
    return [[Segment("")], [Segment(title, "strong")], *lines]


def _text_lines(text: str, style: str = "") -> list[StyledLine]:
    return [[Segment(_INDENT), Segment(line, style)] for line in text.splitlines()]


def _value_lines(value: Any) -> list[StyledLine]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return _text_lines(text)


def _content_lines(value: Any) -> list[StyledLine]:
    """The value; messages of a conversation with a model by their roles."""
    is_conversation = isinstance(value, list) and value and all(map(_is_message, value))
    if not is_conversation:
        return _value_lines(value)
    lines: list[StyledLine] = []
    for message in value:
        lines.append([Segment(f"{_INDENT}{message['role']}", "dim")])
        parts = message.get("content") or message.get("parts") or []
        for part in parts if isinstance(parts, list) else [parts]:
            lines += [[Segment(_INDENT), *line] for line in _value_lines(_part_value(part))]
    return lines


def _is_message(value: Any) -> bool:
    has_role = isinstance(value, dict) and isinstance(value.get("role"), str)
    return has_role and ("content" in value or "parts" in value)


def _part_value(part: Any) -> Any:
    """The text of a part; another part as it is."""
    if isinstance(part, dict) and part.get("type") == "text":
        return next((part[name] for name in ("text", "content") if isinstance(part.get(name), str)), part)
    return part


def _row(call: Mapping[str, Any], width: int | None, *, is_shown: bool = False) -> StyledLine:
    symbol, style = call_look(call["status"])
    took = duration_text(call["duration_ms"]) if call["duration_ms"] is not None else "…"
    head = f"{call['call_id']}  {call['name']}  {took}"
    outcome = call["error"] or call["output_preview"]
    texts = [head, *(text for text in (call["input_preview"], outcome) if text)]
    text = "  ".join(texts).splitlines()[0]
    room = None if width is None else width - len(_INDENT) - 2
    return [
        Segment(_INDENT),
        Segment(f"{symbol} ", style),
        Segment(text if room is None else fit(text, room), "strong" if is_shown else ""),
    ]
