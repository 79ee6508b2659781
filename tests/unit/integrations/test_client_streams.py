"""What the chunks of a provider's stream add up to, and which of them has the first token."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.integrations.anthropic import MessageStream
from longwatch.integrations.bedrock import ConverseStream
from longwatch.integrations.client_calls import StreamReader, parameters_of
from longwatch.integrations.openai import ChatStream, ResponseStream


def choice(**delta: object) -> dict[str, object]:
    return {"id": "c-1", "model": "m", "choices": [{"index": 0, "delta": delta}]}


@pytest.mark.parametrize(
    ("reader", "chunks"),
    [
        (ChatStream(), [choice(role="assistant", content=""), choice(content="hi")]),
        (
            ResponseStream(),
            [
                {"type": "response.created", "response": {"id": "c-1"}},
                {"type": "response.output_text.delta", "delta": "hi"},
            ],
        ),
        (
            MessageStream(),
            [
                {"type": "message_start", "message": {"id": "c-1", "usage": {"input_tokens": 3}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": "hi"},
                },
            ],
        ),
        (
            ConverseStream("c-1"),
            [
                {"messageStart": {"role": "assistant"}},
                {"contentBlockDelta": {"delta": {"text": "hi"}, "contentBlockIndex": 0}},
            ],
        ),
    ],
    ids=["chat", "responses", "messages", "converse"],
)
def test_the_first_token_is_that_of_the_model_not_of_the_protocol(
    reader: StreamReader, chunks: list[dict[str, Any]]
) -> None:
    has_output = [reader.add(chunk) for chunk in chunks]

    assert has_output == [*[False] * (len(chunks) - 1), True]
    response = reader.response()
    assert response.response_id == "c-1"
    assert response.output == [{"role": "assistant", "content": "hi"}]


def test_a_message_that_is_left_early_has_its_input_tokens_and_no_guess_of_its_output() -> None:
    reader = MessageStream()
    usage = {"input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 1}
    reader.add({"type": "message_start", "message": {"id": "c-1", "usage": usage}})

    found = reader.response().usage

    assert found is not None
    assert (found.input_tokens, found.cache_read_tokens, found.output_tokens) == (93, 90, None)


def test_parameters_are_the_small_values_of_a_request() -> None:
    body = {
        "model": "m",
        "temperature": 0.2,
        "stop": ["a", "b"],
        "user": None,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
        "messages": [{"role": "user"}],
        "metadata": {"nested": {"x": 1}},
    }

    found = parameters_of(body, content=("model", "messages"))

    assert found == {"temperature": 0.2, "stop": ["a", "b"], "response_format": {"type": "json_schema"}}
