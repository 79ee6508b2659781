"""Messages in the shapes of providers, in the one shape of events."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.telemetry.messages import message_of, part_of

PNG = {"type": "image", "media_type": "image/png", "bytes": 5}
DATA = "data:image/png;base64,aGVsbG8="


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"type": "input_text", "text": "hi"}, {"type": "text", "text": "hi"}),
        ({"type": "image_url", "image_url": {"url": DATA}}, PNG),
        ({"type": "input_image", "image_url": DATA}, PNG),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}, PNG),
        ({"image": {"format": "png", "source": {"bytes": b"hello"}}}, PNG),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png?signature=secret"}},
            {"type": "image"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}},
            {"type": "audio", "media_type": "audio/wav", "bytes": 5},
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
            },
            {"type": "file", "media_type": "application/pdf", "bytes": 2},
        ),
        ({"type": "input_file", "file_data": DATA}, {"type": "file", "media_type": "image/png", "bytes": 5}),
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "reasoning", "text": "hm"}),
        ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"type": "reasoning", "text": "hm"}),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "x"}],
            },
            {"type": "tool_result", "id": "t", "result": "x"},
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "image_url", "image_url": {"url": DATA}}],
            },
            {"type": "tool_result", "id": "t", "result": [PNG]},
        ),
    ],
)
def test_a_part_of_a_provider(given: dict[str, Any], part: dict[str, object]) -> None:
    assert part_of(given) == part


@pytest.mark.parametrize("text", ['{"text": "hi", "score": 3}', "[1, 2]", '["a"]', "{not JSON"])
def test_an_answer_in_json_stays_text(text: str) -> None:
    assert message_of({"role": "assistant", "content": text}, role="user") == {
        "role": "assistant",
        "content": text,
    }


def test_parts_that_are_written_as_json_are_parts() -> None:
    content = '[{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "' + DATA + '"}}]'

    assert message_of({"content": content}, role="user") == {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}, PNG],
    }


def test_custom_tool_calls_of_a_message() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "ls"}}

    found = message_of({"role": "assistant", "content": None, "tool_calls": [call]}, role="user")

    assert found["content"] == [{"type": "tool_call", "id": "c", "name": "run", "arguments": "ls"}]
