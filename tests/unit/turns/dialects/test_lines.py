"""One line of stream-JSON, read as blocks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.turns.dialects import BlockKind, blocks_of, parse_object, read_line

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)


def message(kind: str, content: object) -> dict[str, object]:
    return {"type": kind, "message": {"role": kind, "content": content}}


def test_text_can_be_given_without_a_list() -> None:
    (block,) = blocks_of(message("assistant", "hello"))

    assert (block.kind, block.fields) == (BlockKind.CONTENT, {"text": "hello"})


def test_a_line_can_be_text_too() -> None:
    assert blocks_of(json.dumps(message("assistant", "hello")))[0].fields == {"text": "hello"}


def test_empty_text_is_a_block_as_well() -> None:
    assert (
        len(blocks_of(message("assistant", [{"type": "text", "text": ""}, {"type": "text", "text": "x"}])))
        == 2
    )


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([], ""),
        (None, None),
        ([{"type": "image", "source": {}}], [{"type": "image", "source": {}}]),
        ({"rows": 3}, {"rows": 3}),
    ],
)
def test_a_tools_result_is_text_where_it_is_nothing_else(content: object, result: object) -> None:
    item = {"type": "tool_result", "tool_use_id": "u1", "content": content}

    (block,) = blocks_of(message("user", [item]))

    assert block.fields == {"tool_use_id": "u1", "result": result, "error": None}
    assert block.tool_use_id == "u1"


@pytest.mark.parametrize(
    ("content", "error"),
    [("no such file", "no such file"), (None, "the tool failed"), ({"a": 1}, '{"a": 1}')],
)
def test_a_tool_that_failed_is_marked(content: object, error: str) -> None:
    item = {"type": "tool_result", "tool_use_id": "u1", "content": content, "is_error": True}

    assert blocks_of(message("user", [item]))[0].fields["error"] == error


def test_the_users_text_is_not_a_block() -> None:
    spoken = message("user", [{"type": "text", "text": "the prompt again"}])

    assert parse_object(spoken).blocks == ()
    assert parse_object(spoken).rest == spoken


def test_unknown_items_are_stored_beside_the_blocks() -> None:
    odd = {"type": "redacted_thinking", "data": "x"}

    spoken = parse_object(message("assistant", [odd, {"type": "text", "text": "hi"}]))

    assert [block.kind for block in spoken.blocks] == [BlockKind.CONTENT]
    assert spoken.rest == {"type": "assistant", "message": {"content": [odd]}}


DENIALS = [{"tool_name": "Bash", "tool_use_id": "u1", "tool_input": {}}, {"tool_name": "Write"}]


@pytest.mark.parametrize(
    ("line", "reported", "reason"),
    [
        ({"is_error": False, "result": "ok"}, "success", None),
        ({"subtype": "success"}, "success", None),
        ({"subtype": "success", "stop_reason": "end_turn", "permission_denials": []}, "success", None),
        ({"is_error": True, "result": "credit"}, "failure", "credit"),
        ({"is_error": True}, "failure", "the agent reported a failure"),
        ({"subtype": "success", "is_error": True}, "failure", "success"),
        ({"subtype": "success", "is_error": "yes"}, "failure", "success"),
        ({"subtype": "success", "errors": ["a"]}, "failure", '["a"]'),
        ({"subtype": "error_max_turns", "is_error": False}, "failure", "error_max_turns"),
        ({"subtype": "error_during_execution", "errors": ["a"]}, "failure", '["a"]'),
        ({"stop_reason": "refusal"}, "failure", "the agent stopped with stop_reason 'refusal'"),
        ({"stop_reason": "max_tokens"}, "limited", "the agent stopped at a limit: max_tokens"),
        ({"stop_reason": "moonrise"}, "unclear", "the agent stopped with stop_reason 'moonrise'"),
        ({"error": "rate_limit"}, "failure", "rate_limit"),
        ({"api_error_status": 529, "result": "all done"}, "failure", "529"),
        ({"terminal_reason": "completed"}, "success", None),
        (
            {"terminal_reason": "aborted_tools"},
            "failure",
            "the agent stopped with terminal_reason 'aborted_tools'",
        ),
        ({"terminal_reason": "max_turns"}, "limited", "the agent stopped at a limit: max_turns"),
        (
            {"terminal_reason": "moonrise", "stop_reason": "max_tokens"},
            "unclear",
            "the agent stopped with terminal_reason 'moonrise'",
        ),
        ({"status": "failed"}, "failure", "the agent stopped with status 'failed'"),
        ({"subtype": "interesting"}, "unclear", "unknown result 'interesting'"),
        ({"permission_denials": DENIALS}, "denied", "the agent was denied permission: Bash, Write"),
    ],
)
def test_a_result_of_claude_code_reports_the_outcome(
    line: dict[str, object], reported: str, reason: str | None
) -> None:
    report = parse_object({"type": "result", **line}).report

    assert report is not None
    assert (report.reported, report.reason) == (reported, reason)


def test_a_result_has_its_duration_and_its_usage() -> None:
    report = parse_object(
        {"type": "result", "result": "ok", "duration_ms": 12, "usage": {"tokens": 3}}
    ).report

    assert report is not None
    assert report.fields == {"result": "ok", "duration_ms": 12, "usage": {"tokens": 3}}


def test_the_result_of_a_second_agent_does_not_report_the_outcome_of_the_turn() -> None:
    inner = {"type": "result", "is_error": True, "parent_tool_use_id": "u9"}

    assert parse_object(inner).report is None
    assert parse_object(inner).rest == inner


def test_a_second_agent_speaks_inside_the_call_that_started_it() -> None:
    spoken = parse_object({**message("assistant", "hi"), "parent_tool_use_id": "u9", "uuid": "n-1"})

    assert (spoken.parent_tool_use_id, spoken.uuid) == ("u9", "n-1")


@given(
    st.sampled_from(
        [None, "result", "user", "item.started", "item.completed", "turn.completed", "turn.failed"]
    ),
    st.dictionaries(
        st.sampled_from(["type", "message", "content", "item", "error", "usage", "result", "subtype"]),
        json_values | st.dictionaries(st.sampled_from(["type", "id", "text", "status"]), json_values),
    ),
)
def test_any_object_is_a_line(kind: str | None, line: dict[str, object]) -> None:
    spoken = parse_object(line if kind is None else {**line, "type": kind})

    assert spoken.blocks or spoken.report or spoken.rest is not None


@given(st.sampled_from(["assistant", "user"]), st.lists(json_values, max_size=5))
def test_any_content_is_read(kind: str, content: list[object]) -> None:
    spoken = parse_object(read_line(json.dumps(message(kind, content))))

    assert spoken.blocks or spoken.rest is not None
