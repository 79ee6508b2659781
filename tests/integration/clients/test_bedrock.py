"""A real boto3 client for Bedrock against the scripted model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.eventstream import EventStream
from botocore.exceptions import ClientError

from longwatch.integrations import bedrock as adapter
from longwatch.testing import ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from tests.integration.clients.conftest import Recorded

SERVICE = "bedrock-runtime"
MESSAGES: Any = [{"role": "user", "content": [{"text": "Hello?"}]}]
CALL: Any = {"modelId": "anthropic.claude-1:0", "messages": MESSAGES}
REPLY = ModelReply(
    "good day",
    input_tokens=100,
    output_tokens=20,
    cache_read_tokens=64,
    cache_write_tokens=3,
    response_id="r-1",
)
ENDED = {
    "status": "completed",
    "operation": "chat",
    "response_id": "r-1",
    "finish_reasons": ["end_turn"],
    "output": [{"role": "assistant", "content": "good day"}],
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_tokens": 64,
    "cache_write_tokens": 3,
}


@pytest.fixture
def client(server: ModelServer) -> Iterator[Any]:
    adapter.install()
    adapter.install()
    new_client: Any = boto3.session.Session().client
    client = new_client(SERVICE, endpoint_url=server.url, config=Config(retries={"total_max_attempts": 2}))
    yield client
    client.close()


def check_pair(events: list[dict[str, Any]], **expected: object) -> None:
    start, end = events
    assert start["call_id"] == end["call_id"]
    assert (start["status"], start["model"], start["provider"]) == ("started", CALL["modelId"], "aws.bedrock")
    assert start["recorded_by"] == end["recorded_by"] == "bedrock"
    assert {name: end.get(name) for name in expected} == expected


def test_converse(client: Any, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)
    tool = {"toolSpec": {"name": "search", "inputSchema": {"json": {"type": "object"}}}}

    client.converse(
        **CALL,
        system=[{"text": "Be brief."}],
        inferenceConfig={"maxTokens": 9, "temperature": 0.5},
        toolConfig={"tools": [tool]},
    )

    check_pair(recorded(), chunk_count=None, **ENDED)
    start = recorded()[0]
    assert start["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello?"},
    ]
    assert start["parameters"] == {"maxTokens": 9, "temperature": 0.5, "tools": ["search"], "stream": False}


def test_converse_stream(client: Any, server: ModelServer, recorded: Recorded) -> None:
    server.add(REPLY)

    response = client.converse_stream(**CALL)
    assert isinstance(response["stream"], EventStream)
    events = list(response["stream"])

    assert len(events) == 6
    check_pair(recorded(), chunk_count=6, **ENDED)
    end = recorded()[1]
    assert 0 < end["time_to_first_token_ms"] <= end["duration_ms"]


def close(stream: Any) -> None:
    stream.close()


def drop(stream: Any) -> None:
    """The caller holds no other reference."""


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # botocore leaves the socket open
@pytest.mark.parametrize("leave", [close, drop])
def test_a_stream_that_is_left_early_ends_then(
    leave: Callable[[Any], None], client: Any, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY)
    streams = [client.converse_stream(**CALL)["stream"]]
    for event in streams[0]:
        if "contentBlockDelta" in event:
            break
    before = len(recorded())

    leave(streams.pop())
    gc.collect()

    assert before == 1
    check_pair(
        recorded(), status="completed", chunk_count=2, output=[{"role": "assistant", "content": "good "}]
    )


def test_failures_and_retries(client: Any, server: ModelServer, recorded: Recorded) -> None:
    server.add(ModelFailure(400, "wrong"), ModelFailure(503), REPLY)

    with pytest.raises(ClientError, match="wrong"):
        client.converse(**CALL)
    client.converse(**CALL)

    check_pair(recorded()[:2], status="failed")
    assert "ValidationException" in recorded()[1]["error_message"]
    check_pair(recorded()[2:], **ENDED)
    assert len(server.requests) == 3


def test_a_connection_cut_in_the_middle_of_a_stream_fails_the_call(
    client: Any, server: ModelServer, recorded: Recorded
) -> None:
    server.add(ModelReply("one two three", cut_after=3))

    with pytest.raises(Exception):  # noqa: B017
        list(client.converse_stream(**CALL)["stream"])

    check_pair(recorded(), status="failed", chunk_count=3)


def test_tools_and_media_are_parts_of_messages(client: Any, server: ModelServer, recorded: Recorded) -> None:
    call = ScriptedToolCall("search", {"query": "tides"}, "t-1")
    server.add(
        ModelReply("Searching.", reasoning="Tides.", tool_calls=[call]), REPLY, ModelReply(tool_calls=[call])
    )
    image = {"image": {"format": "png", "source": {"bytes": b"hello"}}}
    question = {"role": "user", "content": [{"text": "What?"}, image]}

    first = client.converse(modelId="m", messages=[question])
    result = {"toolResult": {"toolUseId": "t-1", "content": [{"json": {"high": "noon"}}]}}
    messages = [question, first["output"]["message"], {"role": "user", "content": [result]}]
    client.converse(modelId="m", messages=messages)
    list(client.converse_stream(**CALL)["stream"])

    called = {"type": "tool_call", "id": "t-1", "name": "search", "arguments": {"query": "tides"}}
    parts = [{"type": "reasoning", "text": "Tides."}, {"type": "text", "text": "Searching."}, called]
    returned = {"type": "tool_result", "id": "t-1", "result": [{"json": {"high": "noon"}}]}
    events = recorded()
    assert events[1]["output"] == [{"role": "assistant", "content": parts}]
    assert events[2]["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {"type": "image", "media_type": "image/png", "bytes": 5},
            ],
        },
        {"role": "assistant", "content": parts},
        {"role": "user", "content": [returned]},
    ]
    assert events[5]["output"] == [{"role": "assistant", "content": [called]}]
