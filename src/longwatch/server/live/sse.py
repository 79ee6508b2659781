"""Server-sent events: any number of topics in one stream, written to the socket as they are rendered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from longwatch.following.broadcast import TAKEN_BYTES
from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import CLOSING
from longwatch.server.live.subscription import TopicReader
from longwatch.server.live.topics import Topic, join_cursors
from longwatch.server.live.viewers import Viewer

RETRY_MS = 1_000  # after which a browser comes back
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),  # a proxy must not buffer live messages
    (b"x-content-type-options", b"nosniff"),
]
GREETING = b"retry: %d\n\n" % RETRY_MS  # so that a client knows at once that it is connected


class FeedStream(Response):
    """The response of the stream route. It writes to the server itself: every layer costs each delivery."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, topics: Sequence[Topic], cursors: Sequence[str]) -> None:
        super().__init__(media_type=self.media_type)
        self._feed = feed
        self._topics = topics
        self._cursors = cursors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = Viewer()
        gone = asyncio.get_running_loop().create_task(until_gone(receive))
        gone.add_done_callback(lambda _: viewer.leave())
        readers: list[TopicReader] = []
        self._feed.viewers.enter(viewer)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": GREETING, "more_body": True})
            for topic, cursor in zip(self._topics, self._cursors, strict=True):
                readers.append(self._feed.open(topic, cursor, viewer.wake, viewer.read_ahead))
            writer = OneTopic(readers[0]) if len(readers) == 1 else ManyTopics(readers)
            # A task of its own resumes directly. Here, each delivery would pass every coroutine that called
            # this one.
            bare: Send = getattr(send, "bare", send)
            viewer.task = asyncio.get_running_loop().create_task(write(viewer, writer, bare))
            await viewer.task
        except asyncio.CancelledError:
            if not viewer.is_closing:
                raise
            # The viewer consumed nothing during the shutdown, so it gets no message.
        finally:
            self._feed.viewers.exit(viewer)
            for reader in readers:
                reader.close()
            gone.cancel()


async def write(viewer: Viewer, writer: OneTopic | ManyTopics, send: Send) -> None:
    """Send everything until one side leaves. A viewer that consumes nothing blocks only its own `send`."""
    chunk, wait = writer.chunk, viewer.wait
    while True:
        data = chunk()
        if viewer.has_notice:
            beat = viewer.take_beat()
            if viewer.is_gone:
                return
            if viewer.is_closing:
                await send({"type": "http.response.body", "body": data + CLOSING.sse, "more_body": False})
                return
            if beat is not None:
                data += beat.sse
        if data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        else:
            await wait()


class OneTopic:
    """A stream of one topic: its pieces are the same for all who follow it."""

    def __init__(self, reader: TopicReader) -> None:
        self.chunk = reader.chunk


class ManyTopics:
    """A stream of several topics: the id of each message has the cursors of all of them."""

    def __init__(self, readers: Sequence[TopicReader]) -> None:
        self._readers = readers
        self._cursors = [reader.cursor for reader in readers]
        self._next = 0  # the topic to begin with

    def chunk(self) -> bytes:
        """Frames of each topic until the piece is large enough; the next piece begins after that topic."""
        parts: list[bytes] = []
        size = 0
        for _ in self._readers:
            index = self._next
            self._next = (index + 1) % len(self._readers)
            for frame in self._readers[index].take():
                if frame.cursor is not None:
                    self._cursors[index] = frame.cursor
                    parts.append(b"id: %b\n" % join_cursors(self._cursors).encode())
                parts.append(frame.body)
                size += len(frame.body)
            if size >= TAKEN_BYTES:
                break
        return b"".join(parts)


async def until_gone(receive: Receive) -> None:
    """Return when the other side has left."""
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
