"""Deleting a run over HTTP: who may, what remains, and that every viewer learns of it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from urllib.parse import quote

from longwatch.executions.model import JobState
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.executions.transitions import unapplied_events
from tests.integration.server.execution_stories import LAUNCHED, Watched, fresh, wave_job
from tests.integration.server.stores import LINES, Stores, assistant, new_turn, result, served
from tests.integration.server.test_runs import END, START, ago, record


async def test_a_deleted_run_is_gone_for_every_route(stores: Stores) -> None:
    async with served(stores) as server:
        await record(
            server.http, "wf-1", {**START, "occurred_at": ago(2000)}, {**END, "occurred_at": ago(1000)}
        )
        assert (await server.http.get("/api/runs/wf-1")).status_code == 200

        deleted = await server.http.delete("/api/runs/wf-1")

        assert (deleted.status_code, deleted.content) == (204, b"")
        for path in ("", "/events", "/export", "/report"):
            response = await server.http.get(f"/api/runs/wf-1{path}")
            assert response.status_code == 410, path
            assert response.json()["error"]["code"] == "run_deleted"
        assert (await server.http.delete("/api/runs/wf-1")).status_code == 410
        late = await server.http.post("/api/runs/wf-1/events", json={"events": [END]})
        assert late.status_code == 410
        verified = (await server.http.get("/api/runs/wf-1/verify")).json()
        assert (verified["answer"], verified["deleted"]["events"]) == ("deleted", 2)
        assert (await server.http.get("/api/runs")).json()["runs"] == []


async def test_an_open_run_is_only_deleted_by_force(stores: Stores) -> None:
    async with served(stores) as server:
        await record(server.http, "wf-1", {**START, "occurred_at": ago(1000)})

        refused = await server.http.delete("/api/runs/wf-1")
        forced = await server.http.delete("/api/runs/wf-1?force=true")

        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_still_open")
        assert forced.status_code == 204


async def test_a_waiting_long_poll_and_a_feed_learn_of_the_deletion(stores: Stores) -> None:
    async with served(stores) as server:
        await record(server.http, "wf-1", {**START, "occurred_at": ago(1000)})
        first = (await server.http.get("/api/runs/wf-1/events")).json()
        waiting = asyncio.create_task(
            server.http.get(f"/api/runs/wf-1/events?after={first['cursor']}&wait=20")
        )
        feed = (await server.http.get("/api/feed?topic=run:wf-1")).json()
        following = asyncio.create_task(
            server.http.get("/api/feed", params={"topic": "run:wf-1", "after": feed["cursor"], "wait": "20"})
        )
        await asyncio.sleep(0.3)

        await server.http.delete("/api/runs/wf-1?force=true")

        assert (await waiting).status_code == 410
        [ended] = [each for each in (await following).json()["messages"] if each["event"] == "ended"]
        assert ended["data"]["reason"] == "deleted"
        assert "was deleted at" in ended["data"]["message"]


async def test_a_deleted_turn_is_gone_from_its_session_and_the_other_turns_stay(stores: Stores) -> None:
    async with served(stores) as server:
        kept = await new_turn(server.http, "kept")
        await server.http.post(f"{kept}/lines", content=f"{assistant('hello')}\n{result()}", headers=LINES)
        gone = await new_turn(server.http, "secret")
        session = gone.rpartition("/turns/")[0]

        refused = await server.http.delete(run_of(gone))
        deleted = await server.http.delete(f"{run_of(gone)}?force=true")

        assert (refused.status_code, deleted.status_code) == (409, 204)
        for url in (gone, f"{gone}/status"):
            assert (await server.http.get(url)).status_code == 410, url
        late = await server.http.post(f"{gone}/lines", content=assistant("late"), headers=LINES)
        assert late.status_code == 410
        listed = (await server.http.get(f"{session}/turns")).json()["turns"]
        assert [turn["prompt"] for turn in listed] == ["kept"]
        assert (await server.http.get(session)).status_code == 200
        following = await new_turn(server.http, "next")
        assert (await server.http.get(following)).json()["number"] == 3


async def test_sessions_and_projects_are_not_deleted(stores: Stores) -> None:
    async with served(stores) as server:
        await new_turn(server.http)
        for run_id in ("conversation:p1:s1", "project:p1"):
            response = await server.http.delete(f"/api/runs/{run_id}?force=true")

            assert response.status_code == 400
            assert "Delete these runs one by one." in response.json()["error"]["message"]


async def test_an_execution_without_its_run_continues_in_its_record(sqlite_stores: Stores) -> None:
    assert sqlite_stores.file is not None
    with closing(SqliteExecutionStore(sqlite_stores.file)) as store:
        async with served(sqlite_stores, executions=store) as server:
            watched = Watched(store, server.context.journal, fresh("x-1"))
            run_id = watched.now.run_id

            deleted = await server.http.delete(f"/api/runs/{quote(run_id, safe='')}?force=true")
            watched.receive(wave_job(0, LAUNCHED, state=JobState.FINISHED))

            assert deleted.status_code == 204
            shown = (await server.http.get("/api/executions/x-1")).json()
            assert shown["execution_id"] == "x-1"
            assert unapplied_events(watched.now, server.context.journal) == []
            assert (await server.http.get(f"/api/runs/{quote(run_id, safe='')}")).status_code == 410


def run_of(turn: str) -> str:
    return f"/api/runs/{turn.rpartition('/')[2]}"
