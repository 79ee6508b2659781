"""GET /api/search, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from httpx2 import AsyncClient

from tests.integration.server.stores import Served, Stores, dynamodb_stores, served
from tests.integration.server.test_runs import END, START, ago, record

FAILED = {"type": "tool_call", "payload": {"operation": "fetch", "error_message": "Timed out <b>"}}


async def found(http: AsyncClient, **parameters: str | int) -> dict[str, Any]:
    response = await http.get("/api/search", params=parameters)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def timed_out(http: AsyncClient, run_id: str, *more: Mapping[str, object]) -> str:
    """Record a run in which a call timed out; returns the id of that event."""
    events = [{**START, "occurred_at": ago(3000)}, {**FAILED, "occurred_at": ago(2000)}, *more]
    return (await record(http, run_id, *events))[1]


async def test_events_are_found_with_their_run_and_the_matching_text(stores: Stores) -> None:
    async with served(stores) as server:
        failed = await timed_out(server.http, "wf-1", {**END, "occurred_at": ago(1000)})
        await record(server.http, "wf-2", {**START, "occurred_at": ago(3000)})

        body = await found(server.http, q='"timed out" since:1h')

        (hit,) = body["hits"]
        assert (hit["run_id"], hit["run_name"], hit["run_status"], hit["event_id"], hit["type"]) == (
            "wf-1",
            "brief",
            "succeeded",
            failed,
            "tool_call",
        )
        assert {"text": "Timed out", "is_match": True} in hit["excerpt"]
        assert (body["cursor"], body["unindexed"]) == (None, 0)


async def test_pages_of_a_search_join_without_a_gap(stores: Stores) -> None:
    async with served(stores) as server:
        expected = {await timed_out(server.http, f"wf-{number}") for number in range(5)}

        ids, cursor = [], ""
        while cursor is not None:
            body = await found(server.http, q="timed since:1h", limit=2, after=cursor)
            ids += [hit["event_id"] for hit in body["hits"]]
            cursor = body["cursor"]

        assert len(ids) == 5
        assert set(ids) == expected


async def test_terms_select_the_runs(stores: Stores) -> None:
    async with served(stores) as server:
        await timed_out(server.http, "wf-1", {**END, "occurred_at": ago(1000)})
        await timed_out(server.http, "wf-2")

        body = await found(server.http, q="timed -status:succeeded since:1h")

        assert [hit["run_id"] for hit in body["hits"]] == ["wf-2"]


@pytest.mark.parametrize(
    ("parameters", "code", "message", "position"),
    [
        ({"q": "a statsu:failed"}, "invalid_query", "Did you mean 'status'?", 3),
        ({"q": "status:failed"}, "invalid_input", "at least one word", None),
        ({"q": "-timed"}, "invalid_input", "cannot be negated", None),
        ({"q": "timed", "after": "x"}, "invalid_cursor", "Search from the start", None),
    ],
)
async def test_what_is_wrong_with_a_search_is_a_400_that_says_it(
    server: Served, parameters: dict[str, str], code: str, message: str, position: int | None
) -> None:
    response = await server.http.get("/api/search", params=parameters)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error.get("position")) == (400, code, position)
    assert message in error["message"]


@pytest.mark.needs_java
async def test_a_table_is_searched_by_run_or_day_only(dynamodb_local_url: str) -> None:
    with dynamodb_stores(dynamodb_local_url) as stores:
        async with served(stores) as server:
            failed = await timed_out(server.http, "wf-1")

            everything = await server.http.get("/api/search", params={"q": "timed"})
            one = await found(server.http, q="timed run:wf-1")

            assert (everything.status_code, everything.json()["error"]["code"]) == (400, "search_too_wide")
            assert "Search one run (run:ID) or at most one day" in everything.json()["error"]["message"]
            assert [hit["event_id"] for hit in one["hits"]] == [failed]
