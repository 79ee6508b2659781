"""The runs API, the same on every engine."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence

from httpx2 import AsyncClient

from longwatch.journal.codec import from_line
from longwatch.server.cache.run_cache import PULSE
from tests.integration.server.stores import Served, Stores, served, until

START = {"type": "workflow_start", "payload": {"name": "brief"}}
END = {"type": "workflow_complete"}


def ago(milliseconds: int) -> int:
    """A recent time; older events are announced to the followers of a table."""
    return time.time_ns() // 1_000_000 - milliseconds


async def record(http: AsyncClient, run_id: str, *events: Mapping[str, object]) -> Sequence[str]:
    response = await http.post(f"/api/runs/{run_id}/events", json={"events": list(events)})
    assert response.status_code == 200, response.text
    ids: list[str] = response.json()["event_ids"]
    return ids


def is_waited_for(server: Served, run_id: str) -> bool:
    watched = server.context.run_cache.peek(PULSE, run_id)
    return watched is not None and watched.is_waited_for


async def test_events_appended_over_http_are_listed_shown_and_read(stores: Stores) -> None:
    async with served(stores) as server:
        ids = await record(
            server.http, "wf-1", {**START, "occurred_at": ago(2000)}, {**END, "occurred_at": ago(1000)}
        )

        listed = (await server.http.get("/api/runs")).json()
        shown = (await server.http.get("/api/runs/wf-1")).json()
        page = (await server.http.get("/api/runs/wf-1/events")).json()

        assert [(run["run_id"], run["status"], run["name"]) for run in listed["runs"]] == [
            ("wf-1", "succeeded", "brief")
        ]
        assert listed["cursor"] is None
        assert shown["events"] == 2
        assert shown["counts"] == {"workflow_start": 1, "workflow_complete": 1}
        assert [event["event_id"] for event in page["events"]] == ids
        assert page["more"] is False


async def test_secrets_in_events_appended_over_http_are_redacted(stores: Stores) -> None:
    payload = {"password": "hunter2", "line": "PGPASSWORD=hunter2 psql", "ratio": 1.0, "max_tokens": 5}
    event = {"type": "note", "payload": payload, "event_id": "e-1", "occurred_at": ago(1000)}
    async with served(stores) as server:
        await record(server.http, "wf-1", event)
        await record(server.http, "wf-1", event)  # the same again is still the same event

        page = (await server.http.get("/api/runs/wf-1/events")).json()

    (stored,) = page["events"]
    assert stored["payload"] == {
        "password": "[redacted]",
        "line": "PGPASSWORD=[redacted] psql",
        "ratio": 1,
        "max_tokens": 5,
    }


async def test_pages_of_events_join_without_a_gap(stores: Stores) -> None:
    async with served(stores) as server:
        events = [
            {"type": "note", "payload": {"n": number}, "occurred_at": ago(5000) + number}
            for number in range(7)
        ]
        await record(server.http, "wf-1", *events)

        seen, cursor, more = [], "", True
        while more:
            url = f"/api/runs/wf-1/events?limit=3&after={cursor}"
            page = (await server.http.get(url)).json()
            seen += [event["payload"]["n"] for event in page["events"]]
            cursor, more = page["cursor"], page["more"]

        assert seen == list(range(7))


async def test_events_of_one_append_without_times_stay_in_their_order(stores: Stores) -> None:
    async with served(stores) as server:
        await record(
            server.http, "wf-1", *({"type": "note", "payload": {"n": number}} for number in range(20))
        )

        page = (await server.http.get("/api/runs/wf-1/events")).json()

        assert [event["payload"]["n"] for event in page["events"]] == list(range(20))


async def test_runs_are_listed_newest_first_by_pages_and_filters(stores: Stores) -> None:
    async with served(stores) as server:
        now = server.context.clock.now_ms()
        for number in range(3):
            at = now - 10_000 + number * 1000
            await record(server.http, f"wf-{number}", {**START, "occurred_at": at})
        await record(server.http, "wf-1", {**END, "occurred_at": now})

        first = (await server.http.get("/api/runs?limit=2")).json()
        second = (await server.http.get("/api/runs", params={"limit": 2, "after": first["cursor"]})).json()
        ended = (await server.http.get("/api/runs?status=succeeded")).json()
        named = (await server.http.get("/api/runs?text=WF-2")).json()
        early = (await server.http.get(f"/api/runs?until={now - 9500}")).json()

        assert [run["run_id"] for run in first["runs"] + second["runs"]] == ["wf-2", "wf-1", "wf-0"]
        assert [run["run_id"] for run in ended["runs"]] == ["wf-1"]
        assert [run["run_id"] for run in named["runs"]] == ["wf-2"]
        assert [run["run_id"] for run in early["runs"]] == ["wf-0"]


async def test_runs_are_found_by_a_query(stores: Stores) -> None:
    labelled = {**START, "payload": {"tags": ["nightly"], "user": "ann"}}
    async with served(stores) as server:
        await record(server.http, "wf-0", labelled)
        await record(server.http, "wf-1", START)

        found = (await server.http.get("/api/runs", params={"q": "tag:nightly user:ann since:1h"})).json()
        others = (await server.http.get("/api/runs", params={"q": "-tag:nightly"})).json()
        both = (await server.http.get("/api/runs", params={"q": "wf-1", "status": "failed"})).json()
        wrong = await server.http.get("/api/runs", params={"q": "a statsu:failed"})

        assert [(run["run_id"], run["tags"], run["user"]) for run in found["runs"]] == [
            ("wf-0", ["nightly"], "ann")
        ]
        assert [run["run_id"] for run in others["runs"]] == ["wf-1"]
        assert both["runs"] == []
        assert wrong.status_code == 400
        assert wrong.json()["error"] == {
            "code": "invalid_query",
            "message": "Invalid query at position 3: Unknown field 'statsu'. Did you mean 'status'?",
            "position": 3,
        }


async def test_the_same_append_again_stores_nothing_twice(stores: Stores) -> None:
    async with served(stores) as server:
        body, key = {"events": [START, {"type": "note"}]}, {"Idempotency-Key": "first try"}
        url = "/api/runs/wf-1/events"

        one = await server.http.post(url, json=body, headers=key)
        first = server.context.clock.now_ms()
        await until(lambda: server.context.clock.now_ms() > first)  # the server dates them
        two = await server.http.post(url, json=body, headers=key)

        assert (one.status_code, two.status_code) == (200, 200)
        assert one.json() == two.json()
        assert len((await server.http.get(url)).json()["events"]) == 2


async def test_an_id_that_names_another_event_is_a_conflict_and_the_rest_is_stored(stores: Stores) -> None:
    async with served(stores) as server:
        at = ago(5000)
        await record(server.http, "wf-1", {**START, "event_id": "a", "occurred_at": at})

        other = {"type": "note", "event_id": "a", "occurred_at": at}
        new = {"type": "note", "event_id": "b", "occurred_at": at + 1}
        response = await server.http.post("/api/runs/wf-1/events", json={"events": [other, new]})

        assert response.status_code == 409
        assert response.json()["error"]["code"] == "event_conflict"
        assert "a" in response.json()["error"]["message"]
        page = (await server.http.get("/api/runs/wf-1/events")).json()
        assert [event["event_id"] for event in page["events"]] == ["a", "b"]


async def test_an_exported_run_can_be_appended_again_line_by_line(stores: Stores) -> None:
    async with served(stores) as server:
        await record(
            server.http, "wf-1", {**START, "occurred_at": ago(2000)}, {**END, "occurred_at": ago(1000)}
        )

        exported = await server.http.get("/api/runs/wf-1/export")
        again = await server.http.post(
            "/api/runs/wf-1/events",
            content=exported.content,
            headers={"content-type": "application/x-ndjson"},
        )

        assert exported.headers["content-type"] == "application/x-ndjson"
        assert 'filename="wf-1.jsonl"' in exported.headers["content-disposition"]
        assert [from_line(line).type for line in exported.text.splitlines()] == [
            "workflow_start",
            "workflow_complete",
        ]
        assert again.status_code == 200
        assert (await server.http.get("/api/runs/wf-1")).json()["events"] == 2


async def test_verify_reports_what_a_producer_left_out(stores: Stores) -> None:
    async with served(stores) as server:
        numbered = [
            {"type": "note", "producer": "p", "number": 1, "occurred_at": ago(2000)},
            {
                "type": "note",
                "producer": "p",
                "number": 3,
                "previous_digest": "0" * 32,
                "occurred_at": ago(1000),
            },
        ]
        await record(server.http, "wf-1", *numbered)

        found = (await server.http.get("/api/runs/wf-1/verify")).json()

        assert found["answer"] == "missing"
        assert found["producers"][0]["missing"] == [[2, 2]]


async def test_a_long_poll_for_events_returns_when_one_arrives(stores: Stores) -> None:
    async with served(stores) as server:
        await record(server.http, "wf-1", START)
        cursor = (await server.http.get("/api/runs/wf-1/events")).json()["cursor"]

        poll = asyncio.create_task(
            server.http.get("/api/runs/wf-1/events", params={"after": cursor, "wait": 20})
        )
        await until(lambda: is_waited_for(server, "wf-1"))
        await record(server.http, "wf-1", {"type": "note", "payload": {"n": 1}})
        page = (await poll).json()

        assert [event["payload"] for event in page["events"]] == [{"n": 1}]
        assert page["cursor"] != cursor


async def test_a_long_poll_without_news_keeps_its_cursor_and_recognises_its_tag(stores: Stores) -> None:
    async with served(stores) as server:
        await record(server.http, "wf-1", START)
        cursor = (await server.http.get("/api/runs/wf-1/events")).json()["cursor"]
        url, query = "/api/runs/wf-1/events", {"after": cursor, "wait": 1}

        first = await server.http.get(url, params=query)
        again = await server.http.get(url, params=query, headers={"If-None-Match": first.headers["etag"]})

        assert first.json()["events"] == []
        assert again.status_code == 304


async def test_an_unchanged_run_and_list_return_304_with_the_same_tags_on_two_servers(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        await record(one.http, "wf-1", START, {"type": "note"})

        urls = ("/api/runs", "/api/runs/wf-1", "/api/runs/wf-1/events")
        tags = {url: (await one.http.get(url)).headers["etag"] for url in urls}
        for url, tag in tags.items():
            same = await other.http.get(url, headers={"If-None-Match": tag})
            assert (url, same.status_code, same.content) == (url, 304, b"")
            assert same.headers["etag"] == tag

        await record(other.http, "wf-1", END)

        for url, tag in tags.items():
            stale = await other.http.get(url, headers={"If-None-Match": tag})
            assert (url, stale.status_code) == (url, 200)


async def test_a_run_id_may_hold_any_character(stores: Stores) -> None:
    async with served(stores) as server:
        quoted = "a%2Fb%20%C3%BC%25%3F%23"
        posted = await server.http.post(f"/api/runs/{quoted}/events", json={"events": [START]})

        shown = (await server.http.get(f"/api/runs/{quoted}")).json()

        assert posted.status_code == 200
        assert shown["run_id"] == "a/b ü%?#"


async def test_projects_and_sessions_are_listed_as_runs_only_on_request(stores: Stores) -> None:
    async with served(stores) as server:
        await server.http.post("/api/projects", json={"id": "p1"})
        await server.http.post("/api/projects/p1/sessions", json={"id": "s1"})

        plain = (await server.http.get("/api/runs")).json()
        conversations = (await server.http.get("/api/runs?kind=conversation")).json()

        assert plain["runs"] == []
        assert [run["run_id"] for run in conversations["runs"]] == ["conversation:p1:s1"]


async def test_every_mistake_of_an_append_is_reported_and_nothing_is_stored(stores: Stores) -> None:
    async with served(stores) as server:
        events = [START, {"type": 5}, {"type": "note", "colour": "red"}, {"type": "x", "run_id": "wf-2"}]

        response = await server.http.post("/api/runs/wf-1/events", json={"events": events})

        assert response.status_code == 422
        details = response.json()["error"]["details"]
        assert [detail["field"] for detail in details] == ["events[1]", "events[2]", "events[3]"]
        assert (await server.http.get("/api/runs/wf-1")).status_code == 404


async def test_a_run_that_was_never_recorded_is_not_found_anywhere(stores: Stores) -> None:
    async with served(stores) as server:
        for path in ("", "/events", "/events?wait=5", "/export", "/verify"):
            response = await server.http.get(f"/api/runs/none{path}")

            assert (path, response.status_code) == (path, 404)
            assert json.loads(response.text)["error"]["code"] == "run_not_found"
