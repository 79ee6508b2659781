"""The long poll: the same messages, some at a time, for clients behind proxies that hold streams back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import Frame
from longwatch.server.live.subscription import TopicReader
from longwatch.server.live.topics import Topic, join_cursors
from longwatch.server.live.viewers import Viewer

MOST_MESSAGES = 1_000  # in one answer
MOST_BYTES = 512 * 1024  # the message that reaches it is the last one
READ_SECONDS = 10.0  # for history to be read, beyond what was asked to wait


class Gathering:
    """What has been found for one answer."""

    def __init__(self, readers: Sequence[TopicReader], cursors: Sequence[str]) -> None:
        self.frames: list[Frame] = []
        self.cursors = list(cursors)
        self._readers = readers
        self._is_fresh = [not cursor for cursor in cursors]  # it begins at the start, and wants to know so
        self._is_caught_up = [False] * len(readers)
        self._bytes = 0
        self._has_news = False

    @property
    def is_full(self) -> bool:
        return len(self.frames) >= MOST_MESSAGES or self._bytes >= MOST_BYTES

    def is_enough(self, *, time_is_up: bool) -> bool:
        """Whether to answer: every topic has told what it has, and there is news or no time left."""
        return self.is_full or ((self._has_news or time_is_up) and all(self._is_caught_up))

    def gather(self) -> None:
        """Take what is there. What does not fit any more is told by the next answer, from its cursor."""
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


async def gathered(
    feed: Feed, topics: Sequence[Topic], cursors: Sequence[str], wait_seconds: float
) -> Gathering:
    """What is new since the cursors, as soon as there is something or when the time is up."""
    viewer = Viewer()
    feed.viewers.enter(viewer)
    readers: list[TopicReader] = []
    timers: list[asyncio.TimerHandle] = []
    try:
        for topic, cursor in zip(topics, cursors, strict=True):
            readers.append(feed.open(topic, cursor, viewer.wake, viewer.read_ahead))
        gathering = Gathering(readers, cursors)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        # Though the time is up, what is there already is read and told, if that is possible at all.
        timers = [
            loop.call_later(wait_seconds, viewer.wake),
            loop.call_later(wait_seconds + READ_SECONDS, viewer.leave),
        ]
        while True:
            gathering.gather()
            if viewer.is_gone or viewer.is_closing or gathering.is_enough(time_is_up=loop.time() >= until):
                return gathering
            await viewer.wait()
    finally:
        for timer in timers:
            timer.cancel()
        feed.viewers.exit(viewer)
        for reader in readers:
            reader.close()
