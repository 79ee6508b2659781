"""One line that distinguishes an event or a call from its siblings: a preview of its content.

The page has the same rules in `core/preview.js`. The cost is bounded: of a long text, a large map and a large
list only the beginning is read, or the size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from longwatch.model.endings import ENDS, warning_count
from longwatch.model.event import Event, error_of, text_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PREVIEW_CHARACTERS = 120
_FIELD_CHARACTERS = 60  # of a value after its name
_SAMPLED = 4  # characters that are read for each one shown, because gaps and colours shrink
_MOST_FIELDS, _MOST_ITEMS, _SMALL = 40, 8, 2  # of maps and lists; levels of maps inside fields
_DEEPEST = 4

_MESSAGES = ("message", "text", "line", "data")  # lead in an event that is not of a call
_DISTINCTIVE = {
    name: rank
    for rank, names in enumerate(
        (
            ("command", "cmd", "script", "sql"),
            ("query", "q", "question", "search", "pattern"),
            ("url", "uri", "endpoint"),
            ("path", "file_path", "filename", "file", "key"),
            ("prompt", "messages", "instruction", "instructions", "task", "request"),
            ("input", "topic", "subject", "title", "headline", "symbol", "name"),
            ("text", "message", "content", "description", "summary"),
        ),
        start=len(_MESSAGES),
    )
    for name in names
}
_NAMED, _SCALAR, _ID, _CONTAINER, _SETTING = 100, 101, 102, 103, 104  # ranks below _NAMED need no name
_SETTINGS = _words("""
    self cls ctx context config configuration settings options client session headers timeout timeout_seconds
    retries max_retries temperature top_p top_k seed max_tokens stream streaming model model_name provider
    verbose debug callbacks metadata encoding api_key
""")
_ENVELOPE = _words("""
    operation tool_name name system status agent_name role node_id node_name node_type kind attributes
    duration_ms execution_time_ms error_message error error_code traceback tool_use_id line_number after_line
    item recorded_by trace_id span_id conversation_id session_id input parameters arguments args output result
    response
""")  # fields of the events of calls that are shown elsewhere, or distinguish nothing
INPUTS = ("input", "parameters", "arguments", "args")
MODEL_INPUTS = ("input", "messages", "prompt")  # its parameters are settings
OUTPUTS = ("output", "result", "response")
_OUTCOMES = ("message", "text", "result", "output", "name", "status")  # of an event that ends a run
_CALLS = frozenset({"tool_call", "model_call", "agent_start", "agent_end", "node_start", "node_stop"})
_RANKS = {**dict.fromkeys(_SETTINGS, _SETTING), **_DISTINCTIVE}
_ROLES = frozenset({"human", "ai", "tool", "system"})  # types of messages without a role
_REDACTED = "[REDACTED]"

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_GAP = re.compile(
    "[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028-\u202f\u205f\u2066-\u2069\u3000\ud800-\udfff\ufeff]+"
)
_SHORTENED = re.compile(r"…\[shortened, [0-9,]+ characters\]\Z")
_MARKER_CHARACTERS = 60
_ADDRESS = re.compile(r"<[^\n]* at 0x[0-9a-f]+>\Z")  # an object without a text of its own


# Kinds of values; an enum would take most of the time.
_TEXT, _NUMBER, _WORD, _MAP, _LIST, _SET, _BYTES, _OTHER = range(1, 9)
_KINDS: Mapping[type, int] = {
    str: _TEXT,
    int: _NUMBER,
    float: _NUMBER,
    bool: _WORD,
    type(None): _WORD,
    dict: _MAP,
    list: _LIST,
    tuple: _LIST,
    set: _SET,
    frozenset: _SET,
    bytes: _BYTES,
}
_CONTAINERS = frozenset({_MAP, _LIST, _SET, _BYTES})


def event_preview(event: Event, limit: int = PREVIEW_CHARACTERS) -> str:
    """What the event reports, without the name and the status of its call."""
    payload, error = event.payload, error_of(event.payload)
    if event.type in _CALLS or (event.type == "block" and payload.get("kind") in ("tool_use", "tool_result")):
        if error is not None:
            return one_line(error, limit)
        shown = output_preview(payload, limit) or input_preview(event.type, payload, limit)
        return shown or other_fields_preview(event.type, payload, limit) or ""
    if event.type in _TEXTS:
        return one_line(_TEXTS[event.type](payload), limit)
    if error is not None:
        return one_line(error, limit)
    if event.type in ENDS:
        return _first_preview(payload, _OUTCOMES, limit) or ""
    return _map_preview(payload, limit, 0, _MESSAGES)


def input_preview(type: str, payload: Mapping[str, object], limit: int = PREVIEW_CHARACTERS) -> str | None:
    """The arguments of a call that distinguish it."""
    return _first_preview(payload, MODEL_INPUTS if type == "model_call" else INPUTS, limit)


def output_preview(payload: Mapping[str, object], limit: int = PREVIEW_CHARACTERS) -> str | None:
    """The beginning of the result of a call."""
    return _first_preview(payload, OUTPUTS, limit)


def other_fields_preview(
    type: str, payload: Mapping[str, object], limit: int = PREVIEW_CHARACTERS
) -> str | None:
    """The fields of a call's event where its producer states neither an input nor an output."""
    if type == "model_call" or len(payload) > _MOST_FIELDS:
        return None
    rest = {name: value for name, value in payload.items() if name not in _ENVELOPE}
    return (_map_preview(rest, limit, 0, ()) or None) if rest else None


