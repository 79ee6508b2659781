"""One protocol over three transports, on a real server."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import pytest
import websockets

from longwatch.journal.sqlite import SqliteJournal
from tests.integration.server.live.clients import FeedMessage, socket_messages, sse_messages
from tests.integration.server.live.feed_follower import events_of, ids
from tests.integration.server.live.servers import ServerProcess
from tests.patience import PATIENCE_SECONDS

T = TypeVar("T")


@pytest.fixture
def run_id() -> str:
    return f"wf-{secrets.token_hex(6)}"


async def take_until(messages: AsyncIterator[T], is_last: Callable[[T], bool]) -> list[T]:
    """Messages up to one."""
    found: list[T] = []
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(messages):  # type: ignore[type-var]
        async for each in messages:
            found.append(each)
            if is_last(each):
                return found
    raise AssertionError(f"the last one never came; so far {found}")


def is_caught_up(message: FeedMessage) -> bool:
    return message.event == "caught_up"


async def test_a_stream_is_what_browsers_and_proxies_expect(http: httpx2.AsyncClient, run_id: str) -> None:
    async with http.stream("GET", "/api/stream", params={"topic": f"run:{run_id}"}) as response:
        first = await anext(response.aiter_bytes())

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in response.headers
    assert first.startswith(b"retry: ")


async def test_the_id_of_one_topic_is_its_cursor_and_of_several_all_of_theirs(
    http: httpx2.AsyncClient, shared_journal: SqliteJournal, run_id: str
) -> None:
    shared_journal.append(events_of(run_id, 2))
    topics = [f"run:{run_id}", f"run:{run_id}-other"]

    alone = await take_until(sse_messages(http, topics[:1], ""), is_caught_up)
    together = await take_until(
        sse_messages(http, topics, ""), lambda message: message.data["topic"] == topics[1]
    )

    assert all(message.cursor and ";" not in message.cursor for message in alone)
    assert [message.cursor for message in alone[:2]] == [
        message.cursor.partition(";")[0] for message in together[:2] if message.cursor
    ]
    assert all(message.cursor and message.cursor.count(";") == 1 for message in together[:2])


@pytest.mark.parametrize("where", ["Last-Event-ID", "last_event_id", "after"])
async def test_a_stream_resumes_from_the_header_or_either_parameter(
    http: httpx2.AsyncClient, shared_journal: SqliteJournal, run_id: str, where: str
) -> None:
    events = events_of(run_id, 5)
    shared_journal.append(events)
    whole = await take_until(sse_messages(http, [f"run:{run_id}"], ""), is_caught_up)
    cursor = whole[1].cursor
    assert cursor is not None

    if where == "Last-Event-ID":
        messages = sse_messages(http, [f"run:{run_id}"], cursor)
    else:
        async with httpx2.AsyncClient(base_url=http.base_url, params={where: cursor}) as other:
            messages = sse_messages(other, [f"run:{run_id}"], "")
            rest = await take_until(messages, is_caught_up)
            assert [message.data["event"]["event_id"] for message in rest[:-1]] == ids(events[2:])
            return
    rest = await take_until(messages, is_caught_up)

    assert [message.data["event"]["event_id"] for message in rest[:-1]] == ids(events[2:])


@pytest.mark.parametrize("path", ["/api/stream", "/api/feed"])
@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 422, "invalid_request"),
        ("topic=nonsense", 422, "invalid_request"),
        ("topic=runs&topic=runs", 422, "invalid_request"),
        ("topic=files:../etc", 422, "invalid_request"),
        ("topic=runs&after=a1;a2", 400, "invalid_cursor"),
        ("&".join(f"topic=run:{number}" for number in range(101)), 422, "invalid_request"),
    ],
)
async def test_a_topic_that_cannot_be_followed_is_refused_in_the_shape_of_every_error(
    http: httpx2.AsyncClient, path: str, query: str, status: int, code: str
) -> None:
    response = await http.get(f"{path}?{query}")

    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == code


async def test_a_long_poll_returns_existing_items_at_once(
    http: httpx2.AsyncClient, shared_journal: SqliteJournal, run_id: str
) -> None:
    events = events_of(run_id, 3)
    shared_journal.append(events)

    response = await http.get("/api/feed", params={"topic": f"run:{run_id}", "wait": "25"})

    found = response.json()
    assert [message["event"] for message in found["messages"]] == ["event"] * 3 + ["caught_up"]
    assert found["cursor"]
    assert response.headers["cache-control"] == "no-store"


async def test_a_long_poll_waits_for_news_and_returns_them(
    http: httpx2.AsyncClient, shared_journal: SqliteJournal, run_id: str
) -> None:
    events = events_of(run_id, 2)
    shared_journal.append(events[:1])
    parameters = {"topic": f"run:{run_id}", "wait": "25"}
    first = (await http.get("/api/feed", params=parameters)).json()

    pending = asyncio.create_task(http.get("/api/feed", params={**parameters, "after": first["cursor"]}))
    await asyncio.sleep(0)
    await asyncio.to_thread(shared_journal.append, events[1:])
    second = (await pending).json()

    event_ids = [
        message["data"]["event"]["event_id"] for message in second["messages"] if message["event"] == "event"
    ]
    assert event_ids == ids(events[1:])
    assert second["cursor"] != first["cursor"]


async def test_a_long_poll_without_news_returns_the_same_cursor(
    http: httpx2.AsyncClient, shared_journal: SqliteJournal, run_id: str
) -> None:
    shared_journal.append(events_of(run_id, 1))
    parameters = {"topic": f"run:{run_id}"}
    first = (await http.get("/api/feed", params=parameters)).json()

    second = (
        await http.get("/api/feed", params={**parameters, "after": first["cursor"], "wait": "1"})
    ).json()

    assert second["cursor"] == first["cursor"]
    assert [message["event"] for message in second["messages"]] == ["caught_up"]


async def test_a_socket_follows_leaves_and_resumes_topics(
    shared_server: ServerProcess, shared_journal: SqliteJournal, run_id: str
) -> None:
    events = events_of(run_id, 4)
    shared_journal.append(events)
    topic = f"run:{run_id}"
    whole = await take_until(
        socket_messages(shared_server.websocket_url, {"follow": topic}),
        lambda message: message["event"] == "caught_up",
    )

    rest = await take_until(
        socket_messages(
            shared_server.websocket_url,
            {"follow": "runs"},
            {"unfollow": "runs"},
            {"follow": topic, "after": whole[1]["cursor"]},
        ),
        lambda message: message["event"] == "caught_up" and message["data"]["topic"] == topic,
    )

    event_ids = [message["data"]["event"]["event_id"] for message in rest if message["event"] == "event"]
    assert event_ids == ids(events[2:])


@pytest.mark.parametrize(
    "command",
    ["no json", "[]", "{}", '{"follow": 3}', '{"follow": "nonsense"}', '{"follow": "runs", "after": 5}'],
)
async def test_a_socket_reports_an_invalid_command_and_continues(
    shared_server: ServerProcess, command: str
) -> None:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        websockets.connect(f"{shared_server.websocket_url}/api/socket") as socket,
    ):
        await socket.send(command)
        refused = json.loads(await socket.recv())
        await socket.send(json.dumps({"follow": "run:wf-none"}))
        message = json.loads(await socket.recv())

    assert refused["event"] == "error"
    assert refused["data"]["message"]
    assert message["event"] == "caught_up"


async def test_a_socket_from_a_foreign_page_is_refused(shared_server: ServerProcess) -> None:
    url = f"{shared_server.websocket_url}/api/socket"

    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url, origin=websockets.Origin("http://evil.example"))

    assert refused.value.response.status_code == 403


async def test_the_schema_describes_the_stream(http: httpx2.AsyncClient) -> None:
    schema: dict[str, Any] = (await http.get("/openapi.json")).json()

    stream = schema["paths"]["/api/stream"]["get"]
    content = stream["responses"]["200"]["content"]
    assert list(content) == ["text/event-stream"]
    assert content["text/event-stream"]["itemSchema"]["required"] == ["event", "data"]
    assert {each["name"] for each in stream["parameters"]} >= {"topic", "after", "Last-Event-ID"}
    assert "/api/feed" in schema["paths"]
