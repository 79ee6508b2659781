"""Messages of model calls in one shape, from the shapes that instrumentations write.

A message is `{"role", "content"}`; its content is text or a list of parts: `text`, `reasoning`, `tool_call`,
`tool_result`, and media such as `image`, of which only the media type and the size are recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from longwatch.telemetry.span import Attributes

MEDIA = {"image": "image", "audio": "audio", "video": "video", "file": "file", "document": "file"}


def decode_json(value: object) -> object:
    """Decode JSON in a text, so that secrets in it can be recognised by the names of their fields."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # not JSON after all
    return value


def messages_of(value: object, *, role: str) -> list[dict[str, object]] | None:
    """The messages in an attribute: a list of messages, one message, or text; None if there are none."""
    decoded = decode_json(value)
    if decoded is None or decoded == []:
        return None
    given = decoded if isinstance(decoded, list) else [decoded]
    if given and all(isinstance(each, Mapping) and "role" not in each for each in given):
        return [{"role": role, "content": _content(given)}]  # parts of one message
    return [message_of(each, role=role) for each in given]


def message_of(value: object, *, role: str) -> dict[str, object]:
    """One message. A message that states no role has the given one."""
    if not isinstance(value, Mapping):
        return {"role": role, "content": _content(value)}
    found: dict[str, object] = {"role": value.get("role") or role}
    parts = value["parts"] if "parts" in value else value.get("content")
    content = _content(_decode_parts(parts))
    calls = value.get("tool_calls")
    if isinstance(calls, list) and calls:
        whole = (
            content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        )
        content = [*whole, *(_tool_call(_flat_call(call)) for call in calls)]
    found["content"] = content if content is not None else ""
    if value.get("tool_call_id"):
        result = {"type": "tool_result", "id": value["tool_call_id"], "result": found["content"]}
        found["content"] = [result]
    return found


def _decode_parts(value: object) -> object:
    """Parts that are written as JSON. Text that a model wrote as JSON stays text."""
    decoded = decode_json(value)
    is_parts = isinstance(decoded, list) and all(isinstance(each, Mapping) for each in decoded)
    return decoded if is_parts else value


def _content(value: object) -> object:
    """Text, or a list of parts. A single part of text is that text."""
    if not isinstance(value, list):
        return [part_of(value)] if isinstance(value, Mapping) else value
    parts = [part_of(each) for each in value]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def part_of(value: object) -> dict[str, object]:
    """One part of a message, as OpenAI, Anthropic, Bedrock or the GenAI conventions write it."""
    if not isinstance(value, Mapping):
        return {"type": "text", "text": value}
    kind = value.get("type")
    if "toolUse" in value or kind in ("tool_call", "tool_use", "server_tool_use", "function"):
        return _tool_call(value.get("toolUse") or value)
    if "toolResult" in value or str(kind).endswith(("tool_call_response", "tool_result")):
        return _tool_result(value.get("toolResult") or value)
    for word in MEDIA:
        if word in value or kind in (word, f"{word}_url", f"input_{word}") or value.get("modality") == word:
            return _media(word, value)
    if "reasoningContent" in value or kind in ("reasoning", "thinking"):
        reasoning = _inner(value, "reasoningContent", "reasoningText")
        return {"type": "reasoning", "text": _first(reasoning, "content", "text", "thinking")}
    text = _first(value, "text", "content")
    return {"type": "text", "text": text} if text is not None else dict(value)


def _tool_call(value: Mapping[str, Any]) -> dict[str, object]:
    call = _flat_call(value)
    arguments = decode_json(_first(call, "arguments", "input"))
    found = {"id": _first(call, "id", "toolUseId"), "name": call.get("name"), "arguments": arguments}
    return {"type": "tool_call"} | {name: item for name, item in found.items() if item is not None}


def _flat_call(value: object) -> dict[str, Any]:
    """A tool call whose function, as OpenAI nests it, is on the same level as its id."""
    if not isinstance(value, Mapping):
        return {"name": str(value)}
    function = value.get("function") or value.get("custom")
    return {**value, **function} if isinstance(function, Mapping) else dict(value)


def _tool_result(value: Mapping[str, Any]) -> dict[str, object]:
    result = decode_json(_first(value, "response", "result", "content"))
    if isinstance(result, list) and result and all(isinstance(each, Mapping) for each in result):
        result = _content(result)  # it may hold images
    found = {"id": _first(value, "id", "toolUseId", "tool_use_id", "tool_call_id"), "result": result}
    return {"type": "tool_result"} | {name: item for name, item in found.items() if item is not None}


def _inner(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """What the value holds under the names, each inside the one before, as far as they go."""
    for name in names:
        if isinstance(value.get(name), Mapping):
            value = value[name]
    return value


def _media(word: str, value: Mapping[str, Any]) -> dict[str, object]:
    source = _first(value, "source", word, f"{word}_url", f"input_{word}", "file") or value
    source = _inner(source, word) if isinstance(source, Mapping) else {"url": source}
    content = _inner(source, "source")
    data = _first(content, "data", "content", "bytes", "url", "uri", "file_data")
    media_type = _first(value, "mime_type", "media_type") or _first(
        source, "media_type", "mime_type", "format"
    )
    if isinstance(media_type, str) and "/" not in media_type:
        media_type = f"{MEDIA[word]}/{media_type}"  # a format alone
    if isinstance(data, str) and data.startswith("data:"):
        media_type = media_type or data[5:].partition(";")[0]
        data = data.partition(",")[2]
    found: dict[str, object] = {"type": MEDIA[word], "media_type": media_type}
    if isinstance(data, str | bytes) and not str(data[:8]).startswith(("http", "gs://", "s3://", "file:")):
        found["bytes"] = len(data) * 3 // 4 - data[-2:].count("=") if isinstance(data, str) else len(data)
    return {name: item for name, item in found.items() if item is not None}


def _first(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def unflatten(attributes: Attributes, prefix: str) -> list[Any]:
    """The list under `prefix` that a dialect spreads over attributes: `prefix.0.role`, `prefix.0.content`."""
    root: dict[str, Any] = {}
    start = len(prefix) + 1
    for name, value in attributes.items():
        if not name.startswith(prefix) or name[start - 1 : start] != ".":
            continue
        *path, last = name[start:].split(".")
        node = root
        for part in path:
            inner = node.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        node[last] = value
    return _as_list(root) if root else []


def _as_list(node: dict[str, Any]) -> list[Any]:
    indexes = sorted((key for key in node if key.isdigit()), key=int)
    return [_nested(node[key]) for key in indexes]


def _nested(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return _as_list(value)
    return {key: _nested(item) for key, item in value.items()}


def merge_inner(values: Iterable[Any], inner: str) -> list[dict[str, Any]]:
    """Each item without its envelope: `[{"message": {...}}]` becomes `[{...}]`."""
    found = []
    for each in values:
        wrapped = each.get(inner) if isinstance(each, dict) else None
        if isinstance(wrapped, dict):
            found.append(wrapped)
    return found
