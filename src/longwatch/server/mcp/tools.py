"""The tools: their names, arguments and results, in one table."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import TypeAdapter, ValidationError

from longwatch.errors import InvalidInput
from longwatch.server.errors import field_of
from longwatch.server.mcp import explain, notes, own_run, runs, waiting
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.results import (
    Differences,
    EventsFound,
    EventsRead,
    Explanation,
    NoteRecorded,
    OwnRun,
    RunReport,
    RunsFound,
    ToolResult,
    Verified,
    WaitOutcome,
)
from longwatch.server.mcp.texts import text_of
from longwatch.server.responses import to_json

MOST_MISTAKES = 5  # that an error names


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool."""

    name: str
    title: str
    about: str
    arguments: type
    result: type
    call: Callable[[ToolBox, Any], Awaitable[ToolResult]]
    writes: bool = False


TOOLS: Mapping[str, ToolEntry] = {
    entry.name: entry
    for entry in (
        ToolEntry(
            "list_runs",
            "List runs",
            "List runs, newest first, with their status at this moment: which failed, died, or still run.",
            runs.ListRuns,
            RunsFound,
            runs.list_runs,
        ),
        ToolEntry(
            "search_events",
            "Search events",
            "Search the text of the events of all runs, the latest first.",
            runs.SearchEvents,
            EventsFound,
            runs.search_events,
        ),
        ToolEntry(
            "show_run",
            "Show a run or a call",
            "Show a run: its status, error, tokens and the tree of its calls; calls that repeat share a row. "
            "With `call`, show one call: its arguments, result, error and traceback.",
            runs.ShowRun,
            RunReport,
            runs.show_run,
        ),
        ToolEntry(
            "explain_run",
            "Explain a run",
            "Explain why a run is what it is: who stated its status, its conditions, what it waits for, what "
            "is in progress, and the calls that lead to its failure; of an execution in another system, its "
            "verdict with the evidence.",
            explain.ExplainRun,
            Explanation,
            explain.explain_run,
        ),
        ToolEntry(
            "compare_runs",
            "Compare two runs",
            "Compare two runs: their calls side by side, with what differs and the first difference.",
            runs.CompareRuns,
            Differences,
            runs.compare_runs,
        ),
        ToolEntry(
            "verify_run",
            "Verify a run",
            "Verify that no event of a run is missing or altered.",
            runs.VerifyRun,
            Verified,
            runs.verify_run,
        ),
        ToolEntry(
            "wait_for_run",
            "Wait for a run",
            "Wait until a run has ended, or until the timeout, and return the reason. A run without an "
            "ending is still running, however long it is silent.",
            waiting.WaitForRun,
            WaitOutcome,
            waiting.wait_for_run,
        ),
        ToolEntry(
            "read_events",
            "Read events",
            "Read the events of a run in order, from the start or after the cursor of an earlier call.",
            runs.ReadEvents,
            EventsRead,
            runs.read_events,
        ),
        ToolEntry(
            "my_run",
            "My own run",
            "Read the state of the run that you are part of: its status, the time to its deadline, the "
            "tokens used so far, what it waits for, and its last failures.",
            own_run.MyRun,
            OwnRun,
            own_run.my_run,
        ),
        ToolEntry(
            "record_note",
            "Record a note",
            "Append a note to the events of a run, for the people and programs that read it later.",
            notes.RecordNote,
            NoteRecorded,
            notes.record_note,
            writes=True,
        ),
    )
}


@cache
def listed(entry: ToolEntry) -> Tool:
    """The tool as clients see it. Both schemas derive from dataclasses."""
    return Tool(
        name=entry.name,
        title=entry.title,
        description=entry.about,
        input_schema=_without_titles(_adapter(entry.arguments).json_schema()),
        output_schema=_without_titles(_adapter(entry.result).json_schema(mode="serialization")),
        annotations=ToolAnnotations(
            read_only_hint=not entry.writes,
            destructive_hint=False,
            idempotent_hint=not entry.writes,
            open_world_hint=False,
        ),
    )


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)  # type: ignore[arg-type]  # a type, which mypy sees as unhashable


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic derives from names: a model pays for each word."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_titles(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }


async def call(entry: ToolEntry, box: ToolBox, arguments: Mapping[str, Any]) -> CallToolResult:
    """The result of a call, as text and as structured content."""
    result = await entry.call(box, parse(entry, arguments))
    text, content = await box.context.call(_encode, result)
    return CallToolResult(content=[TextContent(text=text)], structured_content=content)


def parse(entry: ToolEntry, arguments: Mapping[str, Any]) -> Any:
    """The arguments as the tool's own type. The error names each mistake."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"Invalid arguments for {entry.name}: they have half a character.") from error
    try:
        return _adapter(entry.arguments).validate_python(dict(arguments))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        mistakes = [f"{field_of(['', *each['loc']])}: {each['msg']}" for each in found[:MOST_MISTAKES]]
        known = ", ".join(listed(entry).input_schema.get("properties", {})) or "none"
        raise InvalidInput(
            f"Invalid arguments for {entry.name}: {'; '.join(mistakes)}. Its arguments: {known}."
        ) from error


def _encode(result: ToolResult) -> tuple[str, Any]:
    """The text, and plain JSON values. A lone surrogate of another producer is replaced: it has no UTF-8."""
    text = text_of(result).encode(errors="replace").decode()
    return text, json.loads(to_json(result).decode().encode(errors="replace"))
