"""The real client `openai` against the scripted model: every call is recorded once, from start to end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pydantic
import pytest

import longwatch
from longwatch.integrations import generated_clients
from longwatch.integrations import openai as adapter
from longwatch.recording.model_calls import MODEL_CALL_LAYER
from longwatch.testing import MemoryJournal, ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from longwatch.testing.model_server import ModelRequest
from tests.integration.clients.conftest import Recorded

MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
REPLY = ModelReply(
    "good day",
    model="gpt-real",
    input_tokens=100,
    output_tokens=20,
    cache_read_tokens=64,
    cache_write_tokens=3,
    reasoning_tokens=7,
)
TOKENS = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_tokens": 64,
    "cache_write_tokens": 3,
    "reasoning_tokens": 7,
}
SEARCH = ModelReply(tool_calls=[ScriptedToolCall("search", {"query": "tides"}, "call_a")])
TOOLS: Any = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
ANSWER = [{"role": "assistant", "content": "good day"}]


@pytest.fixture(autouse=True)
def _installed() -> None:
    adapter.install()
    adapter.install()


@pytest.fixture
def client(server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(server: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0) as client:
        yield client


def subset(payload: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: payload[name] for name in names if name in payload}


def check_pair(events: list[dict[str, Any]], **expected: object) -> None:
    """Two events of one call, the second with these fields."""
    start, end = events
    assert start["call_id"] == end["call_id"]
    assert (start["status"], start["model"], start["provider"]) == ("started", "gpt", "openai")
    assert start["recorded_by"] == end["recorded_by"] == "openai"
    assert {name: end.get(name) for name in expected} == expected


ENDED = {
    "status": "completed",
    "response_model": "gpt-real",
    "finish_reasons": ["stop"],
    "output": ANSWER,
    **TOKENS,
}


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


@pytest.mark.parametrize("broken", ["begin_model_call", "Chunks", "notify_on_close"])
def test_a_fault_of_the_adapter_does_not_reach_the_program(
    broken: str,
    client: openai.OpenAI,
    server: ModelServer,
    recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("a bug in the adapter")

    monkeypatch.setattr(generated_clients, broken, fail)
    server.add(REPLY, REPLY)

    answer = client.chat.completions.create(model="gpt", messages=MESSAGES)
    chunks = list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    assert answer.choices[0].message.content == "good day"
    assert len(chunks) == 4
    starts = [each for each in recorded() if each["status"] == "started"]
    assert len(recorded()) == 2 * len(starts)  # what began has ended


def test_a_fault_while_a_stream_is_read_does_not_reach_the_program(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter.ChatStream, "_add_choice", lambda *_: 1 / 0)
    server.add(REPLY)

    chunks = list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    assert len(chunks) == 4
    check_pair(recorded(), status="completed", output=None)


def test_other_requests_are_not_model_calls(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    with pytest.raises(openai.NotFoundError):
        client.post("/images/generations", cast_to=object, body={"model": "gpt"})

    assert recorded() == []


def test_a_call_belongs_to_the_tool_or_agent_that_makes_it(
    client: openai.OpenAI, server: ModelServer, journal: MemoryJournal, recorded: Recorded
) -> None:
    server.add(REPLY)

    @longwatch.agent
    def writer() -> None:
        client.chat.completions.create(model="gpt", messages=MESSAGES)

    writer()

    start = recorded()[0]
    run_id = longwatch.current_run_id()
    assert run_id is not None
    agent = next(each for each in journal.read(run_id).events if each.type == "agent_start")
    assert start["parent_call_id"] == agent.call_id


def test_a_call_that_an_outer_layer_records_is_not_recorded_again(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY)

    token = MODEL_CALL_LAYER.set("framework")
    client.chat.completions.create(model="gpt", messages=MESSAGES)
    MODEL_CALL_LAYER.reset(token)
    client.chat.completions.create(model="gpt", messages=MESSAGES)

    assert len(recorded()) == 2


def echo(request: ModelRequest) -> ModelReply:
    return ModelReply(
        str(request.body["messages"][0]["content"]),
        response_id=f"id-{request.body['messages'][0]['content']}",
    )


def test_calls_in_threads_are_apart(recorded: Recorded) -> None:
    def ask(number: int) -> None:
        stream = shared.chat.completions.create(
            model="gpt", messages=[{"role": "user", "content": str(number)}], stream=True
        )
        list(stream)

    with (
        ModelServer(respond=echo) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as shared,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(ask, range(40)))

    check_each_answer(recorded(), 40)


async def test_parallel_tasks_are_apart(recorded: Recorded) -> None:
    with ModelServer(respond=echo) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:

            async def ask(number: int) -> None:
                async for _ in await client.chat.completions.create(
                    model="gpt", messages=[{"role": "user", "content": str(number)}], stream=True
                ):
                    pass

            await asyncio.gather(*(ask(number) for number in range(40)))

    check_each_answer(recorded(), 40)


def check_each_answer(events: list[dict[str, Any]], count: int) -> None:
    starts = {each["call_id"]: each["input"][0]["content"] for each in events if each["status"] == "started"}
    ends = {each["call_id"]: each["output"][0]["content"] for each in events if each["status"] == "completed"}
    assert len(starts) == count
    assert starts == ends


def test_outside_any_run_a_call_is_a_run(
    client: openai.OpenAI, server: ModelServer, journal: MemoryJournal
) -> None:
    server.add(REPLY)

    client.chat.completions.create(model="gpt", messages=MESSAGES)

    assert longwatch.flush()
    (run,) = journal.find_runs().runs
    assert (run.name, run.status) == ("gpt", "succeeded")


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://west.openai.azure.com/openai", "azure.ai.openai"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://notdeepseek.com", "openai"),
        ("http://127.0.0.1:8000/v1", "openai"),
    ],
)
def test_the_provider_is_named_by_its_host(url: str, provider: str) -> None:
    from longwatch.integrations.generated_clients import provider_of

    assert provider_of(url, "openai") == provider
