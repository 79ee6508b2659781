"""What one line of an agent's output holds, whichever agent printed it: blocks, and the agent's report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    repeats_start: bool = False  # the use of a tool, repeated by the line that ends it


class Reported(StrEnum):
    """What an agent says of the outcome of its turn, from the best to the worst."""

    SUCCESS = "success"
    LIMITED = "limited"  # success, but a limit cut the work short
    DENIED = "denied"  # success, but the agent was refused tools that it asked for
    UNCLEAR = "unclear"  # a result in words that no table knows
    FAILURE = "failure"

    @property
    def severity(self) -> int:
        """Of several reports in one turn, the one with the highest severity counts."""
        return list(Reported).index(self)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The agent's report of how its turn went."""

    reported: Reported
    reason: str | None = None  # None only for success
    fields: Mapping[str, object] = field(default_factory=dict)


STATUSES: Mapping[str, Reported] = {  # the `status` of a result that is a success otherwise
    "": Reported.SUCCESS,
    "completed": Reported.SUCCESS,
    "success": Reported.SUCCESS,
    "incomplete": Reported.LIMITED,
    "failed": Reported.FAILURE,
    "error": Reported.FAILURE,
    "interrupted": Reported.FAILURE,
    "cancelled": Reported.FAILURE,
}


def classify_stop(
    line: Mapping[str, object], field: str, table: Mapping[str, Reported]
) -> tuple[Reported, str | None]:
    """What a field of a result means by this table, and why that is not a success."""
    word = as_text(line.get(field))
    found = table.get(word, Reported.UNCLEAR)
    if found is Reported.SUCCESS:
        return found, None
    if found is Reported.LIMITED:
        return found, f"the agent stopped at a limit: {word}"
    return found, f"the agent stopped with {field} {word!r}"


MOST_NAMED = 5  # tools in one message


def denial_reason(tools: Iterable[str]) -> str:
    """Why a success with denied tools is none; each tool is named once."""
    return f"the agent was denied permission: {', '.join(list(dict.fromkeys(tools))[:MOST_NAMED])}"


def apply_denials(report: AgentReport | None, denied: Iterable[str]) -> AgentReport | None:
    """The report beside the tools that were denied during the turn: a success with denials is `DENIED`."""
    names = sorted(denied)
    if report is None or not names or report.reported.severity >= Reported.DENIED.severity:
        return report
    return AgentReport(Reported.DENIED, denial_reason(names), report.fields)


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """Everything one line says."""

    blocks: tuple[BlockContent, ...] = ()
    report: AgentReport | None = None
    rest: Mapping[str, object] | None = None  # the line, without what became blocks
    uuid: str | None = None  # the line's own name for itself
    parent_tool_use_id: str | None = None  # the call in which a second agent says it


LineReading = Callable[[Mapping[str, object]], ParsedLine]
"""Reads the object on a line of one type."""


def as_text(value: object) -> str:
    """The value as it is shown in a message."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