def one_line(text: str, limit: int = PREVIEW_CHARACTERS) -> str:
    """The beginning of a text without colours, control characters and line breaks."""
    is_whole = len(text) <= limit * _SAMPLED
    shown = _clean(text if is_whole else text[: limit * _SAMPLED])
    return shown if is_whole and len(shown) <= limit else _cut(shown + "…", limit)


def _first_preview(payload: Mapping[str, object], names: Sequence[str], limit: int) -> str | None:
    for name in names:
        value = payload.get(name)
        if value is not None and (shown := _preview(value, limit, 0)):
            return shown
    return None


def _clean(text: str) -> str:
    if not (text.isascii() and text.isprintable()) or "  " in text:
        text = _GAP.sub(" ", _COLOUR.sub("", text))
    return text.strip(" ")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip(" …") + "…"


def _ends(text: str, limit: int) -> str:
    """The text; of a long one the beginning and the end, because siblings often begin alike."""
    room = limit * _SAMPLED
    shown = _clean(text[:room] if len(text) > room else text)
    if text[-1:] == "]" and (marker := _SHORTENED.search(text[-_MARKER_CHARACTERS:])):
        return one_line(text[: len(text) - len(marker[0])] + "…", limit)
    if len(text) <= room and len(shown) <= limit:
        return shown
    last = limit // 3
    end = shown if len(text) <= room else _clean(text[-room:])
    return f"{shown[: limit - last - 3].rstrip(' ')} … {end[-last:].lstrip(' ')}"


def _kind_of(value: object) -> int:
    return _KINDS.get(type(value)) or _kind_of_subclass(value)


def _kind_of_subclass(value: object) -> int:
    if isinstance(value, Mapping):
        return _MAP
    return next((kind for type_, kind in _KINDS.items() if isinstance(value, type_)), _OTHER)


def _preview(value: Any, limit: int, depth: int) -> str:
    kind = _kind_of(value)
    if kind == _TEXT:
        return _ends(value, limit)
    if depth < _DEEPEST:
        if kind == _MAP:
            return _map_preview(value, limit, depth, ())
        if kind == _LIST:
            return _list_preview(value, limit, depth)
    return "" if _is_empty(value) else _brief(value)


