"""The WebSocket: the same messages, and commands that follow and unfollow topics while it is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from longwatch.errors import InvalidInput, LongwatchError
from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import CLOSING, Frame, failure, failure_of
from longwatch.server.live.subscription import TopicReader
from longwatch.server.live.topics import MAX_CURSOR_CHARACTERS, MAX_TOPICS, Topic
from longwatch.server.live.viewers import Viewer

GOING_AWAY = 1012  # "service restart": a client comes back by itself
MAX_COMMAND_CHARACTERS = MAX_CURSOR_CHARACTERS + 8 * 1024
MAX_RESPONSES = 100  # to commands that may wait; with more, the socket is closed
POLICY = 1008


class FeedSocket:
    """An ASGI application for one path: one connection each time it is called."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        await _Connection(self._feed, receive, send).serve()


class _Connection:
    def __init__(self, feed: Feed, receive: Receive, send: Send) -> None:
        self._feed = feed
        self._receive = receive
        self._send = send
        self._viewer = Viewer()
        self._readers: dict[str, TopicReader] = {}
        self._responses: list[Frame] = []  # to commands

    async def serve(self) -> None:
        viewer = self._viewer
        self._feed.viewers.enter(viewer)
        receiving = asyncio.get_running_loop().create_task(self._receive_commands())
        receiving.add_done_callback(lambda _: viewer.leave())
        try:
            await self._send_all()
        except asyncio.CancelledError:
            if not viewer.is_closing:
                raise
        finally:
            self._feed.viewers.exit(viewer)
            receiving.cancel()
            for reader in self._readers.values():
                reader.close()

    async def _send_all(self) -> None:
        viewer = self._viewer
        while not viewer.is_gone:
            if viewer.is_closing:
                await self._send_frame(CLOSING)
                await self._send({"type": "websocket.close", "code": GOING_AWAY})
                return
            if len(self._responses) > MAX_RESPONSES:
                await self._send({"type": "websocket.close", "code": POLICY, "reason": "too many commands"})
                return
            responses, self._responses = self._responses, []
            beat = viewer.take_beat()
            is_quiet = not await self._send_frames([*responses, *([beat] if beat is not None else ())])
            for reader in list(self._readers.values()):  # in turn: each may have many frames
                if await self._send_frames(reader.take()):
                    is_quiet = False
            if is_quiet:
                await viewer.wait()

    async def _send_frames(self, frames: Sequence[Frame]) -> bool:
        for frame in frames:
            await self._send_frame(frame)
        return bool(frames)

    async def _send_frame(self, frame: Frame) -> None:
        with suppress(OSError):  # it disconnected just now; `receive` reports that too
            await self._send({"type": "websocket.send", "text": frame.wire})

    async def _receive_commands(self) -> None:
        with suppress(asyncio.CancelledError):
            while (received := await self._receive())["type"] == "websocket.receive":
                try:
                    self._execute(parse_command(received))
                except LongwatchError as error:
                    self._responses.append(failure_of("", "invalid_command", str(error)))
                self._viewer.wake()

    def _execute(self, command: dict[str, Any]) -> None:
        unwanted = command.get("unfollow")
        if unwanted is not None:
            reader = self._readers.pop(unwanted, None)
            if reader is not None:
                reader.close()
            return
        name = command["follow"]
        try:
            topic = Topic.of(name)
            if name not in self._readers and len(self._readers) >= MAX_TOPICS:
                raise InvalidInput(f"{MAX_TOPICS} topics are followed already. Unfollow one first.")
            before = self._readers.pop(name, None)
            if before is not None:
                before.close()
            after, viewer = command.get("after") or "", self._viewer
            self._readers[name] = self._feed.open(topic, after, viewer.wake, viewer.read_ahead)
        except LongwatchError as error:
            self._responses.append(failure(name, error))


def parse_command(received: Message) -> dict[str, Any]:
    """`{"follow": topic, "after": cursor}` or `{"unfollow": topic}`, else `InvalidInput`."""
    text = received.get("text")
    if text is None or len(text) > MAX_COMMAND_CHARACTERS:
        raise InvalidInput(f"Invalid command. Send JSON text of at most {MAX_COMMAND_CHARACTERS} characters.")
    try:
        command: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Invalid JSON: {error}.") from error
    if not isinstance(command, dict):
        raise InvalidInput("Invalid command. Send a JSON object.")
    wanted = [name for name in ("follow", "unfollow") if name in command]
    if len(wanted) != 1 or not isinstance(command[wanted[0]], str):
        raise InvalidInput('Invalid command. Send {"follow": topic, "after": cursor} or {"unfollow": topic}.')
    after = command.get("after")
    if after is not None and not (isinstance(after, str) and after.isascii() and after.isprintable()):
        raise InvalidInput("Invalid `after`. Send the cursor of an earlier message, or leave it out.")
    return command
