"""`my_run`: what an agent reads about its own run, and how the run is named."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.server.mcp.box import OwnRunName
from tests.integration.server.mcp.clients import agent_of, text_of
from tests.integration.server.stores import Stores
from tests.integration.server.test_runs import ago, record

OWN = OwnRunName("wf-2", "LONGWATCH_RUN_ID")


def model_call(call_id: str, **usage: int) -> dict[str, object]:
    payload = {"model": "m-1", "status": "completed", **usage}
    return {"type": "model_call", "call_id": call_id, "payload": payload}


async def test_an_agent_reads_its_deadline_tokens_waits_and_failures(sqlite_stores: Stores) -> None:
    async with agent_of(sqlite_stores, own_run=OWN) as agent:
        deadline = ago(0) + 3_600_000
        failed = {"operation": "fetch", "status": "failed", "error_message": "FeedTimeout: no response"}
        await record(
            agent.server.http,
            "wf-1",
            {"type": "workflow_start", "payload": {"deadline_at": deadline}},
        )
        await record(
            agent.server.http,
            "wf-2",
            {"type": "workflow_start", "payload": {"name": "agent", "parent_run_id": "wf-1"}},
            model_call("m1", input_tokens=900, output_tokens=100),
            model_call("m2"),
            {"type": "tool_call", "call_id": "c1", "payload": failed},
            {
                "type": "waiting_started",
                "call_id": "w1",
                "payload": {"reason": "approval", "detail": "go"},
            },
        )

        own = await agent.read("my_run")
        text = text_of(await agent.call("my_run"))

    assert (own["run"]["run_id"], own["run"]["status"], own["named_by"]) == (
        "wf-2",
        "running",
        "LONGWATCH_RUN_ID",
    )
    assert (own["deadline_at"], own["deadline_of"]) == (deadline, "wf-1")
    assert 3_500_000 < own["ms_to_deadline"] <= 3_600_000
    tokens = own["tokens"]
    assert (tokens["input_tokens"], tokens["calls_with_tokens"], tokens["model_calls"]) == (900, 1, 2)
    assert [(wait["reason"], wait["detail"]) for wait in own["waiting"]] == [("approval", "go")]
    assert [(call["name"], call["error"]) for call in own["last_failures"]] == [
        ("fetch", "FeedTimeout: no response")
    ]
    assert "900 input and 100 output tokens in 1 of 2 model calls" in text


async def test_a_passed_deadline_ends_nothing(sqlite_stores: Stores) -> None:
    async with agent_of(sqlite_stores, own_run=OWN) as agent:
        start = {"type": "workflow_start", "payload": {"deadline_at": ago(60_000)}}
        await record(agent.server.http, "wf-2", start)

        own = await agent.read("my_run")

    assert own["run"]["status"] == "running"
    assert own["ms_to_deadline"] <= -60_000


@pytest.mark.parametrize("parent", ["wf-2", "wf-9"])
async def test_a_run_without_a_deadline_has_none_whatever_its_parent(
    sqlite_stores: Stores, parent: str
) -> None:
    async with agent_of(sqlite_stores, own_run=OWN) as agent:
        start = {"type": "workflow_start", "payload": {"parent_run_id": parent}}
        await record(agent.server.http, "wf-2", start)

        own = await agent.read("my_run")

    assert (own["deadline_at"], own["deadline_of"], own["tokens"], own["last_failures"]) == (
        None,
        None,
        None,
        [],
    )


async def test_an_execution_above_has_the_deadline_of_its_record(sqlite_stores: Stores) -> None:
    started = ago(0)
    store = MemoryExecutionStore()
    execution = store.add(
        Execution(
            execution_id="x-1",
            plan_id="p",
            source="drs",
            mode=Mode.DRILL,
            started_at=started,
            stages=(Stage("wave", (Job("job-1"),)),),
            deadline_ms=600_000,
        )
    )
    async with agent_of(sqlite_stores, own_run=OWN, executions=store) as agent:
        start = {"type": "workflow_start", "payload": {"kind": "execution"}}
        await record(agent.server.http, "p%2Fx-1", start)
        await record(
            agent.server.http, "wf-2", {"type": "workflow_start", "payload": {"parent_run_id": "p/x-1"}}
        )

        own = await agent.read("my_run")

    assert (own["deadline_at"], own["deadline_of"]) == (execution.started_at + 600_000, "p/x-1")


def longwatch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, as users run it."""
    return subprocess.run([sys.executable, "-m", "longwatch", *arguments], capture_output=True, text=True)


CLIENT = """
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters

async def main():
    arguments = ["-m", "longwatch", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as client:
        result = await client.call_tool("my_run", {})
        print(json.dumps({"own": result.structured_content or result.content[0].text}), file=sys.stderr)

asyncio.run(main())
"""


def test_a_recorded_agent_finds_its_run_and_the_server_records_nothing(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(CLIENT)
    journal = f"sqlite:///{tmp_path}/runs.db"
    options = ("--journal", journal, "--run-id", "wf-own", "--deadline", "1h")

    ran = longwatch("run", *options, "--", sys.executable, str(program))
    exported = longwatch("export", "--journal", journal, "wf-own")
    runs = longwatch("runs", "--journal", journal, "-o", "jsonl")

    assert ran.returncode == 0, ran.stderr
    line = next(line for line in ran.stderr.splitlines() if line.startswith('{"own"'))
    own = json.loads(line)["own"]
    assert (own["run"]["run_id"], own["run"]["status"], own["named_by"]) == (
        "wf-own",
        "running",
        "LONGWATCH_RUN_ID",
    )
    assert 3_000_000 < own["ms_to_deadline"] <= 3_600_000
    calls = [json.loads(line) for line in exported.stdout.splitlines() if '"tool_call"' in line]
    assert [call["payload"]["status"] for call in calls] == ["started", "completed"]  # by the client, once
    assert len(runs.stdout.splitlines()) == 1


async def test_an_own_run_that_is_not_recorded_yet_is_reported(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path}/runs.db"
    recorded = await asyncio.to_thread(longwatch, "record", "--journal", journal, "--run", "wf-1", "note")
    assert recorded.returncode == 0
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "longwatch", "mcp", "--journal", journal],
        env={**os.environ, "LONGWATCH_TURN_ID": "turn-9"},
    )

    async with Client(server) as client:
        result = await client.call_tool("my_run", {})

    assert result.is_error
    assert "No run 'turn-9'" in text_of(result)
