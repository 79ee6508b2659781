"""Messages of model calls in events: `{"role", "content"}`, where content is text or a list of parts.

A part has a `type`: text, reasoning, tool_call, tool_result, image, audio, file, or the provider's own word.
Images, audio and files are reduced to media type and size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = dict[str, object]
Part = dict[str, object]


def read(value: object, name: str) -> Any:
    """A field of a mapping or an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def message(role: object, parts: Iterable[Part]) -> Message:
    """A message; its content is plain text if it has no other parts."""
    listed = list(parts)
    if all(part["type"] == "text" for part in listed):
        return {"role": str(role), "content": "".join(str(part["text"]) for part in listed)}
    return {"role": str(role), "content": listed}


def text_part(text: object) -> Part:
    return {"type": "text", "text": "" if text is None else str(text)}


def reasoning_part(text: object) -> Part:
    return {"type": "reasoning", "text": "" if text is None else str(text)}


def tool_call_part(call_id: object, name: object, arguments: object) -> Part:
    """A tool that the model calls. Arguments in JSON are decoded if they are complete."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": decode_arguments(arguments)}


def tool_result_part(call_id: object, content: object) -> Part:
    return {"type": "tool_result", "id": call_id, "content": content}


def media_part(kind: str, *, media_type: object = None, data: object = None) -> Part:
    """An image, audio or file without its content. `data` is bytes, base64 text or a data URL."""
    part: Part = {"type": kind}
    if isinstance(data, str) and data.startswith("data:"):
        head, _, data = data.partition(",")
        media_type = media_type or head.removeprefix("data:").partition(";")[0]
    elif isinstance(data, str) and data.startswith(("http:", "https:")):
        data = None  # its size is unknown, and the URL may be signed
    if media_type:
        part["media_type"] = str(media_type)
    if isinstance(data, bytes | bytearray):
        part["size"] = len(data)
    elif isinstance(data, str):
        part["size"] = len(data) * 3 // 4 - data[-2:].count("=")
    return part


def decode_arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def parameters_of(body: Mapping[str, Any], *, content: Sequence[str]) -> dict[str, object]:
    """The parameters of a request: all but its `content` fields, with the names of the tools."""
    found: dict[str, object] = {}
    for name, value in body.items():
        if name in content or value is None:
            continue
        if _is_plain(value):
            found[name] = value
        elif isinstance(value, Mapping):
            plain = {key: each for key, each in value.items() if _is_plain(each)}
            if plain:
                found[name] = plain
        elif isinstance(value, list | tuple) and all(_is_plain(each) for each in value):
            found[name] = list(value)
    return found


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
