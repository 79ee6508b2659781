"""Parses the JSON lines of coding agents into blocks of a turn and the agent's report.

The `type` of a line identifies the dialect; no two dialects share one. The rest of a line is stored next to
its blocks, so nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from longwatch.model.event import text_of
from longwatch.turns.dialects.claude_code import CLAUDE_CODE
from longwatch.turns.dialects.codex import CODEX
from longwatch.turns.dialects.messages import (
    AgentReport,
    BlockContent,
    BlockKind,
    LineParser,
    ParsedLine,
    Reported,
    StreamFragment,
)

__all__ = [
    "AgentReport",
    "BlockContent",
    "BlockKind",
    "ParsedLine",
    "Reported",
    "blocks_of",
    "read_line",
    "said",
]

PARSERS: Mapping[str, LineParser] = {**CLAUDE_CODE, **CODEX}


def blocks_of(line: str | Mapping[str, object]) -> tuple[BlockContent, ...]:
    """The blocks of one line, in their order. ValueError if text is not a JSON object."""
    return parse_object(read_line(line) if isinstance(line, str) else line).blocks


def report_of(text: str) -> AgentReport | None:
    """The agent's report in a line of its output, if the line has one."""
    try:
        return parse_object(read_line(text)).report
    except ValueError:
        return None


def may_report(text: str) -> bool:
    """Whether a line may have the agent's report, without parsing it: most lines do not."""
    return '"result"' in text or '"turn.' in text


def is_fragment(text: str) -> bool:
    """Whether a line is part of a message that is still streaming, without parsing it."""
    return text.lstrip().startswith('{"type":"stream_event"') or '"type": "stream_event"' in text[:200]


def read_line(text: str) -> Mapping[str, object]:
    """The JSON object in a line. The text of the ValueError continues "Line 3 "."""
    try:
        value = _decoder.decode(text.strip())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("is JSON, but not an object")
    return value


def parse_object(line: Mapping[str, object]) -> ParsedLine:
    parser = PARSERS.get(text_of(line, "type") or "")
    found = parser(line) if parser is not None else ParsedLine(rest=line)
    parent = text_of(line, "parent_tool_use_id")
    if parent is not None and found.report is not None:
        found = ParsedLine(rest=line)  # the report of a subagent, inside a call of the main agent
    elif parent is not None and found.fragment is not None:
        found = ParsedLine(fragment=StreamFragment())  # several subagents may stream at the same time
    return replace(found, uuid=text_of(line, "uuid"), parent_tool_use_id=parent)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
