"""The real client `openai` against the scripted model: responses and embeddings."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from longwatch.testing import ModelReply, ModelServer
from tests.integration.clients.conftest import Recorded
from tests.integration.clients.openai_samples import (
    ENDED,
    MESSAGES,
    REPLY,
    SEARCH,
    check_pair,
)

pytestmark = pytest.mark.usefixtures("openai_adapter")


def test_a_response(client: openai.OpenAI, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)

    client.responses.create(model="gpt", input="Hello?", instructions="Be brief.", max_output_tokens=99)

    check_pair(recorded(), operation="chat", response_id="resp_1", **ENDED)
    assert recorded()[0]["input"] == MESSAGES
    assert recorded()[0]["parameters"] == {"max_output_tokens": 99}


def test_a_streamed_response(client: openai.OpenAI, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY, REPLY)

    list(client.responses.create(model="gpt", input="Hello?", stream=True))
    with client.responses.stream(model="gpt", input="Hello?") as stream:
        stream.until_done()

    check_pair(recorded()[:2], response_id="resp_1", **ENDED)
    check_pair(recorded()[2:], response_id="resp_2", **ENDED)
    assert recorded()[1]["chunk_count"] == 10


async def test_an_asynchronous_response(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY)

    await async_client.responses.create(model="gpt", input="Hello?")
    async for _ in await async_client.responses.create(model="gpt", input="Hello?", stream=True):
        pass

    check_pair(recorded()[:2], response_id="resp_1", **ENDED)
    check_pair(recorded()[2:], response_id="resp_2", **ENDED)


def test_a_response_with_reasoning_and_tools(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    reply = ModelReply(reasoning="Tides.", tool_calls=SEARCH.tool_calls)
    server.add(reply, REPLY, reply)

    first = client.responses.create(model="gpt", input="When?")
    items: Any = [each.model_dump() for each in first.output]
    answer: Any = {"type": "function_call_output", "call_id": "call_a", "output": "noon"}
    client.responses.create(model="gpt", input=[*items, answer])
    events = client.responses.create(model="gpt", input="When?", stream=True)
    for event in events:
        if event.type == "response.function_call_arguments.delta":
            break  # the reasoning is complete, the call is not
    events.close()

    call = {"type": "tool_call", "id": "call_a", "name": "search", "arguments": {"query": "tides"}}
    reasoning = {"role": "assistant", "content": [{"type": "reasoning", "text": "Tides."}]}
    calling = {"role": "assistant", "content": [call]}
    result = {"role": "tool", "content": [{"type": "tool_result", "id": "call_a", "result": "noon"}]}
    ends = recorded()
    assert (ends[1]["output"], ends[1]["finish_reasons"]) == ([reasoning, calling], ["tool_calls"])
    assert ends[2]["input"] == [reasoning, calling, result]
    assert (ends[5]["status"], ends[5]["output"]) == ("completed", [reasoning])


def test_an_answer_that_is_cut_off_has_the_reason(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("far too", finish_reason="length"), ModelReply("far too", finish_reason="length"))

    client.chat.completions.create(model="gpt", messages=MESSAGES)
    client.responses.create(model="gpt", input="Hello?")

    assert [end["finish_reasons"] for end in recorded()[1::2]] == [["length"], ["length"]]


def test_embeddings(client: openai.OpenAI, server: ModelServer, recorded: Recorded) -> None:
    server.add(ModelReply(input_tokens=4))

    client.embeddings.create(model="gpt", input=["a", "b"], dimensions=4)

    check_pair(recorded(), operation="embeddings", input_tokens=4, output_tokens=None, output=None)
    assert [each["content"] for each in recorded()[0]["input"]] == ["a", "b"]
