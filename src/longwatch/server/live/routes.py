"""The routes of the feed: a stream, a long poll, and two WebSockets."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.errors import InvalidInput, LongwatchError
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import After, WaitQuery
from longwatch.server.errors import ApiError, api_error
from longwatch.server.live.feed import Feed
from longwatch.server.live.long_poll import gather
from longwatch.server.live.schemas import FeedPage, stream_responses
from longwatch.server.live.sse import FeedStream
from longwatch.server.live.topics import MAX_TOPICS, Topic, split_cursors, topics_of
from longwatch.server.responses import JSON_TYPE

MAX_FIELDS = MAX_TOPICS + 10
STREAM_PATH = "/api/stream"

router = APIRouter(prefix="/api", tags=["feed"])

Topics = Annotated[
    list[str],
    Query(
        alias="topic",
        description="What to follow: `run:{run_id}`, `runs`, `turn:{project}/{session}/{turn}`, "
        "`session:{project}/{session}`, `sessions:{project}`, `projects`, "
        "`files:{project}`, `executions` or `execution:{plan}/{execution_id}`. "
        "Any number of them.",
    ),
]
LastEventId = Annotated[
    str,
    Header(alias="Last-Event-ID", description="The id of the last message that was seen; sent by browsers."),
]
LastEventIdQuery = Annotated[str, Query(description="The same, for clients that cannot set headers.")]


@router.get("/stream", status_code=200, response_class=FeedStream, responses=stream_responses())
async def stream(
    request: Request,
    topic: Topics,
    after: After = "",
    last_event_id: LastEventIdQuery = "",
    last_event_id_header: LastEventId = "",
) -> FeedStream:
    """Follow topics as server-sent events: what was, then `caught_up`, then what happens."""
    return stream_of(_feed(request), topic, last_event_id_header or last_event_id, after)


@router.get("/feed", response_class=Response, responses=json_responses(FeedPage, description="What is new."))
async def feed(request: Request, topic: Topics, after: After = "", wait: WaitQuery = 0) -> Response:
    """Ask what is new in topics since a cursor, and wait for it if there is nothing."""
    topics = _topics(topic)
    found = await gather(_feed(request), topics, split_cursors(after, len(topics)), wait)
    return Response(found.body.encode(), headers={"Cache-Control": "no-store"}, media_type=JSON_TYPE)


def stream_of(feed: Feed, names: list[str], last_event_id: str, after: str) -> FeedStream:
    """The stream of these topics, from where a client left off."""
    topics = _topics(names)
    # A browser that comes back repeats the address it began with, so what it saw since counts first.
    return FeedStream(feed, topics, split_cursors(last_event_id or after, len(topics)))


class HotStream:
    """Serves the stream in plain ASGI, ahead of the framework: each layer more costs each delivery."""

    def __init__(self, app: ASGIApp, feed: Feed) -> None:
        self._app = app
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != STREAM_PATH or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        seen = [value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"]
        try:
            query = _query(scope["query_string"])
            last, after = (query.get(name, [""])[-1] for name in ("last_event_id", "after"))
            stream = stream_of(self._feed, query.get("topic", []), "".join(seen[-1:]) or last, after)
        except LongwatchError as error:
            await api_error(error).send(send)
        except ApiError as error:
            await error.send(send)
        else:
            await stream(scope, receive, send)


def _query(text: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise ApiError(400, "bad_request", f"The query cannot be read: {error}.") from error


def _feed(request: Request) -> Feed:
    found: Feed = request.app.state.feed
    return found


def _topics(names: list[str]) -> list[Topic]:
    try:
        return topics_of(names)
    except InvalidInput as error:
        raise ApiError(
            422,
            "invalid_request",
            "Invalid request: topic. The details say why.",
            details=[("topic", str(error))],
        ) from error
