"""The dialect of Codex (`codex exec --json`), as a table from `type` to its parser.

An item is a message, a thought or the use of a tool; `turn.completed`, `turn.failed` and `turn.aborted`
report the outcome. A line of type `error` is not a report: Codex also prints it for a lost connection, and
then retries. A declined tool counts against the report, because `turn.completed` does not mention it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longwatch.model.event import text_of
from longwatch.turns.dialects.messages import (
    STATUSES,
    AgentReport,
    BlockContent,
    BlockKind,
    LineParser,
    ParsedLine,
    Reported,
    as_text,
    classify_stop,
)

DECLINED = "declined"
FAILED_STATUSES = frozenset({"failed", DECLINED})
STOPS: Mapping[str, Mapping[str, Reported]] = {  # fields of `turn.completed` that can contradict success
    "status": STATUSES,
    "stop_reason": {"": Reported.SUCCESS, "stop": Reported.SUCCESS, "max_output_tokens": Reported.LIMITED},
}

_Item = Mapping[str, object]


def _command(item: _Item) -> tuple[str, object, object]:
    return "command_execution", {"command": item.get("command")}, item.get("aggregated_output")


def _file_change(item: _Item) -> tuple[str, object, object]:
    return "file_change", {"changes": item.get("changes")}, item.get("status")


def _mcp_call(item: _Item) -> tuple[str, object, object]:
    names = [name for name in (text_of(item, "server"), text_of(item, "tool")) if name]
    return ".".join(names) or "mcp_tool_call", item.get("arguments"), item.get("result")


def _web_search(item: _Item) -> tuple[str, object, object]:
    return "web_search", {"query": item.get("query")}, item.get("results")


TOOLS: Mapping[str, Callable[[_Item], tuple[str, object, object]]] = {
    # type of item -> name, parameters and result of the tool
    "command_execution": _command,
    "file_change": _file_change,
    "mcp_tool_call": _mcp_call,
    "web_search": _web_search,
}
TEXTS: Mapping[str, BlockKind] = {"agent_message": BlockKind.CONTENT, "reasoning": BlockKind.THINKING}


def _item_started(line: Mapping[str, object]) -> ParsedLine:
    item = line.get("item")
    if isinstance(item, Mapping) and text_of(item, "type") in TOOLS:
        return ParsedLine((_use(item),))
    return ParsedLine(rest=line)


def _item_completed(line: Mapping[str, object]) -> ParsedLine:
    item = line.get("item")
    kind = text_of(item, "type") if isinstance(item, Mapping) else None
    if isinstance(item, Mapping) and kind in TOOLS:
        # Some tools have no start line, so the end line repeats the start.
        return ParsedLine((_use(item, repeats_start=True), _result(item)))
    if isinstance(item, Mapping) and kind in TEXTS and isinstance(text := item.get("text"), str):
        return ParsedLine((BlockContent(TEXTS[kind or ""], {"text": text}),))
    return ParsedLine(rest=line)


def _use(item: _Item, *, repeats_start: bool = False) -> BlockContent:
    name, parameters, _ = TOOLS[str(item["type"])](item)
    call = text_of(item, "id")
    fields = {"tool_use_id": call or "", "tool_name": name, "parameters": parameters or {}}
    return BlockContent(BlockKind.TOOL_USE, fields, call, repeats_start)


def _result(item: _Item) -> BlockContent:
    name, _, result = TOOLS[str(item["type"])](item)
    call = text_of(item, "id")
    fields = {"tool_use_id": call or "", "result": result, "error": _error(item)}
    if item.get("status") == DECLINED:
        fields["denied"] = name
    return BlockContent(BlockKind.TOOL_RESULT, fields, call)


def _error(item: _Item) -> str | None:
    """Why the tool failed; None if it did not."""
    error, code, status = item.get("error"), item.get("exit_code"), item.get("status")
    if error:
        return _message(error)
    if isinstance(code, int) and code != 0:
        return f"exit code {code}"
    return status if isinstance(status, str) and status in FAILED_STATUSES else None


def _turn_completed(line: Mapping[str, object]) -> ParsedLine:
    fields = {"usage": line["usage"]} if line.get("usage") else {}
    turn = line.get("turn")  # newer versions put the status and the error here
    sources = [line, turn] if isinstance(turn, Mapping) else [line]
    error = next((each["error"] for each in sources if each.get("error")), None)
    if error is not None:
        return ParsedLine(report=AgentReport(Reported.FAILURE, _message(error), fields))
    found = [classify_stop(each, name, table) for each in sources for name, table in STOPS.items()]
    reported, reason = max(found, key=lambda each: each[0].severity)
    return ParsedLine(report=AgentReport(reported, reason, fields))


def _turn_failed(line: Mapping[str, object]) -> ParsedLine:
    message = _message(line.get("error")) or "the agent reported a failure"
    return ParsedLine(report=AgentReport(Reported.FAILURE, message))


def _turn_aborted(line: Mapping[str, object]) -> ParsedLine:
    why = _message(line.get("error")) or as_text(line.get("reason"))
    return ParsedLine(
        report=AgentReport(Reported.FAILURE, f"the agent aborted the turn{f': {why}' if why else ''}")
    )


def _message(error: object) -> str:
    return (text_of(error, "message") if isinstance(error, Mapping) else None) or as_text(error)


CODEX: Mapping[str, LineParser] = {
    "item.started": _item_started,
    "item.completed": _item_completed,
    "turn.completed": _turn_completed,
    "turn.failed": _turn_failed,
    "turn.aborted": _turn_aborted,
    "turn.interrupted": _turn_aborted,
    "turn.cancelled": _turn_aborted,
}
