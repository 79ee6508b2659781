"""Runs of many events: repeated requests cost little, also on a server that has just started."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.views import RunDetails
from longwatch.model.event import Event
from longwatch.model.run import fold
from longwatch.server.cache.run_cache import RUN
from tests.integration.server.stores import Served, Stores, served

EVENTS = 6_000
NOW = time.time_ns() // 1_000_000


def call(number: int) -> Event:
    """The start of a tool call, or the end of the one before."""
    return Event(
        run_id="long",
        event_id=f"e-{number:06d}",
        type="tool_call",
        occurred_at=NOW - EVENTS + number,
        call_id=f"c-{number // 2}",
        payload={"operation": "search", "status": "completed" if number % 2 else "started"},
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "runs.db"
    with SqliteJournal(path) as journal:
        journal.append([call(number) for number in range(EVENTS)])
    return path


def count_bodies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the response about a run is rendered."""
    written: list[int] = []
    view = RunDetails.of_attempt

    def counted(*args: Any, **options: Any) -> RunDetails:
        written.append(1)
        return view(*args, **options)

    monkeypatch.setattr(RunDetails, "of_attempt", counted)
    return written


async def test_concurrent_requests_share_one_response_that_is_rendered_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = count_bodies(monkeypatch)

    async with served(Stores(file=file)) as server:
        responses = await asyncio.gather(*(server.http.get("/api/runs/long") for _ in range(20)))

    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert len(written) == 1


async def test_a_long_response_is_the_same_compressed_and_plain(file: Path) -> None:
    async with served(Stores(file=file)) as server:
        small = await server.http.get("/api/runs/long", headers={"Accept-Encoding": "gzip"})
        plain = await server.http.get("/api/runs/long", headers={"Accept-Encoding": "identity"})

    with SqliteJournal(file) as journal:
        run = fold(journal.read("long", limit=EVENTS).events)
    assert run is not None
    expected = vars(RunDetails.of_attempt(run, run, now_ms=NOW))
    assert (small.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert small.json()["calls"] == plain.json()["calls"] == expected["calls"]
    assert plain.json().keys() == expected.keys()


async def test_a_server_that_has_just_started_recognises_a_tag_before_it_reads_the_run(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(Stores(file=file)) as server:
        tag = (await server.http.get("/api/runs/long")).headers["etag"]
    written = count_bodies(monkeypatch)

    async with served(Stores(file=file)) as another:
        unchanged = await another.http.get("/api/runs/long", headers={"If-None-Match": tag})
        was_read = is_cached(another)
        folded = await another.http.get("/api/runs/long")

    assert (unchanged.status_code, unchanged.headers["etag"], unchanged.content) == (304, tag, b"")
    assert not was_read
    assert folded.headers["etag"] == tag
    assert len(written) == 1


async def test_a_new_event_is_seen_at_once_through_every_cache(tmp_path: Path) -> None:
    stores = Stores(file=tmp_path / "runs.db")
    async with served(stores) as server:
        post = "/api/runs/wf/events"
        await server.http.post(post, json={"events": [{"type": "workflow_start"}]})
        first = await server.http.get("/api/runs/wf")
        await server.http.post(post, json={"events": [{"type": "note"}]})
        second = await server.http.get("/api/runs/wf", headers={"If-None-Match": first.headers["etag"]})

    assert (first.json()["events"], second.status_code, second.json()["events"]) == (1, 200, 2)


def is_cached(server: Served) -> bool:
    return server.context.run_cache.peek(RUN, "long") is not None


async def test_a_new_server_answers_for_a_large_run_without_its_events_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longwatch.journal.sqlite.snapshots.LARGE_EVENTS", 5_000)
    path = tmp_path / "ended.db"
    last = Event(run_id="long", event_id="end", type="workflow_complete", occurred_at=NOW)
    with SqliteJournal(path) as journal:
        journal.append([*(call(number) for number in range(EVENTS)), last])
    written = count_bodies(monkeypatch)

    async with served(Stores(file=path)) as server:
        first = await server.http.get("/api/runs/long")
    async with served(Stores(file=path)) as server:
        again = await server.http.get("/api/runs/long")
        plain = await server.http.get("/api/runs/long", headers={"accept-encoding": "identity"})
        unchanged = await server.http.get("/api/runs/long", headers={"if-none-match": first.headers["etag"]})

    assert len(written) == 1
    assert first.content == again.content == plain.content
    assert first.headers["etag"] == again.headers["etag"]
    assert unchanged.status_code == 304

    with SqliteJournal(path) as journal:
        journal.append([replace(last, event_id="late", type="note")])
    async with served(Stores(file=path)) as server:
        changed = await server.http.get("/api/runs/long")

    assert changed.json()["events"] == EVENTS + 2
    assert len(written) == 2
