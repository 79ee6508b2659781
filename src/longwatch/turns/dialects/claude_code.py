"""The dialect of Claude Code (`--output-format stream-json`), as a table from `type` to its parser.

An assistant message has text, thoughts and tool calls, a user message has the results of tools, and a
`result` reports the outcome of the turn. With `--include-partial-messages`, `stream_event` lines precede each
content block of an assistant message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longwatch.model.event import number_of, text_of
from longwatch.turns.dialects.messages import (
    STATUSES,
    AgentReport,
    BlockContent,
    BlockKind,
    LineParser,
    ParsedLine,
    Reported,
    StreamFragment,
    WaitChange,
    as_text,
    classify_stop,
    denial_reason,
)

SUBTYPES: Mapping[str, Reported] = {  # of a result; others that begin with "error" are failures
    "": Reported.SUCCESS,
    "success": Reported.SUCCESS,
}
STOP_REASONS: Mapping[str, Reported] = {  # why the model stopped, in a result that is a success otherwise
    "": Reported.SUCCESS,
    "end_turn": Reported.SUCCESS,
    "stop_sequence": Reported.SUCCESS,
    "tool_use": Reported.SUCCESS,
    "max_tokens": Reported.LIMITED,
    "max_turns": Reported.LIMITED,
    "model_context_window_exceeded": Reported.LIMITED,
    "pause_turn": Reported.LIMITED,
    "refusal": Reported.FAILURE,
}
TERMINAL_REASONS: Mapping[str, Reported] = {  # why the loop of the agent ended, beside the model's stop
    "": Reported.SUCCESS,
    "completed": Reported.SUCCESS,
    "max_turns": Reported.LIMITED,
    "blocking_limit": Reported.LIMITED,
    "prompt_too_long": Reported.LIMITED,
    "aborted_streaming": Reported.FAILURE,
    "aborted_tools": Reported.FAILURE,
    "model_error": Reported.FAILURE,
    "image_error": Reported.FAILURE,
}
FAILURE_FIELDS = ("errors", "error", "api_error_status")  # a failure if one of them has a value
QUESTION_TOOLS: Mapping[str, str] = {"AskUserQuestion": "answer"}  # tool -> what its permission is a wait for
STORED_FIELDS = (
    "usage",
    "num_turns",
    "total_cost_usd",
    "session_id",
    "stop_reason",
    "permission_denials",
    "modelUsage",
)


def _assistant(line: Mapping[str, object]) -> ParsedLine:
    return _message(line, "assistant")


def _user(line: Mapping[str, object]) -> ParsedLine:
    return _message(line, "user")


def _message(line: Mapping[str, object], kind: str) -> ParsedLine:
    blocks: list[BlockContent] = []
    unread: list[object] = []
    for item in _items(line):
        block = _assistant_block(item) if kind == "assistant" else _user_block(item)
        if block is None:
            unread.append(item)
        else:
            blocks.append(block)
    rest: Mapping[str, object] | None = None
    if not blocks:
        rest = line
    elif unread:
        rest = {"type": kind, "message": {"content": unread}}
    return ParsedLine(tuple(blocks), rest=rest)


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
            "error": (as_text(result) or "the tool failed") if failed else None,
        },
        call,
    )


def _plain_result(content: object) -> object:
    """Text if the content consists of text only, otherwise unchanged: an image keeps its form."""
    if not isinstance(content, list):
        return content
    texts = [item.get("text") for item in content if isinstance(item, Mapping) and item.get("type") == "text"]
    if len(texts) == len(content) and all(isinstance(text, str) for text in texts):
        return "\n".join(text for text in texts if isinstance(text, str))
    return content


def _result(line: Mapping[str, object]) -> ParsedLine:
    reported, reason = _outcome(line)
    fields: dict[str, object] = {}
    if line.get("result") is not None and reported is not Reported.FAILURE:
        fields["result"] = line["result"]
    duration = number_of(line, "duration_ms")
    if duration is not None:
        fields["duration_ms"] = duration
    for name in STORED_FIELDS:
        if line.get(name):
            fields[name] = line[name]
    return ParsedLine(report=AgentReport(reported, reason, fields))


def _outcome(line: Mapping[str, object]) -> tuple[Reported, str | None]:
    """The outcome that a result reports. Any part that contradicts success counts."""
    subtype = as_text(line.get("subtype"))
    failures = [as_text(line[name]) for name in FAILURE_FIELDS if line.get(name)]
    if line.get("is_error") not in (None, False) or subtype.startswith("error") or failures:
        message = as_text(line.get("result")) if line.get("is_error") else ""
        return Reported.FAILURE, message or "; ".join(failures) or subtype or "the agent reported a failure"
    if subtype not in SUBTYPES:
        return Reported.UNCLEAR, f"unknown result {subtype!r}"
    found = max(
        classify_stop(line, "stop_reason", STOP_REASONS),
        classify_stop(line, "terminal_reason", TERMINAL_REASONS),
        classify_stop(line, "status", STATUSES),
        key=lambda each: each[0].severity,
    )
    if found[0] is not Reported.SUCCESS:
        return found
    denials = line.get("permission_denials")
    if denials:
        return Reported.DENIED, denial_reason(_tools(denials))
    return Reported.SUCCESS, None


def _tools(denials: object) -> list[str]:
    """The names of the tools that were denied."""
    items = denials if isinstance(denials, list) else [denials]
    return [
        text_of(item, "tool_name") or "a tool" if isinstance(item, Mapping) else as_text(item)
        for item in items
    ]


STREAMED_KINDS: Mapping[str, BlockKind] = {  # of a content block; the input of a tool is not streamed
    "text": BlockKind.CONTENT,
    "thinking": BlockKind.THINKING,
}


def _stream_event(line: Mapping[str, object]) -> ParsedLine:
    event = line.get("event")
    if not isinstance(event, Mapping):
        return ParsedLine(rest=line)
    match event.get("type"), event.get("content_block"), event.get("delta"):
        case "content_block_start", Mapping() as block, _:
            kind = STREAMED_KINDS.get(text_of(block, "type") or "")
            return ParsedLine(fragment=StreamFragment(kind, _streamed_text(block), starts_block=True))
        case "content_block_delta", _, Mapping() as delta:
            kind = STREAMED_KINDS.get((text_of(delta, "type") or "").removesuffix("_delta"))
            return ParsedLine(fragment=StreamFragment(kind, _streamed_text(delta)))
    return ParsedLine(fragment=StreamFragment())


def _streamed_text(item: Mapping[str, object]) -> str:
    return text_of(item, "text", "thinking") or ""


def _control_request(line: Mapping[str, object]) -> ParsedLine:
    """A request of the permission to use a tool, which the agent waits for."""
    request, id = line.get("request"), text_of(line, "request_id")
    if id is None or not isinstance(request, Mapping) or request.get("subtype") != "can_use_tool":
        return ParsedLine(rest=line)
    tool = text_of(request, "tool_name") or "a tool"
    return ParsedLine(rest=line, wait=WaitChange(id, QUESTION_TOOLS.get(tool, "approval"), tool))


def _control_response(line: Mapping[str, object]) -> ParsedLine:
    """The response to a request, or its withdrawal. The program that reads the lines adds it to them."""
    response = line.get("response")
    id = text_of(line, "request_id") or (
        text_of(response, "request_id") if isinstance(response, Mapping) else None
    )
    return ParsedLine(rest=line, wait=None if id is None else WaitChange(id))


CLAUDE_CODE: Mapping[str, LineParser] = {
    "assistant": _assistant,
    "control_cancel_request": _control_response,
    "control_request": _control_request,
    "control_response": _control_response,
    "user": _user,
    "result": _result,
    "stream_event": _stream_event,
}
