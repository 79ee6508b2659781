"""A client of the feed in Python: it follows topics over several transports, through any trouble."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2
import websockets

from tests.patience import PATIENCE_SECONDS

SERVICE_RESTART = 1012
STALLED_SECONDS = 1.5  # without a word before a connection counts as stalled


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """One message, over whichever transport."""

    event: str
    data: dict[str, Any]
    cursor: str | None  # of the whole stream


async def sse_messages(
    http: httpx2.AsyncClient, topics: Sequence[str], cursor: str
) -> AsyncGenerator[FeedMessage]:
    """One connection's messages, until it ends."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    parameters = {"topic": list(topics)}
    async with http.stream("GET", "/api/stream", params=parameters, headers=headers) as response:
        response.raise_for_status()
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "event" in fields:
                yield FeedMessage(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}


async def poll_messages(
    http: httpx2.AsyncClient, topics: Sequence[str], cursor: str, wait: int = 1
) -> AsyncGenerator[FeedMessage]:
    """One long poll's messages; the cursor counts once all of them were consumed."""
    parameters: dict[str, list[str] | str] = {"topic": list(topics), "after": cursor, "wait": str(wait)}
    response = await http.get("/api/feed", params=parameters)
    response.raise_for_status()
    found = response.json()
    for index, item in enumerate(found["messages"], 1):
        is_last = index == len(found["messages"])
        yield FeedMessage(item["event"], item["data"], found["cursor"] if is_last else None)


class FeedClient:
    """Follows topics for as long as it takes, coming back after each trouble with what it has seen."""

    def __init__(self, url: str, topics: Sequence[str]) -> None:
        self.topics = list(topics)
        self.cursor = ""
        self.received: list[FeedMessage] = []
        self.connections = 0
        self.failures = 0
        # A connection for each request: a proxy treats the connections of streams and polls differently.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.AsyncClient(base_url=url, timeout=STALLED_SECONDS, limits=limits)

    def event_ids(self, topic: str) -> list[str]:
        return [
            message.data["event"]["event_id"]
            for message in self.received
            if message.event == "event" and message.data["topic"] == topic
        ]

    def doubles(self) -> list[tuple[str, int]]:
        """Events that were received more than once."""
        counts = Counter(each for topic in self.topics for each in self.event_ids(topic))
        return [(each, count) for each, count in counts.items() if count > 1]

    async def follow(self, until: Callable[[FeedClient], bool], *, polls: bool = False) -> None:
        """Until this holds: streams, and with `polls` every second connection is a long poll."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not until(self):
                self.connections += 1
                transport = sse_messages if self.connections % 2 or not polls else poll_messages
                try:
                    async with aclosing(transport(self._http, self.topics, self.cursor)) as messages:
                        async for message in messages:
                            self._take(message)
                            if until(self):
                                break
                except (httpx2.HTTPError, ValueError):
                    self.failures += 1

    def _take(self, message: FeedMessage) -> None:
        self.received.append(message)
        if message.cursor is not None:
            self.cursor = message.cursor

    async def aclose(self) -> None:
        await self._http.aclose()


async def socket_messages(url: str, *commands: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
    """The messages of the WebSocket after these commands."""
    async with websockets.connect(f"{url}/api/socket") as socket:
        for command in commands:
            await socket.send(json.dumps(command))
        try:
            async for text in socket:
                yield json.loads(text)
        except websockets.ConnectionClosedError as error:
            if error.rcvd is None or error.rcvd.code != SERVICE_RESTART:
                raise
