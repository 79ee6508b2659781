"""Whatever a network does to a client, it ends with what the journal has, and nothing twice."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing

import httpx2
import pytest

from longwatch.journal.sqlite import SqliteJournal
from tests.integration.server.live.clients import FeedClient, socket_messages, sse_messages
from tests.integration.server.live.feed_follower import events_of, ids
from tests.integration.server.live.proxies import Trouble, any_trouble, bad_proxy
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS

RUN, TOPIC = "wf-trouble", "run:wf-trouble"


async def write_slowly(
    journal: SqliteJournal, count: int, *, batch: int = 5, reader: FeedClient | None = None
) -> list[str]:
    """Events one handful after the other, as work makes them; the second half once the reader has some."""
    events = events_of(RUN, count)
    for first in range(0, count, batch):
        if reader is not None and first >= count // 2:
            await _until_received(reader, 1)
        await asyncio.to_thread(journal.append, events[first : first + batch])
        await asyncio.sleep(0.01)
    return ids(events)


@pytest.mark.parametrize("seed", range(3))
async def test_a_client_behind_the_worst_proxy_ends_with_what_the_journal_has(
    server: ServerProcess, journal: SqliteJournal, seed: int
) -> None:
    async with bad_proxy(server.port, any_trouble(seed)) as proxy:
        client = FeedClient(proxy.url, [TOPIC, "runs"])
        writing = asyncio.create_task(write_slowly(journal, 200, reader=client))
        await client.follow(lambda found: len(found.event_ids(TOPIC)) >= 200, polls=seed % 2 == 1)
        expected = await writing
        await client.aclose()

    assert client.event_ids(TOPIC) == expected
    assert client.doubles() == []
    assert client.connections > 1


async def test_a_proxy_that_holds_streams_back_for_ever_leaves_the_long_poll(
    server: ServerProcess, journal: SqliteJournal
) -> None:
    expected = await write_slowly(journal, 50)

    def hold(line: str) -> Trouble:
        is_stream = line.startswith("GET /api/stream")
        return Trouble(hold_bytes=10**9, hold_seconds=PATIENCE_SECONDS) if is_stream else Trouble()

    async with bad_proxy(server.port, hold) as proxy:
        client = FeedClient(proxy.url, [TOPIC])
        await client.follow(lambda found: len(found.event_ids(TOPIC)) >= 50, polls=True)
        await client.aclose()

    assert client.event_ids(TOPIC) == expected
    assert client.failures > 0  # of the stream, which came first


async def test_a_killed_and_restarted_server_resumes_every_stream(
    server: ServerProcess, journal: SqliteJournal
) -> None:
    clients = [FeedClient(server.url, topics) for topics in ([TOPIC], [TOPIC, "runs"], ["runs", TOPIC])]

    async def trouble() -> None:
        for _ in range(2):
            await asyncio.gather(*(_until_some(client) for client in clients))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(write_slowly(journal, 400, batch=2))
        group.create_task(trouble())
        for client in clients:
            group.create_task(client.follow(lambda found: len(found.event_ids(TOPIC)) >= 400))
    for client in clients:
        await client.aclose()

    for client in clients:
        assert client.event_ids(TOPIC) == writing.result()
        assert client.doubles() == []


async def test_two_servers_on_one_journal_resume_from_each_others_ids(
    server: ServerProcess, journal: SqliteJournal
) -> None:
    with server_process(server.file) as other:
        client = FeedClient(server.url, [TOPIC, "runs"])
        expected = await write_slowly(journal, 40)
        await client.follow(lambda found: len(found.event_ids(TOPIC)) >= 17)
        await client.aclose()
        again = FeedClient(other.url, [TOPIC, "runs"])
        again.cursor, again.received = client.cursor, client.received
        await again.follow(lambda found: len(found.event_ids(TOPIC)) >= 40)
        await again.aclose()

    assert again.event_ids(TOPIC) == expected
    assert again.doubles() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_server_with_open_streams_and_sockets_sends_goodbye_and_ends_within_a_second(
    server: ServerProcess, journal: SqliteJournal, how: signal.Signals
) -> None:
    await write_slowly(journal, 5)
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as http:
        stream = sse_messages(http, [TOPIC], "")
        socket = socket_messages(server.websocket_url, {"follow": TOPIC})
        async with aclosing(stream), aclosing(socket):
            async for message in stream:
                if message.event == "caught_up":
                    break
            async for item in socket:
                if item["event"] == "caught_up":
                    break
            ending = asyncio.create_task(asyncio.to_thread(server.stop, how))
            last = [message.event async for message in stream][-1]
            last_of_socket = [item["event"] async for item in socket][-1]
            took = await ending

    assert last == "closing"
    assert last_of_socket == "closing"
    assert took < 2.0  # one second, and what a busy machine adds


async def _until_some(client: FeedClient) -> None:
    await _until_received(client, len(client.received) + 20)


async def _until_received(client: FeedClient, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(client.received) < count:  # noqa: ASYNC110 - the client sets no event
            await asyncio.sleep(0.02)
