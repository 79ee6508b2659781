"""Lines of stream-JSON, as coding agents print them, read as the blocks of a turn.

A message of the assistant holds text, thoughts and tool calls, one of the user holds the tools' results, and
a `result` ends the turn. Whatever else a line says is kept beside the blocks, so nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from longwatch.events import number_of, text_of

MESSAGES = frozenset({"assistant", "user"})
RESULT = "result"


class BlockKind(StrEnum):
    """What a block is; the words of the wire."""

    THINKING = "thinking"
    CONTENT = "content"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True)
class BlockContent:
    """One block as a line tells it."""

    kind: BlockKind
    fields: Mapping[str, object]
    tool_use_id: str | None = None  # of a call: shared by its use and its result


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How the agent says that its turn ended."""

    failed: bool
    fields: Mapping[str, object]

    @property
    def type(self) -> str:
        return "turn_failed" if self.failed else "turn_completed"


@dataclass(frozen=True, slots=True)
class Said:
    """Everything one line says."""

    blocks: tuple[BlockContent, ...] = ()
    end: TurnEnd | None = None
    rest: Mapping[str, object] | None = None  # the line, without what became blocks
    uuid: str | None = None  # the line's own name for itself
    parent_tool_use_id: str | None = None  # the call in which a second agent says it


def blocks_of(line: str | Mapping[str, object]) -> tuple[BlockContent, ...]:
    """The blocks of one line, in their order. ValueError if text is not a JSON object."""
    return said(read_line(line) if isinstance(line, str) else line).blocks


def read_line(text: str) -> Mapping[str, object]:
    """The object on a line. ValueError says what is wrong with it, to go on from "Line 3 "."""
    try:
        value = _decoder.decode(text.strip())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("is JSON, but not an object")
    return value


def said(line: Mapping[str, object]) -> Said:
    """What the object on a line says."""
    kind = text_of(line, "type")
    uuid, parent = text_of(line, "uuid"), text_of(line, "parent_tool_use_id")
    if kind == RESULT:
        return Said(end=_end(line), uuid=uuid, parent_tool_use_id=parent)
    blocks: list[BlockContent] = []
    unread: list[object] = []
    if kind in MESSAGES:
        for item in _items(line):
            block = _assistant_block(item) if kind == "assistant" else _user_block(item)
            if block is None:
                unread.append(item)
            else:
                blocks.append(block)
    rest = None
    if not blocks:
        rest = line
    elif unread:
        rest = {"type": kind, "message": {"content": unread}}
    return Said(tuple(blocks), rest=rest, uuid=uuid, parent_tool_use_id=parent)


def _items(line: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, Mapping) else line.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        for item in content:
            yield item if isinstance(item, Mapping) else {"type": "text", "text": item}


def _assistant_block(item: Mapping[str, object]) -> BlockContent | None:
    match item.get("type"):
        case "text" if isinstance(text := item.get("text"), str):
            return BlockContent(BlockKind.CONTENT, {"text": text})
        case "thinking" if isinstance(text := item.get("thinking", item.get("text")), str):
            return BlockContent(BlockKind.THINKING, {"text": text})
        case "tool_use":
            call = text_of(item, "id")
            return BlockContent(
                BlockKind.TOOL_USE,
                {
                    "tool_use_id": call or "",
                    "tool_name": text_of(item, "name") or "tool",
                    "parameters": item.get("input", {}),
                },
                call,
            )
    return None


def _user_block(item: Mapping[str, object]) -> BlockContent | None:
    if item.get("type") != "tool_result":
        return None
    call = text_of(item, "tool_use_id")
    result = _plain_result(item.get("content"))
    failed = item.get("is_error") is True
    return BlockContent(
        BlockKind.TOOL_RESULT,
        {
            "tool_use_id": call or "",
            "result": result,
            "error": (_as_text(result) or "the tool failed") if failed else None,
        },
        call,
    )


def _plain_result(content: object) -> object:
    """Text if the content is nothing but text, else as it is: an image keeps its form."""
    if not isinstance(content, list):
        return content
    texts = [item.get("text") for item in content if isinstance(item, Mapping) and item.get("type") == "text"]
    if len(texts) == len(content) and all(isinstance(text, str) for text in texts):
        return "\n".join(text for text in texts if isinstance(text, str))
    return content


def _end(line: Mapping[str, object]) -> TurnEnd:
    subtype = text_of(line, "subtype") or ""
    failed = line.get("is_error") is True or subtype.startswith("error")
    fields: dict[str, object] = {}
    result = line.get("result")
    if failed:
        errors = line.get("errors")
        told = _as_text(errors) if isinstance(errors, list) and errors else None
        fields["error_message"] = _as_text(result) or text_of(line, "error") or told or subtype or "failed"
    elif result is not None:
        fields["result"] = result
    duration = number_of(line, "duration_ms")
    if duration is not None:
        fields["duration_ms"] = duration
    for name in ("usage", "num_turns", "total_cost_usd", "session_id"):
        if line.get(name) is not None:
            fields[name] = line[name]
    return TurnEnd(failed, fields)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
