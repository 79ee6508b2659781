"""The long poll: the same messages in single responses, for clients behind proxies that buffer streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import Frame
from longwatch.server.live.subscription import TopicReader
from longwatch.server.live.topics import Topic, join_cursors
from longwatch.server.live.viewers import Viewer

MOST_MESSAGES = 1_000  # in one response
MOST_BYTES = 512 * 1024  # the message that reaches it is the last one
READ_SECONDS = 10.0  # to read history, beyond the requested wait


class LongPollResponse:
    """The messages of one response."""

    def __init__(self, readers: Sequence[TopicReader], cursors: Sequence[str]) -> None:
        self.frames: list[Frame] = []
        self.cursors = list(cursors)
        self._readers = readers
        self._is_fresh = [not cursor for cursor in cursors]  # from the beginning: `caught_up` is news
        self._is_caught_up = [False] * len(readers)
        self._bytes = 0
        self._has_news = False

    @property
    def is_full(self) -> bool:
        return len(self.frames) >= MOST_MESSAGES or self._bytes >= MOST_BYTES

    def is_enough(self, *, time_is_up: bool) -> bool:
        """Whether to respond: every topic has caught up, and there is news or no time left."""
        return self.is_full or ((self._has_news or time_is_up) and all(self._is_caught_up))

    def collect(self) -> None:
        """Take the available messages. The next response has those that do not fit, from its cursor."""
        for index, reader in enumerate(self._readers):
            while not self.is_full and (found := reader.take()):
                for frame in found:
                    self._add(index, frame)
            if reader.is_over:
                self._is_caught_up[index] = True

    def _add(self, index: int, frame: Frame) -> None:
        self.frames.append(frame)
        self._bytes += len(frame.data)
        if frame.cursor is not None:
            self.cursors[index] = frame.cursor
        if frame.name == "caught_up":
            self._is_caught_up[index] = True
            self._has_news = self._has_news or self._is_fresh[index]
        else:
            self._has_news = True

    @property
    def body(self) -> str:
        messages = ",".join(f'{{"event":"{frame.name}","data":{frame.data}}}' for frame in self.frames)
        return f'{{"messages":[{messages}],"cursor":"{join_cursors(self.cursors)}"}}'


async def gather(
    feed: Feed, topics: Sequence[Topic], cursors: Sequence[str], wait_seconds: float
) -> LongPollResponse:
    """The messages since the cursors, as soon as there are some or when the time is up."""
    viewer = Viewer()
    feed.viewers.enter(viewer)
    readers: list[TopicReader] = []
    timers: list[asyncio.TimerHandle] = []
    try:
        for topic, cursor in zip(topics, cursors, strict=True):
            readers.append(feed.open(topic, cursor, viewer.wake, viewer.read_ahead))
        response = LongPollResponse(readers, cursors)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        # After the wait, history that is not read yet is still read and sent, if possible.
        timers = [
            loop.call_later(wait_seconds, viewer.wake),
            loop.call_later(wait_seconds + READ_SECONDS, viewer.leave),
        ]
        while True:
            response.collect()
            if viewer.is_gone or viewer.is_closing or response.is_enough(time_is_up=loop.time() >= until):
                return response
            await viewer.wait()
    finally:
        for timer in timers:
            timer.cancel()
        feed.viewers.exit(viewer)
        for reader in readers:
            reader.close()
