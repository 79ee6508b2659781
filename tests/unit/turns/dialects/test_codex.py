"""The lines of `codex exec --json`, read as blocks. The lines are synthetic, after the published format."""

from __future__ import annotations

import pytest

from longwatch.turns.dialects import BlockKind, Reported, blocks_of, parse_object


def item(type: str, /, **fields: object) -> dict[str, object]:
    return {"id": "item_1", "type": type, **fields}


def completed(type: str, /, **fields: object) -> dict[str, object]:
    return {"type": "item.completed", "item": item(type, **fields)}


@pytest.mark.parametrize(
    ("type", "kind"), [("agent_message", BlockKind.CONTENT), ("reasoning", BlockKind.THINKING)]
)
def test_messages_and_thoughts_become_blocks(type: str, kind: BlockKind) -> None:
    (block,) = blocks_of(completed(type, text="hi"))

    assert (block.kind, block.fields) == (kind, {"text": "hi"})


def test_a_command_is_the_use_of_a_tool_and_its_result() -> None:
    fields = {"command": "ls", "aggregated_output": "a b", "exit_code": 0, "status": "completed"}

    (started,) = blocks_of({"type": "item.started", "item": item("command_execution", command="ls")})
    use, result = blocks_of(completed("command_execution", **fields))

    assert started.fields == use.fields
    assert use.fields == {
        "tool_use_id": "item_1",
        "tool_name": "command_execution",
        "parameters": {"command": "ls"},
    }
    assert result.fields == {"tool_use_id": "item_1", "result": "a b", "error": None}
    assert (started.repeats_start, use.repeats_start) == (False, True)


@pytest.mark.parametrize(
    ("type", "fields", "name", "result", "error"),
    [
        (
            "command_execution",
            {"exit_code": 2, "aggregated_output": "no"},
            "command_execution",
            "no",
            "exit code 2",
        ),
        ("command_execution", {"status": "declined"}, "command_execution", None, "declined"),
        ("file_change", {"changes": [], "status": "completed"}, "file_change", "completed", None),
        ("file_change", {"changes": [], "status": "failed"}, "file_change", "failed", "failed"),
        ("mcp_tool_call", {"server": "fs", "tool": "read", "result": {"n": 1}}, "fs.read", {"n": 1}, None),
        ("mcp_tool_call", {"error": {"message": "gone"}, "status": "failed"}, "mcp_tool_call", None, "gone"),
        ("web_search", {"query": "x"}, "web_search", None, None),
    ],
)
def test_every_tool_has_a_name_and_a_result(
    type: str, fields: dict[str, object], name: str, result: object, error: str | None
) -> None:
    use, outcome = blocks_of(completed(type, **fields))

    assert use.fields["tool_name"] == name
    assert (outcome.fields["result"], outcome.fields["error"]) == (result, error)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "item.updated", "item": item("todo_list", items=[])},
        {"type": "error", "message": "Reconnecting... 1/5"},
        completed("error", message="a warning"),
        completed("hologram"),
        {"type": "item.completed"},
    ],
)
def test_lines_that_are_neither_blocks_nor_reports_are_stored(line: dict[str, object]) -> None:
    spoken = parse_object(line)

    assert (spoken.blocks, spoken.report, spoken.rest) == ((), None, line)


@pytest.mark.parametrize(
    ("line", "reported", "reason"),
    [
        ({"type": "turn.completed", "usage": {"output_tokens": 3}}, Reported.SUCCESS, None),
        ({"type": "turn.completed", "error": {"message": "but"}}, Reported.FAILURE, "but"),
        ({"type": "turn.completed", "status": "completed"}, Reported.SUCCESS, None),
        (
            {"type": "turn.completed", "status": "interrupted"},
            Reported.FAILURE,
            "the agent stopped with status 'interrupted'",
        ),
        (
            {"type": "turn.completed", "turn": {"status": "failed", "error": {"message": "but"}}},
            Reported.FAILURE,
            "but",
        ),
        (
            {"type": "turn.completed", "turn": {"status": "inProgress"}},
            Reported.UNCLEAR,
            "the agent stopped with status 'inProgress'",
        ),
        (
            {"type": "turn.completed", "stop_reason": "max_output_tokens"},
            Reported.LIMITED,
            "the agent stopped at a limit: max_output_tokens",
        ),
        ({"type": "turn.failed", "error": {"message": "no credit"}}, Reported.FAILURE, "no credit"),
        ({"type": "turn.failed", "error": "no credit"}, Reported.FAILURE, "no credit"),
        ({"type": "turn.failed"}, Reported.FAILURE, "the agent reported a failure"),
        ({"type": "turn.aborted"}, Reported.FAILURE, "the agent aborted the turn"),
        (
            {"type": "turn.aborted", "reason": "interrupted"},
            Reported.FAILURE,
            "the agent aborted the turn: interrupted",
        ),
        (
            {"type": "turn.interrupted", "error": {"message": "by the user"}},
            Reported.FAILURE,
            "the agent aborted the turn: by the user",
        ),
        ({"type": "turn.cancelled"}, Reported.FAILURE, "the agent aborted the turn"),
    ],
)
def test_the_end_of_a_turn_reports_the_outcome(
    line: dict[str, object], reported: Reported, reason: str | None
) -> None:
    report = parse_object(line).report

    assert report is not None
    assert (report.reported, report.reason) == (reported, reason)
