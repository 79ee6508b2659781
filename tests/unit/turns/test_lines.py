"""One line of stream-JSON, read as blocks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.turns.lines import BlockKind, blocks_of, read_line, said

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
def test_a_tool_that_failed_says_so(content: object, error: str) -> None:
    item = {"type": "tool_result", "tool_use_id": "u1", "content": content, "is_error": True}

    assert blocks_of(message("user", [item]))[0].fields["error"] == error


def test_what_the_user_says_is_no_block() -> None:
    spoken = message("user", [{"type": "text", "text": "the prompt again"}])

    assert said(spoken).blocks == ()
    assert said(spoken).rest == spoken


def test_items_that_nobody_knows_are_kept_beside_the_blocks() -> None:
    odd = {"type": "redacted_thinking", "data": "x"}

    spoken = said(message("assistant", [odd, {"type": "text", "text": "hi"}]))

    assert [block.kind for block in spoken.blocks] == [BlockKind.CONTENT]
    assert spoken.rest == {"type": "assistant", "message": {"content": [odd]}}


@pytest.mark.parametrize(
    ("line", "failed", "error"),
    [
        ({"is_error": False, "result": "ok"}, False, None),
        ({"subtype": "success"}, False, None),
        ({"is_error": True, "result": "credit"}, True, "credit"),
        ({"is_error": True}, True, "failed"),
        ({"subtype": "error_max_turns", "is_error": False}, True, "error_max_turns"),
        ({"subtype": "error_during_execution", "errors": ["a"]}, True, '["a"]'),
    ],
)
def test_a_result_ends_the_turn(line: dict[str, object], failed: bool, error: str | None) -> None:
    end = said({"type": "result", **line}).end

    assert end is not None
    assert end.failed is failed
    assert end.fields.get("error_message") == error


def test_a_result_tells_how_long_it_took_and_what_it_used() -> None:
    end = said({"type": "result", "result": "ok", "duration_ms": 12, "usage": {"tokens": 3}}).end

    assert end is not None
    assert end.fields == {"result": "ok", "duration_ms": 12, "usage": {"tokens": 3}}


def test_a_second_agent_speaks_inside_the_call_that_started_it() -> None:
    spoken = said({**message("assistant", "hi"), "parent_tool_use_id": "u9", "uuid": "n-1"})

    assert (spoken.parent_tool_use_id, spoken.uuid) == ("u9", "n-1")


@given(
    st.dictionaries(st.sampled_from(["type", "message", "content", "uuid", "result", "subtype"]), json_values)
)
def test_any_object_is_a_line(line: dict[str, object]) -> None:
    spoken = said(line)

    assert spoken.blocks or spoken.end or spoken.rest is not None


@given(st.sampled_from(["assistant", "user"]), st.lists(json_values, max_size=5))
def test_any_content_is_read(kind: str, content: list[object]) -> None:
    spoken = said(read_line(json.dumps(message(kind, content))))

    assert spoken.blocks or spoken.rest is not None
