"""While the journal does not respond: cached responses are still sent, and marked as possibly old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx2
import pytest

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.errors import Unreachable
from longwatch.journal.arrivals import Arrival
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Page
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from tests.integration.server.stores import BASE, new_turn
from tests.patience import PATIENCE_SECONDS


class AwayJournal(MemoryJournal):
    """Can be unavailable for every reader."""

    is_away = False

    def read(self, run_id: str, *, after: Cursor = START, limit: int = 500, thorough: bool = False) -> Page:
        self._answer()
        return super().read(run_id, after=after, limit=limit, thorough=thorough)

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        self._answer()
        return super().arrivals(after, limit=limit)

    def _answer(self) -> None:
        if self.is_away:
            raise Unreachable("the journal does not answer")


@pytest.fixture
def journal() -> AwayJournal:
    return AwayJournal()


@pytest.fixture
async def http(journal: AwayJournal) -> AsyncIterator[httpx2.AsyncClient]:
    with MemoryDocumentStore() as documents:
        async with open_context(journal, documents) as context:
            transport = httpx2.ASGITransport(app=create_app(context))
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                yield client


async def until_stale(http: httpx2.AsyncClient, url: str) -> None:
    """Request until the response states that it may be old."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "longwatch-stale" not in (await http.get(url)).headers:  # noqa: ASYNC110 - it is in the server
            await asyncio.sleep(0.01)


async def test_a_cached_response_states_that_the_journal_is_unavailable(
    http: httpx2.AsyncClient, journal: AwayJournal
) -> None:
    turn = await new_turn(http)
    turn_id = turn.rpartition("/")[2]
    urls = [f"{turn}/status", turn, f"/api/runs/{turn_id}"]
    fresh = [await http.get(url) for url in urls]

    journal.is_away = True
    await http.post(
        "/api/runs/other/events", json={"events": [{"type": "note"}]}
    )  # what is new cannot be read
    await until_stale(http, urls[0])
    stale = [await http.get(url) for url in urls]
    unchanged = [
        await http.get(url, headers={"If-None-Match": response.headers["etag"]})
        for url, response in zip(urls, fresh, strict=True)
    ]

    assert not any("longwatch-stale" in response.headers for response in fresh)
    assert [(response.status_code, response.headers["longwatch-stale"]) for response in stale] == [
        (200, "journal unavailable")
    ] * 3
    assert [(response.status_code, "longwatch-stale" in response.headers) for response in unchanged] == [
        (304, True)
    ] * 3


async def test_when_the_journal_is_back_responses_are_fresh_again(
    http: httpx2.AsyncClient, journal: AwayJournal
) -> None:
    turn = await new_turn(http)
    await http.get(f"{turn}/status")
    journal.is_away = True
    await http.post("/api/runs/other/events", json={"events": [{"type": "note"}]})
    await until_stale(http, f"{turn}/status")

    journal.is_away = False
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "longwatch-stale" in (await http.get(f"{turn}/status")).headers:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
