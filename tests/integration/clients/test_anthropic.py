"""The real client `anthropic` against the scripted model: every call is recorded once, from start to end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from longwatch.integrations import anthropic as adapter
from longwatch.integrations.otel import LongwatchSpanProcessor
from longwatch.testing import ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from longwatch.testing.model_server import ModelRequest
from tests.integration.clients.conftest import Recorded

MESSAGES: Any = [{"role": "user", "content": "Hello?"}]
CALL: Any = {"model": "claude", "max_tokens": 99, "messages": MESSAGES}
REPLY = ModelReply(
    "good day",
    model="claude-real",
    reasoning="Greet.",
    input_tokens=100,
    output_tokens=20,
    cache_read_tokens=64,
    cache_write_tokens=3,
    reasoning_tokens=7,
)
ENDED = {
    "status": "completed",
    "operation": "chat",
    "response_model": "claude-real",
    "finish_reasons": ["end_turn"],
    "output": [
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "text": "Greet."}, {"type": "text", "text": "good day"}],
        }
    ],
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_tokens": 64,
    "cache_write_tokens": 3,
    "reasoning_tokens": 7,
}


@pytest.fixture(autouse=True)
def _installed() -> None:
    adapter.install()
    adapter.install()


@pytest.fixture
def client(server: ModelServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(server: ModelServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=server.url, api_key="test", max_retries=0) as client:
        yield client


def check_pair(events: list[dict[str, Any]], **expected: object) -> None:
    start, end = events
    assert start["call_id"] == end["call_id"]
    assert (start["status"], start["model"], start["provider"]) == ("started", "claude", "anthropic")
    assert start["recorded_by"] == end["recorded_by"] == "anthropic"
    assert {name: end.get(name) for name in expected} == expected


def test_a_message(client: anthropic.Anthropic, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)

    client.messages.create(**CALL, system="Be brief.", stop_sequences=["."])

    check_pair(recorded(), response_id="msg_1", chunk_count=None, **ENDED)
    start = recorded()[0]
    assert start["input"] == [{"role": "system", "content": "Be brief."}, *MESSAGES]
    assert start["parameters"] == {"max_tokens": 99, "stop_sequences": ["."]}


async def test_an_asynchronous_message(
    async_client: anthropic.AsyncAnthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)

    await async_client.messages.create(**CALL)

    check_pair(recorded(), response_id="msg_1", **ENDED)


def stream_by_loop(client: anthropic.Anthropic) -> None:
    for _ in client.messages.create(**CALL, stream=True):
        pass


def stream_by_helper(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**CALL) as stream:
        assert "".join(stream.text_stream) == "good day"


def stream_for_the_message(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**CALL) as stream:
        stream.get_final_message()


def stream_raw(client: anthropic.Anthropic) -> None:
    list(client.messages.with_raw_response.create(**CALL, stream=True).parse())


@pytest.mark.parametrize("use", [stream_by_loop, stream_by_helper, stream_for_the_message, stream_raw])
def test_a_stream_is_recorded_to_its_end(
    use: Callable[[anthropic.Anthropic], None],
    client: anthropic.Anthropic,
    server: ModelServer,
    recorded: Recorded,
) -> None:
    server.add(REPLY)

    use(client)

    check_pair(recorded(), response_id="msg_1", chunk_count=11, **ENDED)
    end = recorded()[1]
    assert 0 < end["time_to_first_token_ms"] <= end["duration_ms"]


async def test_an_asynchronous_stream(
    async_client: anthropic.AsyncAnthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY)

    async for _ in await async_client.messages.create(**CALL, stream=True):
        pass
    async with async_client.messages.stream(**CALL) as stream:
        await stream.get_final_message()

    check_pair(recorded()[:2], response_id="msg_1", **ENDED)
    check_pair(recorded()[2:], response_id="msg_2", **ENDED)


def close(stream: Any) -> None:
    stream.close()


def drop(stream: Any) -> None:
    """The caller holds no other reference."""


@pytest.mark.parametrize("leave", [close, drop])
def test_a_stream_that_is_left_early_ends_then(
    leave: Callable[[Any], None], client: anthropic.Anthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three"))
    streams = [client.messages.create(**CALL, stream=True)]
    for _ in range(3):
        next(streams[0])
    before = len(recorded())

    gc.disable()  # a dropped stream ends at once, as it does without longwatch
    try:
        leave(streams.pop())
    finally:
        gc.enable()

    assert before == 1
    answer = [{"role": "assistant", "content": "one "}]
    check_pair(
        recorded(), status="completed", chunk_count=3, output=answer, input_tokens=10, output_tokens=None
    )


async def test_an_asynchronous_helper_that_is_left_early_ends_then(
    async_client: anthropic.AsyncAnthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three"))

    async with async_client.messages.stream(**CALL) as stream:
        async for text in stream.text_stream:
            assert text == "one "
            break

    check_pair(recorded(), status="completed", finish_reasons=None)


def test_failures_and_retries(client: anthropic.Anthropic, server: ModelServer, recorded: Recorded) -> None:
    server.add(ModelFailure(529, "overloaded"), ModelFailure(429, retry_after=0), REPLY)

    with pytest.raises(anthropic.APIStatusError, match="overloaded"):
        client.messages.create(**CALL)
    client.with_options(max_retries=1).messages.create(**CALL)

    check_pair(recorded()[:2], status="failed")
    check_pair(recorded()[2:], response_id="msg_3", **ENDED)


def test_a_connection_cut_in_the_middle_of_a_stream_fails_the_call(
    client: anthropic.Anthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three", cut_after=4))

    with pytest.raises(Exception), client.messages.stream(**CALL) as stream:  # noqa: B017
        stream.until_done()

    check_pair(recorded(), status="failed", output=[{"role": "assistant", "content": "one two "}])


def test_a_tool_runner_is_a_call_for_each_of_its_requests(
    client: anthropic.Anthropic, server: ModelServer, recorded: Recorded
) -> None:
    @beta_tool
    def search(query: str) -> str:
        """Search.

        Args:
            query: the words
        """
        return f"about {query}"

    call = ScriptedToolCall("search", {"query": "tides"}, "toolu_a")
    server.add(ModelReply("Searching.", tool_calls=[call]), ModelReply("High at noon."))

    runner = client.beta.messages.tool_runner(**CALL, tools=[search])
    runner.until_done()

    first_start, first_end, second_start, second_end = recorded()
    assert first_start["parameters"]["tools"] == ["search"]
    called = {"type": "tool_call", "id": "toolu_a", "name": "search", "arguments": {"query": "tides"}}
    asking = {"role": "assistant", "content": [{"type": "text", "text": "Searching."}, called]}
    assert (first_end["output"], first_end["finish_reasons"]) == ([asking], ["tool_use"])
    result = {"type": "tool_result", "id": "toolu_a", "result": "about tides"}
    assert second_start["input"] == [{"role": "user", "content": [result]}]  # the rest is on the server
    assert second_start["parameters"]["thread"] == {"type": "continue", "previous_message_id": "msg_1"}
    assert second_end["output"] == [{"role": "assistant", "content": "High at noon."}]


def test_images_are_recorded_by_size(
    client: anthropic.Anthropic, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)
    source: Any = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}

    client.messages.create(
        model="claude",
        max_tokens=9,
        messages=[{"role": "user", "content": [{"type": "image", "source": source}]}],
    )

    image = {"type": "image", "media_type": "image/png", "bytes": 5}
    assert recorded()[0]["input"] == [{"role": "user", "content": [image]}]


def test_counting_tokens_is_not_a_model_call(
    client: anthropic.Anthropic, server: ModelServer, recorded: Recorded
) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="claude", messages=MESSAGES)

    assert recorded() == []


def test_the_clients_own_spans_of_a_call_are_not_recorded_again(
    server: ModelServer, recorded: Recorded
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(LongwatchSpanProcessor())
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    server.add(REPLY, REPLY)

    with anthropic.Anthropic(
        base_url=server.url, api_key="test", open_telemetry={"tracer_provider": provider}
    ) as client:
        client.messages.create(**CALL)
        stream_by_loop(client)
    provider.shutdown()

    assert len(spans.get_finished_spans()) == 2
    check_pair(recorded()[:2], response_id="msg_1", **ENDED)
    check_pair(recorded()[2:], response_id="msg_2", **ENDED)


async def test_parallel_tasks_are_apart(recorded: Recorded) -> None:
    def echo(request: ModelRequest) -> ModelReply:
        return ModelReply(str(request.body["messages"][0]["content"]))

    with ModelServer(respond=echo) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="x") as client:

            async def ask(number: int) -> None:
                messages: Any = [{"role": "user", "content": str(number)}]
                async with client.messages.stream(model="claude", max_tokens=9, messages=messages) as stream:
                    await stream.until_done()

            await asyncio.gather(*(ask(number) for number in range(20)))

    events = recorded()
    starts = {each["call_id"]: each["input"][0]["content"] for each in events if each["status"] == "started"}
    ends = {each["call_id"]: each["output"][0]["content"] for each in events if each["status"] == "completed"}
    assert len(starts) == 20
    assert starts == ends
