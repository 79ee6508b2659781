"""The real client `openai` against the scripted model: chat completions, whole and streamed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import openai
import pydantic
import pytest

from longwatch.testing import ModelFailure, ModelReply, ModelServer
from tests.integration.clients.conftest import Recorded
from tests.integration.clients.openai_samples import (
    ANSWER,
    ENDED,
    MESSAGES,
    REPLY,
    SEARCH,
    TOKENS,
    TOOLS,
    check_pair,
    subset,
)

pytestmark = pytest.mark.usefixtures("openai_adapter")


def test_a_chat_completion(client: openai.OpenAI, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)

    client.chat.completions.create(model="gpt", messages=MESSAGES, temperature=0.5, tools=TOOLS)

    check_pair(recorded(), operation="chat", response_id="chatcmpl-1", chunk_count=None, **ENDED)
    start = recorded()[0]
    assert start["input"] == MESSAGES
    assert start["parameters"] == {"temperature": 0.5, "tools": ["search"]}


async def test_an_asynchronous_chat_completion(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    await async_client.chat.completions.create(model="gpt", messages=MESSAGES)

    check_pair(recorded(), response_id="chatcmpl-1", **ENDED)


def stream_by_loop(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    for _ in client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options=options
    ):
        pass


def stream_by_next(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options=options
    )
    while next(stream, None) is not None:
        pass


def stream_by_context(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options=options
    ) as stream:
        list(stream)


def stream_by_helper(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    with client.chat.completions.stream(model="gpt", messages=MESSAGES, stream_options=options) as stream:
        assert stream.get_final_completion().choices[0].message.content == "good day"


def stream_raw(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    raw = client.chat.completions.with_raw_response.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options=options
    )
    assert raw.headers["content-type"] == "text/event-stream"
    list(raw.parse())


@pytest.mark.parametrize(
    "use", [stream_by_loop, stream_by_next, stream_by_context, stream_by_helper, stream_raw]
)
def test_a_stream_is_recorded_to_its_end(
    use: Callable[[openai.OpenAI], None], client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    use(client)

    check_pair(recorded(), response_id="chatcmpl-1", chunk_count=5, **ENDED)
    end = recorded()[1]
    assert 0 < end["time_to_first_token_ms"] <= end["duration_ms"]


async def test_an_asynchronous_stream(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY)
    options: Any = {"include_usage": True}

    stream = await async_client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options=options
    )
    async for _ in stream:
        pass
    async with async_client.chat.completions.stream(
        model="gpt", messages=MESSAGES, stream_options=options
    ) as helper:
        await helper.get_final_completion()

    check_pair(recorded()[:2], response_id="chatcmpl-1", chunk_count=5, **ENDED)
    check_pair(recorded()[2:], response_id="chatcmpl-2", chunk_count=5, **ENDED)


def test_a_stream_without_usage_has_no_token_counts(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    assert subset(recorded()[1], *TOKENS) == {}
    check_pair(recorded(), status="completed", output=ANSWER)


def close(stream: Any) -> None:
    stream.close()


def leave_context(stream: Any) -> None:
    with stream:
        pass


def drop(stream: Any) -> None:
    """The caller holds no other reference."""


@pytest.mark.parametrize("leave", [close, leave_context, drop])
def test_a_stream_that_is_left_early_ends_then(
    leave: Callable[[Any], None], client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)
    streams = [client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)]
    next(streams[0])
    next(streams[0])
    before = len(recorded())

    leave(streams.pop())
    gc.collect()

    assert before == 1
    check_pair(
        recorded(),
        status="completed",
        chunk_count=2,
        finish_reasons=None,
        output=[{"role": "assistant", "content": "good "}],
    )


async def test_an_asynchronous_stream_that_is_left_early_ends_then(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    async with await async_client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True
    ) as stream:
        await anext(stream)

    check_pair(recorded(), status="completed", chunk_count=1)


def test_a_failure_is_recorded_and_raised(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelFailure(429, "slow down"))

    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="gpt", messages=MESSAGES)

    check_pair(recorded(), status="failed", output=None)
    assert "slow down" in recorded()[1]["error_message"]


async def test_an_asynchronous_failure_is_recorded_and_raised(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelFailure(500, "broken"))

    with pytest.raises(openai.InternalServerError):
        await async_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)

    check_pair(recorded(), status="failed")


def test_retries_inside_the_client_are_one_call(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelFailure(429, retry_after=0), ModelFailure(500, retry_after=0), REPLY)

    client.with_options(max_retries=2).chat.completions.create(model="gpt", messages=MESSAGES)

    check_pair(recorded(), response_id="chatcmpl-3", **ENDED)
    assert len(server.requests) == 3


def test_a_connection_cut_in_the_middle_of_a_stream_fails_the_call(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three", cut_after=3))

    with pytest.raises(openai.APIConnectionError):
        list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    check_pair(
        recorded(), status="failed", chunk_count=3, output=[{"role": "assistant", "content": "one two "}]
    )


async def test_a_connection_cut_in_the_middle_of_an_asynchronous_stream_fails_the_call(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three", cut_after=3))

    stream = await async_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass

    check_pair(recorded(), status="failed", chunk_count=3)


async def test_a_cancelled_call_fails(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    arrived, released = threading.Event(), threading.Event()

    def pause(number: int) -> None:
        arrived.set()
        released.wait(10)

    server.add(ModelReply("never", pause=pause))
    task = asyncio.create_task(async_client.chat.completions.create(model="gpt", messages=MESSAGES))
    await asyncio.to_thread(arrived.wait, 10)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()

    check_pair(recorded(), status="failed")
    assert "Cancelled" in recorded()[1]["error_message"]


def test_tool_calls_and_results_are_parts_of_messages(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(SEARCH, REPLY)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    question: Any = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}

    first = client.chat.completions.create(model="gpt", messages=[question], tools=TOOLS)
    called: Any = first.choices[0].message.model_dump(exclude_none=True)
    result: Any = {"role": "tool", "tool_call_id": "call_a", "content": "high at noon"}
    client.chat.completions.create(model="gpt", messages=[question, called, result], tools=TOOLS)

    call = {"type": "tool_call", "id": "call_a", "name": "search", "arguments": {"query": "tides"}}
    _, first_end, second_start, _ = recorded()
    assert first_end["finish_reasons"] == ["tool_calls"]
    assert first_end["output"] == [{"role": "assistant", "content": [call]}]
    assert second_start["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image", "media_type": "image/png", "bytes": 5},
            ],
        },
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [{"type": "tool_result", "id": "call_a", "result": "high at noon"}]},
    ]


def test_tool_calls_of_a_stream_are_joined(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(SEARCH)

    list(client.chat.completions.create(model="gpt", messages=MESSAGES, tools=TOOLS, stream=True))

    call = {"type": "tool_call", "id": "call_a", "name": "search", "arguments": {"query": "tides"}}
    assert recorded()[1]["output"] == [{"role": "assistant", "content": [call]}]


def test_parsed_and_raw_responses(client: openai.OpenAI, server: ModelServer, recorded: Recorded) -> None:
    class Greeting(pydantic.BaseModel):
        text: str

    server.add(ModelReply('{"text": "hi"}'), REPLY, REPLY)

    parsed = client.chat.completions.parse(model="gpt", messages=MESSAGES, response_format=Greeting)
    raw = client.chat.completions.with_raw_response.create(model="gpt", messages=MESSAGES)
    with client.chat.completions.with_streaming_response.create(model="gpt", messages=MESSAGES) as streaming:
        assert streaming.parse().choices[0].message.content == "good day"

    assert parsed.choices[0].message.parsed == Greeting(text="hi")
    assert raw.parse().choices[0].message.content == "good day"
    check_pair(recorded()[:2], output=[{"role": "assistant", "content": '{"text": "hi"}'}])
    check_pair(recorded()[2:4], response_id="chatcmpl-2", **ENDED)
    check_pair(recorded()[4:], response_id="chatcmpl-3", **ENDED)


async def test_asynchronous_raw_responses(
    async_client: openai.AsyncOpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY, REPLY, REPLY)
    raw_client = async_client.chat.completions.with_raw_response
    streaming_client = async_client.chat.completions.with_streaming_response

    raw = await raw_client.create(model="gpt", messages=MESSAGES)
    raw_stream = await raw_client.create(model="gpt", messages=MESSAGES, stream=True)
    async for _ in raw_stream.parse():
        pass
    async with streaming_client.create(model="gpt", messages=MESSAGES) as streaming:
        assert (await streaming.parse()).choices[0].message.content == "good day"
    async with streaming_client.create(model="gpt", messages=MESSAGES, stream=True) as streaming_chunks:
        async for _ in await streaming_chunks.parse():
            pass

    assert raw.parse().choices[0].message.content == "good day"
    check_pair(recorded()[:2], response_id="chatcmpl-1", **ENDED)
    check_pair(recorded()[2:4], response_id="chatcmpl-2", chunk_count=4, output=ANSWER)
    check_pair(recorded()[4:6], response_id="chatcmpl-3", **ENDED)
    check_pair(recorded()[6:], response_id="chatcmpl-4", chunk_count=4, output=ANSWER)


def test_a_raw_stream_that_is_never_parsed_ends_when_it_is_closed(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    with client.chat.completions.with_streaming_response.create(
        model="gpt", messages=MESSAGES, stream=True
    ) as streaming:
        assert any("good" in line for line in streaming.iter_lines())

    check_pair(recorded(), status="completed", chunk_count=None, output=None)


def test_a_client_for_azure(server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)

    with openai.AzureOpenAI(
        azure_endpoint=server.url, api_version="2026-01-01", api_key="test", max_retries=0
    ) as client:
        client.chat.completions.create(model="gpt", messages=MESSAGES)

    check_pair(recorded(), response_id="chatcmpl-1", **ENDED)
    assert server.requests[0].path.startswith("/openai/deployments/gpt/chat/completions")
