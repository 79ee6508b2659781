"""Usage and waits in the API, the same on every engine."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from longwatch.model.prices import Price
from longwatch.settings import Settings
from longwatch.storage.price_file import import_prices, price_file
from tests.integration.server.stores import LINES, Stores, assistant, new_turn, served
from tests.integration.server.test_runs import START, ago, record

USED = {"model": "gpt-4o", "provider": "openai", "input_tokens": 1_000, "output_tokens": 100}


def call(number: int, **payload: object) -> list[dict[str, object]]:
    return [
        {
            "type": "model_call",
            "call_id": f"c{number}",
            "agent_name": "writer",
            "occurred_at": ago(900 - 10 * number - at),
            "payload": each,
        }
        for at, each in enumerate(
            ({"status": "started", **payload}, {"status": "completed", **USED, **payload})
        )
    ]


async def test_runs_have_their_usage_and_the_list_the_sum(stores: Stores) -> None:
    settings = Settings(journal="memory://", prices={"gpt-4o": Price(Decimal("2.5"), Decimal(10))})
    async with served(stores, settings=settings) as server:
        for run_id, model in (("wf-1", "gpt-4o"), ("wf-2", "in-house")):
            await record(server.http, run_id, {**START, "occurred_at": ago(1000)}, *call(1, model=model))

        listed = (await server.http.get("/api/runs")).json()
        shown = (await server.http.get("/api/runs/wf-1")).json()

        sums = {
            name: listed["usage"][name] for name in ("model_calls", "input_tokens", "cost", "priced_calls")
        }
        assert sums == {"model_calls": 2, "input_tokens": 2_000, "cost": 0.0035, "priced_calls": 1}
        assert shown["usage"]["cost"] == 0.0035
        assert shown["usage_by_agent"]["writer"] == {**shown["usage"], "rates": []}
        [model_call] = shown["calls"]
        assert (model_call["kind"], model_call["usage"]["output_tokens"]) == ("model", 100)


async def test_a_price_that_is_imported_later_changes_the_response(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "prices"))
    source = tmp_path / "litellm.json"
    source.write_text(json.dumps({"gpt-4o": {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06}}))
    async with served(stores) as server:
        await record(server.http, "wf-1", {**START, "occurred_at": ago(1000)}, *call(1))
        before = await server.http.get("/api/runs/wf-1")

        import_prices(source, file=price_file())
        after = await server.http.get("/api/runs/wf-1", headers={"If-None-Match": before.headers["etag"]})

        assert before.json()["usage"]["cost"] is None
        assert after.json()["usage"]["cost"] == 0.0011


async def test_sessions_and_turns_have_the_cost_by_configured_and_imported_prices(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "prices"))
    source = tmp_path / "litellm.json"
    source.write_text(json.dumps({"haiku": {"input_cost_per_token": 1e-03, "output_cost_per_token": 1e-03}}))
    models = {name: {"inputTokens": 90, "outputTokens": 10} for name in ("opus", "haiku")}
    line = {"type": "result", "subtype": "success", "result": "ok", "modelUsage": models}
    settings = Settings(journal="memory://", prices={"opus": Price(Decimal(10_000), Decimal(10_000))})
    async with served(stores, settings=settings) as server:
        session, turn = "/api/projects/p1/sessions/s1", await new_turn(server.http)
        await server.http.post(f"{turn}/lines", content=json.dumps(line), headers=LINES)
        paths = (session, f"{session}/turns", turn)
        before = [await server.http.get(path) for path in paths]
        import_prices(source, file=price_file())
        after = [
            await server.http.get(path, headers={"If-None-Match": each.headers["etag"]})
            for path, each in zip(paths, before, strict=True)
        ]

    assert [each.json()["usage"]["cost"] for each in before] == [None] * 3  # one of two models has a price
    assert [each.json()["usage"]["cost"] for each in after] == [1.1] * 3
    assert after[1].json()["turns"][0]["usage"]["cost"] == 1.1


async def test_a_run_that_waits_is_waiting_and_not_silent(stores: Stores) -> None:
    wait = {"reason": "approval", "detail": "deploy"}
    async with served(stores) as server:
        started = {"type": "waiting_started", "call_id": "w", "payload": wait, "occurred_at": ago(119_000)}
        await record(server.http, "wf-1", {**START, "occurred_at": ago(120_000)}, started)
        listed = (await server.http.get("/api/runs")).json()["runs"][0]
        shown = (await server.http.get("/api/runs/wf-1")).json()
        for each in (listed, shown):
            assert [condition["name"] for condition in each["conditions"]] == ["waiting"]
            assert each["waiting"] == [{**wait, "since": started["occurred_at"]}]

        over = {"reason": "approval", "duration_ms": 119_000}
        await record(server.http, "wf-1", {"type": "waiting_ended", "call_id": "w", "payload": over})
        shown = (await server.http.get("/api/runs/wf-1")).json()
        assert (shown["waiting"], shown["waiting_ms"]) == ([], {"approval": 119_000})


async def test_a_turn_can_wait_and_resume(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        await server.http.post(f"{turn}/lines?first=1", content=assistant("May I?"), headers=LINES)

        waits = await server.http.post(f"{turn}/waiting", json={"reason": "approval", "detail": "rm"})
        again = await server.http.post(f"{turn}/waiting", json={"reason": "approval", "detail": "rm"})
        shown = (await server.http.get(turn)).json()
        resumed = await server.http.delete(f"{turn}/waiting")
        run = (await server.http.get(f"/api/runs/{turn.rpartition('/')[2]}")).json()

        assert [wait["reason"] for wait in waits.json()["waiting"]] == ["approval"]
        assert again.json()["waiting"] == waits.json()["waiting"] == shown["waiting"]
        assert "waiting" not in resumed.json()
        assert (run["waiting"], list(run["waiting_ms"])) == ([], ["approval"])
        invalid = await server.http.post(f"{turn}/waiting", json={"reason": ""})
        assert invalid.status_code == 422


async def test_a_session_has_the_usage_of_its_turns(stores: Stores) -> None:
    tokens = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    line = {"type": "result", "subtype": "success", "result": "ok", "usage": tokens, "total_cost_usd": 0.25}
    async with served(stores) as server:
        for _ in range(2):
            turn = await new_turn(server.http)
            await server.http.post(f"{turn}/lines", content=json.dumps(line), headers=LINES)

        session = (await server.http.get("/api/projects/p1/sessions/s1")).json()
        turns = (await server.http.get("/api/projects/p1/sessions/s1/turns")).json()

        assert session["usage"] == turns["usage"]
        assert (session["usage"]["input_tokens"], session["usage"]["cost"]) == (200, 0.5)
        assert [each["usage"]["cost"] for each in turns["turns"]] == [0.25, 0.25]
