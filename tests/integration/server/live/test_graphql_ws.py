"""npm's own graphql-ws client against the server: everything arrives once, also across reconnections."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from longwatch.executions.model import JobState
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.server.graphql.socket import MAX_MESSAGE, MAX_OPERATIONS
from tests.integration.server.execution_stories import GOING, LAUNCHED, Watched, fresh, now_ms, wave_job
from tests.integration.server.live.servers import ServerProcess, server_process
from tests.integration.server.stores import LINES, assistant, new_turn, result
from tests.patience import PATIENCE_SECONDS

PACKAGES = Path(__file__).resolve().parents[4] / "web" / "package.json"
SCRIPT = Path(__file__).with_name("graphql_client.mjs")
TOKEN = "token-of-this-server-0123"
PROTOCOL = "graphql-transport-ws"
RUN_EVENTS = """subscription Events($id: String!, $after: String) {
  runEvents(runId: $id, after: $after) { kind cursor event { eventId } ended { reason status message } } }"""
TURN = """subscription Turn($id: String!, $after: String) {
  turn(projectId: "p1", sessionId: "s1", id: $id, after: $after) {
    kind cursor turn { status } block { sequence content } ended { reason status message } } }"""
RUNS = "subscription Runs($after: String) { runs(after: $after) { kind cursor run { runId status } } }"
EXECUTION = """subscription Execution($after: String) { execution(executionId: "x-1", after: $after) {
    kind cursor execution { status waves { servers { serverId state } } } ended { reason status } } }"""


class Client:
    """A process of Node with a client of graphql-ws."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.updates: list[dict[str, Any]] = []
        self.closed: list[int] = []

    async def until(self, event: str, is_wanted: Callable[[Any], bool] = lambda value: True) -> Any:
        """The next such event. Updates are kept."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                line = await self._process.stdout.readline()
                assert line, f"Node has ended; it had {self.updates}"
                found = json.loads(line)
                if found["event"] == "next":
                    (value,) = found["value"]["data"].values()
                    self.updates.append(value)
                    found["value"] = value
                elif found["event"] == "closed":
                    self.closed.append(found["value"]["code"])
                if found["event"] == event and is_wanted(found["value"]):
                    return found["value"]

    async def until_kind(self, kind: str) -> Any:
        return await self.until("next", lambda update: update["kind"] == kind)

    @property
    def kinds(self) -> list[str]:
        return [update["kind"] for update in self.updates]


@asynccontextmanager
async def subscribed(
    server: ServerProcess, query: str, *, token: str = "", **variables: Any
) -> AsyncIterator[Client]:
    if shutil.which("node") is None:
        pytest.skip("graphql-ws needs Node and there is no `node` here (Debian: apt-get install nodejs npm)")
    if not (PACKAGES.parent / "node_modules" / "graphql-ws" / "package.json").exists():
        pytest.skip("graphql-ws is not installed; run `make web`, which needs npm")
    field = query.partition("{")[2].strip().partition("(")[0]
    operation = json.dumps({"query": query, "variables": variables, "field": field})
    command = ["node", str(SCRIPT), str(PACKAGES), f"{server.websocket_url}/graphql", operation, token]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=2**20)
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path / "server.db") as running:
        yield running


@pytest.fixture
async def http(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


async def record(http: httpx2.AsyncClient, run_id: str, *events: dict[str, Any]) -> None:
    (await http.post(f"/api/runs/{run_id}/events", json={"events": list(events)})).raise_for_status()


def notes(first: int, count: int) -> list[dict[str, Any]]:
    at = now_ms()
    return [
        {"type": "note", "event_id": f"e-{number}", "occurred_at": at + number}
        for number in range(first, first + count)
    ]


def event_ids(client: Client) -> list[str]:
    return [update["event"]["eventId"] for update in client.updates if update["event"] is not None]


def end() -> dict[str, Any]:
    return {"type": "workflow_complete", "event_id": "e-end", "occurred_at": now_ms() + 100}


async def test_events_arrive_once_across_a_crash_a_restart_and_a_shutdown(
    server: ServerProcess, http: httpx2.AsyncClient
) -> None:
    await record(http, "wf-1", *notes(0, 20))

    async with subscribed(server, RUN_EVENTS, id="wf-1") as client:
        await client.until_kind("caught_up")
        await record(http, "wf-1", *notes(20, 10))
        await client.until("next", lambda update: update["event"] == {"eventId": "e-29"})
        server.kill()
        server.start()
        await client.until("connected")
        await record(http, "wf-1", *notes(30, 10))
        await client.until("next", lambda update: update["event"] == {"eventId": "e-39"})
        await asyncio.to_thread(server.stop, signal.SIGTERM)
        await client.until("closed", lambda closed: closed["code"] == 1012)
        server.start()
        await record(http, "wf-1", *notes(40, 5), end())
        ended = await client.until_kind("ended")
        await client.until("complete")

    assert event_ids(client) == [*(f"e-{at}" for at in range(45)), "e-end"]
    assert ended["ended"] == {"reason": "ended", "status": "succeeded", "message": None}


async def test_a_subscription_that_resumes_behind_the_end_gets_the_ending_again_and_no_event(
    server: ServerProcess, http: httpx2.AsyncClient
) -> None:
    await record(http, "wf-1", *notes(0, 3), end())
    async with subscribed(server, RUN_EVENTS, id="wf-1") as first:
        ended = await first.until_kind("ended")

    async with subscribed(server, RUN_EVENTS, id="wf-1", after=ended["cursor"]) as second:
        await second.until("complete")

    assert second.kinds == ["caught_up", "ended"]


async def test_a_turn_ends_with_its_status_and_blocks_are_not_repeated(
    server: ServerProcess, http: httpx2.AsyncClient
) -> None:
    turn = await new_turn(http)
    await http.post(f"{turn}/lines?first=1", content=assistant("one"), headers=LINES)

    async with subscribed(server, TURN, id=turn.rpartition("/")[2]) as client:
        await client.until_kind("caught_up")
        server.kill()
        server.start()
        await client.until("connected")
        await http.post(f"{turn}/lines?first=2", content=assistant("two"), headers=LINES)
        await http.post(f"{turn}/lines?first=3", content=result(is_error=True), headers=LINES)
        ended = await client.until_kind("ended")
        await client.until("complete")

    blocks = [update["block"]["content"]["text"] for update in client.updates if update["block"]]
    assert blocks == ["one", "two"]
    assert ended["ended"] == {"reason": "ended", "status": "failed", "message": "done"}


async def test_the_list_of_runs_has_every_change(server: ServerProcess, http: httpx2.AsyncClient) -> None:
    await record(http, "wf-1", *notes(0, 1))

    async with subscribed(server, RUNS) as client:
        await client.until_kind("caught_up")
        await record(http, "wf-2", end())
        new = await client.until_kind("run")
        (await http.delete("/api/runs/wf-2")).raise_for_status()
        deleted = await client.until_kind("run_deleted")

    assert new["run"] == {"runId": "wf-2", "status": "succeeded"}
    assert deleted["run"] is None
    assert client.updates[0]["run"]["runId"] == "wf-1"


async def test_an_execution_is_followed_until_its_verdict(server: ServerProcess) -> None:
    with SqliteJournal(server.file) as journal:
        store = SqliteExecutionStore(server.file)
        watched = Watched(store, journal, fresh("x-1", "one"))
        watched.receive(wave_job(0, GOING))
        async with subscribed(server, EXECUTION) as client:
            await client.until_kind("caught_up")
            watched.receive(wave_job(0, LAUNCHED, state=JobState.FINISHED))
            ended = await client.until_kind("ended")
            await client.until("complete")
        store.close()

    async with subscribed(server, EXECUTION, after=ended["cursor"]) as again:
        await again.until("complete")

    statuses = [each["execution"]["status"] for each in client.updates if each["execution"]]
    assert (statuses[0], statuses[-1]) == ("running", "succeeded")
    assert ended["ended"] == {"reason": "ended", "status": "succeeded"}
    assert again.kinds == ["caught_up", "ended"]


async def test_the_token_may_be_in_the_payload_of_the_connection(tmp_path: Path) -> None:
    with server_process(tmp_path / "server.db", token=TOKEN) as server:
        async with subscribed(server, RUNS, token=TOKEN) as client:
            await client.until_kind("caught_up")
        for wrong in ("", "wrong-token-0123456789"):
            async with subscribed(server, RUNS, token=wrong) as client:
                closed = await client.until("closed")
                assert closed == {"code": 4403, "reason": "Forbidden"}
                assert client.updates == []


async def messages_of(server: ServerProcess, *sent: object, headers: dict[str, str] | None = None) -> Any:
    """What the server sends after these messages, and the code that it closes with."""
    received: list[Any] = []
    url = f"{server.websocket_url}/graphql"
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        connect(
            url,
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers=headers,
            proxy=None,
            open_timeout=None,  # the first socket loads the library
        ) as socket,
    ):
        try:
            for message in sent:
                await socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
            async for message in socket:
                received.append(json.loads(message))
                if received[-1]["type"] in ("complete", "error", "pong"):
                    return received, None
        except ConnectionClosed:
            pass
        return received, socket.close_code


INIT = {"type": "connection_init"}
WHOLE = {"type": "subscribe", "id": "1", "payload": {"query": "{ runs { nodes { runId } } }"}}


async def test_no_field_is_subscribed_or_queried_before_the_token(tmp_path: Path) -> None:
    with server_process(tmp_path / "server.db", token=TOKEN) as server:
        header = {"Authorization": f"Bearer {TOKEN}"}

        assert await messages_of(server, WHOLE) == ([], 4401)
        assert await messages_of(server, INIT, WHOLE) == ([], 4403)
        assert (await messages_of(server, {**INIT, "payload": {"token": TOKEN}}, WHOLE))[0][1][
            "type"
        ] == "next"
        assert (await messages_of(server, INIT, WHOLE, headers=header))[0][1]["type"] == "next"
        wrong = {**INIT, "payload": {"Authorization": "Bearer wrong"}}
        assert await messages_of(server, wrong, WHOLE, headers=header) == ([], 4403)


async def test_malformed_messages_close_the_socket_with_a_reason(server: ServerProcess) -> None:
    for message in ("{", "[" * 100_000, "[]", "7", '{"type": 1}', '{"type": "nope"}', b"{}"):
        assert (await messages_of(server, message))[1] == 4400, message[:20]
    payloads: tuple[object, ...] = ([], {"query": 1}, {"query": "{ a }", "variables": 1})
    for payload in payloads:
        assert (await messages_of(server, INIT, {**WHOLE, "payload": payload}))[1] == 4400
    assert (await messages_of(server, "x" * (MAX_MESSAGE + 1)))[1] == 1009


async def test_a_mistake_in_one_operation_is_its_error(server: ServerProcess) -> None:
    expensive = "{ runs(first: 200) { nodes { calls(first: 1000) { nodes { name } } } } }"
    for query in ("{", "{ nope }", "mutation { a }", expensive):
        found, code = await messages_of(server, INIT, {**WHOLE, "payload": {"query": query}})
        assert (code, found[-1]["type"]) == (None, "error"), query
    unknown = {"query": "query A { __typename }", "operationName": "B"}
    found, _ = await messages_of(server, INIT, {**WHOLE, "payload": unknown})
    assert found[-1]["payload"][0]["message"] == 'Unknown operation named "B".'
    invalid = 'subscription { runEvents(runId: "") { kind } }'
    found, _ = await messages_of(server, INIT, {**WHOLE, "payload": {"query": invalid}})
    assert found[1]["payload"]["errors"][0]["extensions"]["status"] == 400


async def test_a_connection_has_a_limited_number_of_operations(server: ServerProcess) -> None:
    follow = {"query": "subscription { runs { kind } }"}
    sent = [{"type": "subscribe", "id": str(at), "payload": follow} for at in range(MAX_OPERATIONS + 1)]

    found, _ = await messages_of(server, INIT, *sent)

    assert found[-1]["type"] == "error"
    assert found[-1]["id"] == str(MAX_OPERATIONS)


async def test_another_site_cannot_connect(server: ServerProcess) -> None:
    with pytest.raises(InvalidStatus) as raised:
        await messages_of(server, INIT, headers={"Origin": "https://evil.example"})

    assert raised.value.response.status_code == 403
