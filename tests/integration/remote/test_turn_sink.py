"""The sink of a turn on a server, when the server or a proxy in front of it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from longwatch.clock import SYSTEM_CLOCK
from longwatch.errors import InvalidInput, RequestRefused, Unreachable
from longwatch.journal.memory import MemoryJournal
from longwatch.remote.blocking_client import BlockingClient
from longwatch.remote.executor_watchdog import ExecutorWatchdog
from longwatch.remote.turn_sink import RemoteTurnSink, create_turn
from longwatch.server.access.limits import ServerLimits
from longwatch.server.access.tokens import Access, Tokens
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from longwatch.turns.events import EventMaker
from tests.integration.server.live.servers import ServerProcess
from tests.integration.server.stores import Stores, assistant

BIG = 3_000  # bytes of a body
RIGHT, READS = "may-write-and-read", "may-only-read-here"


@asynccontextmanager
async def listening(file: Path, **options: Any) -> AsyncIterator[str]:
    """A server of this process that listens on a port."""
    with Stores(file=file).opened() as (journal, documents), socket.create_server(("127.0.0.1", 0)) as bound:
        async with open_context(journal, documents, **options) as context:
            config = uvicorn.Config(create_app(context), log_config=None, lifespan="off")
            server = uvicorn.Server(config)
            task = asyncio.create_task(server.serve([bound]))
            try:
                yield f"http://127.0.0.1:{bound.getsockname()[1]}"
            finally:
                server.should_exit = True
                context.closing.set()
                with suppress(asyncio.CancelledError):
                    await task


def sink_of(calls: BlockingClient, warnings: list[str]) -> RemoteTurnSink:
    turn = create_turn(calls, SYSTEM_CLOCK, "p", "s", None)
    return RemoteTurnSink(
        calls, turn.name, maker=EventMaker(MemoryJournal()), warn=warnings.append, clock=SYSTEM_CLOCK
    )


async def test_lines_too_many_for_one_body_are_sent_in_parts_and_a_line_too_long_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longwatch.remote.turn_sink.CUT_CHARACTERS", 1_000)
    warnings: list[str] = []
    lines = [assistant("a" * 1_000), assistant("b" * 1_000), assistant("c" * 1_000), "d" * 5_000]

    async with listening(tmp_path / "small.db", limits=ServerLimits(body_bytes=BIG)) as url:
        calls = BlockingClient(url)
        sink = await asyncio.to_thread(sink_of, calls, warnings)
        fed = await asyncio.to_thread(sink.feed, lines, 1)
        turn = (await asyncio.to_thread(calls.get, sink.path)).value

    assert (fed.accepted, fed.blocks) == (4, 3)
    assert [block["content"]["text"][0] for block in turn["blocks"]] == ["a", "b", "c"]
    assert warnings == ["line 4 was cut because it is too long for the server"]


async def test_a_wrong_token_is_refused_and_a_right_one_is_accepted(tmp_path: Path) -> None:
    access = Access(Tokens(write=RIGHT, read=READS))

    async with listening(tmp_path / "guarded.db", access=access) as url:
        with pytest.raises(RequestRefused) as refused:
            await asyncio.to_thread(sink_of, BlockingClient(url, token="wrong"), [])
        with pytest.raises(RequestRefused) as forbidden:
            await asyncio.to_thread(sink_of, BlockingClient(url, token=READS), [])
        sink = await asyncio.to_thread(sink_of, BlockingClient(url, token=RIGHT), [])

    assert (refused.value.status, forbidden.value.status) == (401, 403)
    assert sink.path.startswith("/api/projects/p/sessions/s/turns/turn-")


def test_a_redirect_is_not_followed_so_that_a_token_is_sent_nowhere_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        response = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
        script = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); c, _ = s.accept(); "
        script += "c.recv(9999); c.sendall(sys.argv[2].encode()); c.close()"
        command = [sys.executable, "-c", script, str(bound.fileno()), response]
        with subprocess.Popen(command, pass_fds=[bound.fileno()]):
            calls = BlockingClient(f"http://127.0.0.1:{bound.getsockname()[1]}", token="secret")
            with pytest.raises(RequestRefused) as refused:
                calls.get("/api/runs")

    assert refused.value.status == 302


@pytest.mark.parametrize(
    "address", ["board:8321", "ftp://board", "http://", "http://user:word@board", "http://board?x=1"]
)
def test_an_invalid_server_url_is_reported(address: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid server URL"):
        BlockingClient(address)


def test_a_response_that_is_not_json_is_an_error(server: ServerProcess) -> None:
    with pytest.raises(Unreachable):
        BlockingClient(server.url).get("/")


def test_an_executor_that_dies_out_of_the_servers_sight_is_reported_by_its_watchdog(
    server: ServerProcess,
) -> None:
    calls = BlockingClient(server.url)
    turn = create_turn(calls, SYSTEM_CLOCK, "elsewhere", "s", None)
    path = RemoteTurnSink(
        calls, turn.name, maker=EventMaker(MemoryJournal()), warn=print, clock=SYSTEM_CLOCK
    ).path
    script = (
        "import sys, time; from longwatch.remote.executor_watchdog import ExecutorWatchdog; "
        "word = ExecutorWatchdog.start_process(sys.argv[1], None, sys.argv[2], 'process 7 is gone'); "
        "print(word._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, server.url, path], stdout=subprocess.PIPE
    ) as executor:
        assert executor.stdout is not None
        beside = int(executor.stdout.readline())
        executor.send_signal(signal.SIGKILL)
    etag = calls.get(path).etag
    response = calls.get(path, {"wait": 20}, etag=etag, longer_seconds=25)

    ended = response.value or calls.get(path).value
    assert (ended["status"], ended["error"]) == ("failed", "process 7 is gone")
    with suppress(ProcessLookupError):
        os.kill(beside, signal.SIGKILL)


async def test_a_watchdog_that_is_not_needed_reports_nothing(http: httpx2.AsyncClient, project: str) -> None:
    made = await http.post(f"/api/projects/{project}/sessions/s/turns", json={})
    path = f"/api/projects/{project}/sessions/s/turns/{made.json()['id']}"
    word = ExecutorWatchdog.start_process(str(http.base_url).rstrip("/"), None, path, "gone")
    assert word is not None

    word.cancel()

    assert (await http.get(path)).json()["status"] == "pending"
