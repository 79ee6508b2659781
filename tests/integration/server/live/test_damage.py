"""A server on a damaged file: every route and transport returns the rest and marks the gaps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from longwatch.model.event import UNREADABLE
from tests.integration.server.live.clients import poll_messages, socket_messages, sse_messages
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.integration.sqlite import damage
from tests.patience import PATIENCE_SECONDS

TOPICS = ["run:run-a", "run:run-b"]


def ending_not_utf8(path: Path) -> None:
    damage.invalid_byte(path, "run-b", damage.EVENTS - 1)


def overwritten_page(path: Path) -> None:
    pages = damage.leaf_pages(path, b"run-b")
    damage.overwrite_page(path, pages[len(pages) // 2])


def truncated(path: Path) -> None:
    damage.truncate(path, path.stat().st_size // damage.PAGE_BYTES * 3 // 4)


@pytest.fixture(scope="module", params=[ending_not_utf8, overwritten_page, truncated])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("damaged") / "journal.db"
    damage.make(path)
    spoil: Callable[[Path], None] = request.param
    spoil(path)
    with server_process(path) as running:
        yield running


@pytest.fixture
async def http(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


Item = tuple[str, dict[str, Any]]
"""The name and the data of a message."""


async def by_sse(server: ServerProcess, http: httpx2.AsyncClient) -> AsyncGenerator[Item]:
    async with aclosing(sse_messages(http, TOPICS, "")) as messages:
        async for message in messages:
            yield message.event, message.data


async def by_long_poll(server: ServerProcess, http: httpx2.AsyncClient) -> AsyncGenerator[Item]:
    cursor = ""
    while True:
        async with aclosing(poll_messages(http, TOPICS, cursor)) as messages:
            async for message in messages:
                cursor = message.cursor or cursor
                yield message.event, message.data


async def by_websocket(server: ServerProcess, http: httpx2.AsyncClient) -> AsyncGenerator[Item]:
    commands = ({"follow": topic} for topic in TOPICS)
    async with aclosing(socket_messages(server.websocket_url, *commands)) as messages:
        async for message in messages:
            yield message["event"], message["data"]


@pytest.mark.parametrize("messages", [by_sse, by_long_poll, by_websocket])
async def test_both_runs_are_streamed_to_their_end_with_the_gaps_marked(
    server: ServerProcess,
    http: httpx2.AsyncClient,
    messages: Callable[[ServerProcess, httpx2.AsyncClient], AsyncGenerator[Item]],
) -> None:
    events: dict[str, list[dict[str, Any]]] = {topic: [] for topic in TOPICS}
    endings: dict[str, str] = {}
    async with aclosing(messages(server, http)) as items:
        async for name, data in items:
            if name == "event":
                events[data["topic"]].append(data["event"])
            elif name == "ended":
                endings[data["topic"]] = data["status"]
                if len(endings) == len(TOPICS):
                    break

    gaps = {topic: [each for each in found if each["type"] == UNREADABLE] for topic, found in events.items()}
    assert [len(events[topic]) for topic in TOPICS] == [damage.EVENTS, damage.EVENTS]
    assert not gaps["run:run-a"]
    assert 0 < len(gaps["run:run-b"]) < damage.EVENTS
    assert endings == dict.fromkeys(TOPICS, "succeeded")


async def test_the_routes_return_the_rest_and_verify_returns_altered(http: httpx2.AsyncClient) -> None:
    listed = (await http.get("/api/runs")).json()["runs"]
    runs = {run_id: (await http.get(f"/api/runs/{run_id}")).json() for run_id in ("run-a", "run-b")}
    verified = {run_id: (await http.get(f"/api/runs/{run_id}/verify")).json() for run_id in runs}
    page = (await http.get("/api/runs/run-b/events", params={"limit": 100})).json()

    assert {run["run_id"] for run in listed} == set(damage.RUNS)
    assert {run_id: run["status"] for run_id, run in runs.items()} == dict.fromkeys(runs, "succeeded")
    assert {run_id: found["answer"] for run_id, found in verified.items()} == {
        "run-a": "complete",
        "run-b": "altered",
    }
    assert len(page["events"]) == damage.EVENTS
    assert UNREADABLE in {each["type"] for each in page["events"]}


async def test_verify_returns_missing_if_an_index_hides_the_last_event(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    damage.make(path)
    damage.hide_last(path, "run-a")

    with server_process(path) as running:
        async with httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE_SECONDS) as client:
            found = (await client.get("/api/runs/run-a/verify")).json()

    assert (found["answer"], found["uncounted"]) == ("missing", 1)
