"""Runs whose processes are gone, over HTTP: died as soon as they are read, and ended without a reader."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longwatch.model.process import process_of
from longwatch.testing import FakeClock
from tests.integration.server.processes import journal_option, serving
from tests.integration.server.stores import Stores, served
from tests.patience import PATIENCE_SECONDS
from tests.unit.cli.samples import again


@contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_run_has_died_for_every_reader_as_soon_as_its_process_is_gone(stores: Stores) -> None:
    clock = FakeClock(now_ms=time.time_ns() // 1_000_000)
    async with served(stores, clock=clock) as server:
        with child() as process:
            start = {
                "type": "workflow_start",
                "occurred_at": clock.now_ms() - 1000,
                "payload": {"process": process_of(process.pid).fields},
            }
            call = {"type": "agent_start", "agent_name": "ada", "call_id": "c1"}
            await server.http.post("/api/runs/wf-1/events", json={"events": [start, call]})
            open_list = await server.http.get("/api/runs?status=running")
            open_run = await server.http.get("/api/runs/wf-1")
            process.send_signal(signal.SIGKILL)
        clock.advance(24)

        both = {"if-none-match": f"{open_list.headers['etag']}, {open_run.headers['etag']}"}
        running = await server.http.get("/api/runs?status=running", headers=both)
        [listed] = (await server.http.get("/api/runs?status=died", headers=both)).json()["runs"]
        shown = (await server.http.get("/api/runs/wf-1", headers=both)).json()

        assert [run["status"] for run in open_list.json()["runs"]] == ["running"]
        assert running.json() == {"runs": [], "cursor": None, "hint": None, "usage": None, "failures": []}
        for run in (listed, shown):
            assert (run["status"], run["ended_at"], run["duration_ms"]) == ("died", None, None)
            low, high = run["ended_between"]
            assert low <= high == clock.now_ms()
            assert run["duration_between"] == [low - run["started_at"], high - run["started_at"]]
            assert (
                run["error"]
                == f"Process {process.pid} on {process_of(1).host} exited without reporting an outcome."
            )
        assert [call["status"] for call in shown["calls"]] == ["abandoned"]


async def test_an_attempt_is_shown_by_its_number(stores: Stores) -> None:
    at = time.time_ns() // 1_000_000 - 200_000
    async with served(stores) as server:
        server.context.journal.append(again(at=at))

        last = (await server.http.get("/api/runs/wf-again")).json()
        first = await server.http.get("/api/runs/wf-again?attempt=1")
        unchanged = await server.http.get(
            "/api/runs/wf-again?attempt=1", headers={"if-none-match": first.headers["etag"]}
        )
        none = await server.http.get("/api/runs/wf-again?attempt=4")

        assert (last["status"], last["attempt"], [call["name"] for call in last["calls"]]) == (
            "running",
            3,
            ["three"],
        )
        assert [(each["number"], each["status"]) for each in last["attempts"]] == [
            (1, "failed"),
            (2, "unknown"),
            (3, "running"),
        ]
        shown = first.json()
        assert (shown["status"], shown["attempt"], len(shown["attempts"])) == ("failed", 1, 3)
        assert [call["name"] for call in shown["calls"]] == ["one"]
        assert shown["counts"] == {
            "agent_end": 1,
            "agent_start": 1,
            "workflow_error": 1,
            "workflow_start": 1,
        }
        assert (shown["events"], last["events"]) == (4, 2)
        assert last["counts"] == {"agent_start": 1, "workflow_start": 1}
        assert unchanged.status_code == 304
        assert (none.status_code, none.json()["error"]["message"]) == (
            400,
            "Run 'wf-again' has 3 attempts, not 4. Use a number from 1 to 3.",
        )


def test_a_server_ends_a_run_that_no_client_reads(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with child() as process:
        code = (
            "import sys, longwatch\n"
            "from longwatch.model.process import process_of\n"
            "with longwatch.open_journal(sys.argv[1]) as journal:\n"
            "    journal.append([longwatch.Event(run_id='wf-1', event_id='1', type='workflow_start',\n"
            "        occurred_at=1, payload={'process': process_of(int(sys.argv[2])).fields})])\n"
        )
        subprocess.run([sys.executable, "-c", code, f"sqlite:///{file}", str(process.pid)], check=True)
    with serving(*journal_option(file)) as server:
        with urllib.request.urlopen(
            f"{server.url}/api/runs/wf-1/events?wait=20", timeout=PATIENCE_SECONDS
        ) as response:
            before = json.load(response)
        url = f"{server.url}/api/runs/wf-1/events?wait=20&after={before['cursor']}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
            [death] = json.load(response)["events"]

    assert [each["type"] for each in before["events"]] == ["workflow_start"]
    assert (death["type"], death["payload"]["status"]) == ("workflow_error", "died")
    assert death["payload"]["exit_observed"] is False