def _map_preview(value: Mapping[str, Any], limit: int, depth: int, first: Sequence[str]) -> str:
    """The most distinctive field, then the others; in an event that is not of a call these are all others."""
    if _is_message(value):
        return _message_preview(value, limit, depth)
    if len(value) > _MOST_FIELDS or (depth and _process_text(value)):
        return _brief(value)
    ranked = [
        (_rank(name, each, first), name)
        for name, each in value.items()
        if not _is_empty(each) and name != "…"
    ]
    if not ranked:
        return ""
    ranked.sort()
    lead, lead_name = ranked[0]
    others = [name for rank, name in ranked[1:] if first or rank != _SETTING or lead == _SETTING]
    stands_alone = (lead < _NAMED or not others) and lead != _SETTING
    found, room = value[lead_name], limit * 2 // 3 if others else limit
    kind = _kind_of(found)
    if kind == _TEXT and stands_alone:
        shown = _ends(found, room)
    elif kind in (_MAP, _LIST) and (stands_alone or (lead == _CONTAINER and not first)):
        shown = _preview(found, room, depth + 1)
    else:
        shown = _field(lead_name, found)
    for name in others:
        if len(shown) > limit:
            break
        shown = f"{shown} {_field(name, value[name])}" if shown else _field(name, value[name])
    return _cut(shown, limit)


def _rank(name: str, value: Any, first: Sequence[str]) -> int:
    kind = _kind_of(value)
    if value is False or (
        kind == _TEXT and (value == _REDACTED or (value[0] == "<" and _ADDRESS.match(value[:200])))
    ):
        return _SETTING
    if name in first:
        return first.index(name)
    rank = _RANKS.get(name)
    if rank is not None:
        return rank
    if kind in _CONTAINERS:
        return _CONTAINER
    return _ID if name.endswith("_id") or name == "id" else _SCALAR


def _list_preview(value: Sequence[Any], limit: int, depth: int) -> str:
    if not value:
        return ""
    last = value[-1]
    if _kind_of(last) == _MAP and _is_message(last):
        return _message_preview(last, limit, depth)
    if len(value) == 1:
        return _preview(last, limit, depth + 1)
    sample = value[:_MOST_ITEMS]
    if any(_kind_of(each) in (_MAP, _LIST) for each in sample):
        return _cut(f"{len(value)} items: {_preview(value[0], limit, depth + 1)}", limit)
    rest = ["…"] if len(value) > len(sample) else []
    return _cut(", ".join([*map(_brief, sample), *rest]), limit)


def _is_message(value: Mapping[str, object]) -> bool:
    """Whether this is a message of a conversation with a model."""
    if "content" not in value and "parts" not in value:
        return False
    role, type_ = value.get("role"), value.get("type")
    return isinstance(role, str) or (isinstance(type_, str) and type_ in _ROLES)


def _message_preview(message: Mapping[str, Any], limit: int, depth: int) -> str:
    """The text of a message, else the tool that it calls, else the result that it reports."""
    content: Any = message.get("content")
    if content is None:
        content = message.get("parts")
    if _kind_of(content) != _LIST:
        return _preview(content, limit, depth + 1)
    calls: list[str] = []
    for part in content[:_MOST_ITEMS]:
        kind = _kind_of(part)
        if kind == _TEXT and part:
            return _ends(part, limit)
        if kind != _MAP or part.get("type") in ("reasoning", "thinking"):
            continue
        if text := text_of(part, "text") or (
            text_of(part, "content") if part.get("type") == "text" else None
        ):
            return _ends(text, limit)
        calls.append(_part_preview(part, limit, depth + 1))
    return next(filter(None, calls), "")


def _part_preview(part: Mapping[str, object], limit: int, depth: int) -> str:
    name = text_of(part, "name")
    for field in ("arguments", "input", "content", "result", "response"):
        value = part.get(field)
        if value is not None:
            shown = _preview(value, limit, depth)
            return _cut(f"{one_line(name, _FIELD_CHARACTERS)}: {shown}", limit) if name else shown
    return one_line(name or text_of(part, "media_type", "type") or "", limit)


