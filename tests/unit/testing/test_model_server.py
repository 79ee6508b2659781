"""The scripted model server, spoken to with plain HTTP. The real clients are in tests/integration/clients."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.eventstream import EventStreamBuffer

from longwatch.testing import ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from longwatch.testing.model_server import ModelApi, ModelRequest

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
CONVERSE, CONVERSE_STREAM = "/model/a.b-1%3A0/converse", "/model/a.b-1%3A0/converse-stream"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(server: ModelServer, path: str, **body: object) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read()
    finally:
        connection.close()


def events(body: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_replies_come_in_the_order_of_the_script_and_requests_are_logged(server: ModelServer) -> None:
    server.add(ModelReply("one"), ModelReply("two"))

    texts = [
        json.loads(post(server, CHAT, model="m", messages=[])[2])["choices"][0]["message"]["content"]
        for _ in range(2)
    ]

    assert texts == ["one", "two"]
    assert [(request.api, request.model) for request in server.requests] == [(ModelApi.CHAT, "m")] * 2


def test_an_exhausted_script_is_an_error_that_no_client_retries(server: ModelServer) -> None:
    status, _, body = post(server, CHAT, model="m")

    assert status == 400
    assert "no further reply" in json.loads(body)["error"]["message"]


def test_a_path_without_an_api_is_not_found(server: ModelServer) -> None:
    assert post(server, "/v1/images")[0] == 404


def test_a_function_may_answer_by_the_request() -> None:
    def respond(request: ModelRequest) -> ModelReply:
        return ModelReply(str(request.body["messages"][0]["content"]).upper())

    with ModelServer(respond=respond) as server:
        _, _, body = post(server, MESSAGES, model="m", messages=[{"role": "user", "content": "hi"}])

    assert json.loads(body)["content"] == [{"type": "text", "text": "HI"}]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, CONVERSE])
def test_a_failure_has_the_status_the_message_and_the_delay(server: ModelServer, path: str) -> None:
    server.add(ModelFailure(429, "too fast", retry_after=1.5))

    status, headers, body = post(server, path, model="m")

    assert (status, headers["Retry-After"]) == (429, "1.5")
    assert b"too fast" in body


def test_anthropic_and_bedrock_count_cached_tokens_apart(server: ModelServer) -> None:
    reply = ModelReply("x", input_tokens=100, output_tokens=5, cache_read_tokens=70, cache_write_tokens=20)
    server.add(reply, reply, reply)

    message = json.loads(post(server, MESSAGES, model="m")[2])["usage"]
    converse = json.loads(post(server, CONVERSE)[2])["usage"]
    chat = json.loads(post(server, CHAT, model="m")[2])["usage"]

    assert (message["input_tokens"], message["cache_read_input_tokens"]) == (10, 70)
    assert (converse["inputTokens"], converse["cacheWriteInputTokens"], converse["totalTokens"]) == (
        10,
        20,
        105,
    )
    assert (chat["prompt_tokens"], chat["prompt_tokens_details"]["cached_tokens"]) == (100, 70)


def test_a_chat_stream_states_usage_only_if_the_request_wants_it(server: ModelServer) -> None:
    server.add(ModelReply("a b"), ModelReply("a b"))

    plain = events(post(server, CHAT, model="m", stream=True)[2])
    with_usage = events(post(server, CHAT, model="m", stream=True, stream_options={"include_usage": True})[2])

    assert [chunk.get("usage") for chunk in plain] == [None] * 4
    assert with_usage[-1]["usage"]["total_tokens"] == 15


def test_tool_calls_arrive_in_parts(server: ModelServer) -> None:
    server.add(ModelReply(tool_calls=[ScriptedToolCall("search", {"query": "tides"}, "call_a")]))

    chunks = events(post(server, CHAT, model="m", stream=True)[2])
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]

    assert calls[0]["id"] == "call_a"
    assert len(calls) == 3
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"query": "tides"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_bedrock_streams_valid_event_stream_messages(server: ModelServer) -> None:
    server.add(ModelReply("good day"))
    buffer = EventStreamBuffer()

    _, headers, body = post(server, CONVERSE_STREAM)
    buffer.add_data(body)  # checks every checksum
    messages: list[Any] = list(buffer)

    assert headers["Content-Type"] == "application/vnd.amazon.eventstream"
    assert server.requests[0].model == "a.b-1:0"
    assert [message.headers[":event-type"] for message in messages] == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    ]


def test_a_cut_stream_ends_without_its_last_chunk(server: ModelServer) -> None:
    server.add(ModelReply("one two three", cut_after=2))

    with pytest.raises(http.client.IncompleteRead) as cut:
        post(server, CHAT, model="m", stream=True)

    assert len(events(cut.value.partial)) == 2


def test_a_cut_before_the_first_chunk_is_a_lost_connection(server: ModelServer) -> None:
    server.add(ModelReply("never", cut_after=0))

    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        post(server, CHAT, model="m")


def test_a_pause_holds_a_stream_at_a_chunk(server: ModelServer) -> None:
    reached, released = threading.Event(), threading.Event()

    def pause(number: int) -> None:
        if number == 2:
            reached.set()
            released.wait(10)

    server.add(ModelReply("one two", pause=pause))
    bodies: list[bytes] = []
    thread = threading.Thread(target=lambda: bodies.append(post(server, CHAT, model="m", stream=True)[2]))
    thread.start()

    assert reached.wait(10)
    assert bodies == []
    released.set()
    thread.join(10)
    assert len(events(bodies[0])) == 4
