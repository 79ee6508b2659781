"""The content of a line of any coding agent: blocks, and the agent's report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class BlockKind(StrEnum):
    """The kinds of blocks, as on the wire."""

    THINKING = "thinking"
    CONTENT = "content"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True)
class BlockContent:
    kind: BlockKind
    fields: Mapping[str, object]
    tool_use_id: str | None = None  # shared by the use of a tool and its result
    repeats_start: bool = False  # the line that ends the use of a tool repeats it


class Reported(StrEnum):
    """The outcomes that an agent reports, from the best to the worst."""

    SUCCESS = "success"
    LIMITED = "limited"  # success, but a limit cut the work short
    DENIED = "denied"  # success, but the agent was denied tools that it requested
    UNCLEAR = "unclear"  # a status that no table has
    FAILURE = "failure"

    @property
    def severity(self) -> int:
        """Of several reports in a turn, the one with the highest severity counts."""
        return list(Reported).index(self)


@dataclass(frozen=True, slots=True)
class AgentReport:
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
    """The outcome of a result's field by this table, and the reason unless it is a success."""
    word = as_text(line.get(field))
    found = table.get(word, Reported.UNCLEAR)
    if found is Reported.SUCCESS:
        return found, None
    if found is Reported.LIMITED:
        return found, f"the agent stopped at a limit: {word}"
    return found, f"the agent stopped with {field} {word!r}"


MAX_TOOLS_NAMED = 5  # tools in one message


def denial_reason(tools: Iterable[str]) -> str:
    """The reason why a success with denied tools is not a plain success. Each tool is named once."""
    return f"the agent was denied permission: {', '.join(list(dict.fromkeys(tools))[:MAX_TOOLS_NAMED])}"


def apply_denials(report: AgentReport, denied: Iterable[str]) -> AgentReport:
    """The report, given the tools that were denied during the turn: a success with denials is `DENIED`."""
    names = sorted(denied)
    if not names or report.reported.severity >= Reported.DENIED.severity:
        return report
    return AgentReport(Reported.DENIED, denial_reason(names), report.fields)


@dataclass(frozen=True, slots=True)
class StreamFragment:
    """A line of a message that is still streaming. A later line repeats its content, so it is not stored."""

    kind: BlockKind | None = None  # of the block to which it adds text
    text: str = ""
    starts_block: bool = False  # of this kind, or of one whose content is not streamed


@dataclass(frozen=True, slots=True)
class WaitChange:
    """A request of the agent to its user, for which it waits; or, without a reason, the response to it."""

    id: str
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    blocks: tuple[BlockContent, ...] = ()
    report: AgentReport | None = None
    rest: Mapping[str, object] | None = None  # the line, without what became blocks
    fragment: StreamFragment | None = None
    wait: WaitChange | None = None
    uuid: str | None = None  # of the line itself
    parent_tool_use_id: str | None = None  # the call in which a subagent printed it


LineParser = Callable[[Mapping[str, object]], ParsedLine]
"""Parses the JSON object of a line of one type."""


def as_text(value: object) -> str:
    """The value as text for a message."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