def _field(name: str, value: object) -> str:
    is_plain = len(name) <= _FIELD_CHARACTERS and name.isidentifier()
    return f"{name if is_plain else one_line(name, _FIELD_CHARACTERS)}={_brief(value)}"


def _brief(value: Any, depth: int = 0) -> str:
    """A value in a list or after its name. Of a large one only the size."""
    kind = _kind_of(value)
    if kind == _TEXT:
        shown = one_line(value, _FIELD_CHARACTERS)
        return f'"{shown}"' if " " in shown or not shown else shown
    if kind == _NUMBER:
        return _number_text(value)
    if kind == _MAP:
        return _brief_map(value, depth)
    if kind == _LIST:
        if len(value) > _MOST_ITEMS or depth >= _SMALL:
            return f"[{len(value)} items]"
        return _cut(f"[{', '.join(_brief(each, depth + 1) for each in value)}]", _FIELD_CHARACTERS)
    if kind == _SET:
        return f"{{{len(value)} items}}"
    if kind == _BYTES:
        return f"{len(value)} bytes"
    if kind == _WORD:
        return "null" if value is None else "true" if value else "false"
    return one_line(str(value), _FIELD_CHARACTERS)


def _brief_map(value: Mapping[str, Any], depth: int) -> str:
    process = _process_text(value)
    if process:
        return process
    if len(value) > _MOST_ITEMS or depth >= _SMALL:
        return f"{{{len(value)} fields}}"
    fields = (
        f"{one_line(name, _FIELD_CHARACTERS)}={_brief(value[name], depth + 1)}" for name in sorted(value)
    )
    return _cut(f"{{{', '.join(fields)}}}", _FIELD_CHARACTERS)


def _process_text(value: Mapping[str, Any]) -> str:
    """`123@host` for the identity of a process, else nothing."""
    pid, host = value.get("pid"), value.get("host")
    if pid is None or _kind_of(pid) != _NUMBER or not isinstance(host, str):
        return ""
    return f"{_number_text(pid)}@{one_line(host, _FIELD_CHARACTERS)}"


def _number_text(value: float) -> str:
    """The number as JavaScript writes it."""
    try:
        number = float(value)
    except OverflowError:
        return "inf"
    if number.is_integer() and abs(number) < 1e16:
        return str(int(number))
    return repr(number).replace("e-0", "e-")


def _is_empty(value: Any) -> bool:
    return value is None or (not value and _kind_of(value) not in (_NUMBER, _WORD, _OTHER))


def _block_text(payload: Mapping[str, object]) -> str:
    return f"{text_of(payload, 'kind') or 'block'}: {text_of(payload, 'text') or ''}"


def _line_text(payload: Mapping[str, object]) -> str:
    return _preview(payload.get("line"), PREVIEW_CHARACTERS, 0)


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
    if not isinstance(warnings, list | tuple) or not warnings:
        return verdict
    texts = [each for each in warnings[:_MOST_ITEMS] if isinstance(each, str)]
    count = warning_count(payload)
    return f"{verdict}; {count:,} warning{'' if count == 1 else 's'}: {'; '.join(texts)}"


def _unreadable_text(payload: Mapping[str, object]) -> str:
    return f"position {_brief(payload.get('position'))}: {text_of(payload, 'reason') or ''}"


def _printed_text(payload: Mapping[str, object]) -> str:
    text = text_of(payload, "text") or ""
    return f"stderr: {text}" if payload.get("stream") == "stderr" else text


_TEXTS = {
    "unreadable_event": _unreadable_text,
    "block": _block_text,
    "block_delta": _block_text,
    "output": _printed_text,
    "turn_line": _line_text,
    "turn_result": lambda payload: text_of(payload, "error_message", "result", "reported") or "",
    "turn_end_claimed": lambda payload: text_of(payload, "ends_as") or "",
    "execution_started": _started_text,
    "job_transition": _transition_text,
    "server_transition": _transition_text,
    "action_transition": _transition_text,
    "execution_ended": _verdict_text,
    "execution_corrected": _verdict_text,
}
