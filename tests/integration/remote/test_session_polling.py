"""A turn is polled until it is over, over a real server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from longwatch.errors import RequestRefused, TurnFailed, Unreachable
from longwatch.polling import Backoff, PollingManager
from longwatch.remote import ServerClient, SessionPolling, Turn
from longwatch.remote.client import turn_path
from tests.integration.server.live.servers import ServerProcess
from tests.patience import PATIENCE_SECONDS

QUICK_MS = 20.0


async def new_turn(http: httpx2.AsyncClient, project: str) -> str:
    response = await http.post(f"/api/projects/{project}/sessions/s/turns", json={"prompt": "do it"})
    found: str = response.json()["id"]
    return found


async def warn(http: httpx2.AsyncClient, project: str, turn_id: str, *lines: dict[str, object]) -> None:
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    headers = {"Content-Type": "application/x-ndjson"}
    path = f"/api/projects/{project}/sessions/s/turns/{turn_id}/lines"
    (await http.post(path, content=body, headers=headers)).raise_for_status()


def text(content: str) -> dict[str, object]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": content}]}}


END: dict[str, object] = {"type": "result", "is_error": False, "result": "done"}
FAILURE: dict[str, object] = {"type": "result", "is_error": True, "result": "out of memory"}


async def test_each_change_is_an_update_and_the_end_stops_the_polling(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    turn_id = await new_turn(http, project)
    updates: list[Turn] = []
    completed: list[Turn] = []
    polling = SessionPolling(
        client,
        project,
        "s",
        turn_id,
        interval_ms=QUICK_MS,
        on_update=updates.append,
        on_complete=completed.append,
    )

    async with asyncio.timeout(PATIENCE_SECONDS), polling:
        await warn(http, project, turn_id, text("one"))
        await warn(http, project, turn_id, text("two"), END)
        turn = await polling.wait()

        assert not polling.is_polling
    assert turn.status == "completed"
    assert [block.content["text"] for block in turn.blocks] == ["one", "two"]
    assert completed == [turn]
    assert updates[-1] == turn
    assert len(updates) <= 4  # a poll without news calls no callback


async def test_a_changed_turn_transfers_new_blocks_only(
    server: ServerProcess, http: httpx2.AsyncClient, project: str
) -> None:
    turn_id = await new_turn(http, project)
    path = turn_path(project, "s", turn_id)
    bodies: list[dict[str, Any]] = []

    async def keep(response: httpx2.Response) -> None:
        if response.status_code == 200:
            bodies.append(json.loads(await response.aread()))

    async with (
        httpx2.AsyncClient(timeout=PATIENCE_SECONDS, event_hooks={"response": [keep]}) as own,
        ServerClient(server.url, http=own) as client,
    ):
        await warn(http, project, turn_id, text("one"), text("two"))
        before = await client.get_turn(path)
        unchanged = await client.get_turn(path)
        await warn(http, project, turn_id, text("three"), END)
        after = await client.get_turn(path)

    assert unchanged is before
    assert [len(body["blocks"]) for body in bodies] == [2, 1]
    assert after == (await http.get(path)).json()


async def test_a_failed_turn_is_an_error_with_its_reason(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    turn_id = await new_turn(http, project)
    errors: list[Exception] = []
    polling = SessionPolling(client, project, "s", turn_id, interval_ms=QUICK_MS, on_error=errors.append)
    await warn(http, project, turn_id, FAILURE)

    async with asyncio.timeout(PATIENCE_SECONDS), polling:
        with pytest.raises(TurnFailed, match=turn_id):
            await polling.wait()

    assert [type(error) for error in errors] == [TurnFailed]
    assert polling.turn is not None
    assert polling.turn.status == "failed"


async def test_an_unchanged_turn_costs_a_304(
    server: object, http: httpx2.AsyncClient, project: str, client: ServerClient
) -> None:
    turn_id = await new_turn(http, project)
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=PATIENCE_SECONDS) as noted:
        watched = ServerClient(client.base_url, http=noted)
        first = await watched.get_json(f"/api/projects/{project}/sessions/s/turns/{turn_id}")
        second = await watched.get_json(f"/api/projects/{project}/sessions/s/turns/{turn_id}")

    assert statuses == [200, 304]
    assert second is first


async def test_it_polls_only_while_enabled_and_with_a_turn(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    turn_id = await new_turn(http, project)
    polling = SessionPolling(client, project, "s", enabled=False, interval_ms=QUICK_MS)

    async with asyncio.timeout(PATIENCE_SECONDS), polling:
        assert not polling.is_polling
        polling.enabled = True
        assert not polling.is_polling
        polling.turn_id = turn_id
        assert polling.is_polling
        polling.enabled = False
        assert not polling.is_polling
        polling.enabled = True
        await warn(http, project, turn_id, END)
        await polling.wait()


async def test_an_unknown_turn_stops_the_polling_at_once(client: ServerClient, project: str) -> None:
    errors: list[Exception] = []
    polling = SessionPolling(
        client, project, "s", "turn-000000000000", interval_ms=QUICK_MS, on_error=errors.append
    )

    async with asyncio.timeout(PATIENCE_SECONDS), polling:
        with pytest.raises(RequestRefused) as refused:
            await polling.wait()

    assert refused.value.status == 404
    assert refused.value.code == "turn_not_found"
    assert len(errors) == 1


async def test_an_unreachable_server_is_retried_five_times(project: str) -> None:
    errors: list[Exception] = []
    manager = PollingManager(backoff=Backoff(0.01, 2.0, 0.16, max_retries=5))
    async with ServerClient("http://127.0.0.1:9") as unreachable, manager:
        polling = SessionPolling(
            unreachable, project, "s", "turn-1", manager=manager, on_error=errors.append, interval_ms=QUICK_MS
        )
        async with asyncio.timeout(PATIENCE_SECONDS), polling:
            with pytest.raises(Unreachable):
                await polling.wait()

    assert len(errors) == 6
    assert all(isinstance(error, Unreachable) for error in errors)


async def test_two_pollers_of_one_turn_share_one_request(
    client: ServerClient, http: httpx2.AsyncClient, project: str
) -> None:
    turn_id = await new_turn(http, project)
    async with PollingManager() as manager, asyncio.timeout(PATIENCE_SECONDS):
        pollings = [SessionPolling(client, project, "s", turn_id, manager=manager) for _ in range(3)]
        for polling in pollings:
            polling.start()
        await warn(http, project, turn_id, END)
        for polling in pollings:
            await polling.wait()

        assert manager.metrics.shared >= 2
