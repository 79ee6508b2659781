"""`longwatch mcp` in a process of its own, as clients start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from longwatch.journal.dynamodb.journal import open_dynamodb
from longwatch.journal.sqlite import SqliteJournal
from longwatch.storage.urls import TableAddress
from tests.contract.events import event
from tests.contract.tables import REGION, new_table
from tests.integration.server.mcp.clients import text_of
from tests.patience import PATIENCE_SECONDS

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A journal with one run that has ended."""
    now = time.time_ns() // 1_000_000
    with SqliteJournal(tmp_path / "runs.db") as opened:
        opened.append([event("wf-1", now - 10, "workflow_start"), event("wf-1", now, "workflow_complete")])
    return f"sqlite:///{tmp_path}/runs.db"


def server(journal: str, *options: str) -> StdioServerParameters:
    arguments = ["-m", "longwatch", "mcp", "--journal", journal, *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


@contextmanager
def started(journal: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, once it has answered."""
    with subprocess.Popen(
        [sys.executable, "-m", "longwatch", "mcp", "--journal", journal],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "longwatch"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_the_server_and_reads_runs(journal: str, mode: str) -> None:
    async with Client(server(journal), mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        listed = await client.call_tool("list_runs", {})
        resources = await client.list_resources()
        read = await client.read_resource(resources.resources[0].uri)

    assert "record_note" not in names
    assert "succeeded wf-1" in text_of(listed)
    assert "succeeded wf-1" in read.contents[0].text  # type: ignore[union-attr]


async def test_a_client_of_a_server_with_write_records_notes(journal: str) -> None:
    async with Client(server(journal, "--write")) as client:
        noted = await client.call_tool("record_note", {"run": "latest", "text": "seen"})
        read = await client.call_tool("read_events", {"run": "wf-1"})

    assert not noted.is_error
    assert read.structured_content["events"][-1]["payload"]["text"] == "seen"


@pytest.mark.needs_java
async def test_a_table_is_listed_and_shown(dynamodb_local_url: str) -> None:
    with new_table(dynamodb_local_url, "workflow") as table:
        now = time.time_ns() // 1_000_000
        with open_dynamodb(
            TableAddress(table=table.table, region=REGION, endpoint=dynamodb_local_url)
        ) as opened:
            opened.append([event("wf-1", now, "workflow_start")])
        url = f"dynamodb://{table.table}?region={REGION}&endpoint={dynamodb_local_url}"

        async with Client(server(url)) as client:
            listed = await client.call_tool("list_runs", {})
            shown = await client.call_tool("show_run", {"run": "wf-1"})

    assert [run["run_id"] for run in listed.structured_content["runs"]] == ["wf-1"]
    assert shown.structured_content["run"]["status"] == "running"


def test_the_end_of_input_ends_the_server_without_a_word(journal: str) -> None:
    with started(journal) as process:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)

        assert (process.returncode, output, errors) == (0, b"", b"")


def test_requests_before_the_end_of_input_are_answered(journal: str) -> None:
    requests = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_runs", "arguments": {}}},
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "longwatch", "mcp", "--journal", journal],
        input="\n".join(map(json.dumps, requests)),
        capture_output=True,
        text=True,
    )

    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["runs"][0]["run_id"] == "wf-1"
    assert (ran.returncode, ran.stderr) == (0, "")


def test_ctrl_c_ends_the_server_while_its_client_is_silent(journal: str) -> None:
    with started(journal) as process:
        process.send_signal(signal.SIGINT)

        assert process.wait(PATIENCE_SECONDS) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_client_that_closes_its_end_ends_the_server_quietly(journal: str) -> None:
    with started(journal) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()

        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode() + b"\n")
        process.stdin.flush()

        assert process.wait(PATIENCE_SECONDS) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_lines_that_are_no_messages_do_not_end_the_server(journal: str) -> None:
    with started(journal) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n\xff\xfe\n{}\n[]\n" + b"x" * 10_000_000 + b"\n")
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode() + b"\n")
        process.stdin.flush()

        while (answer := json.loads(process.stdout.readline())).get("id") != 2:
            assert "error" in answer
        assert answer["result"] == {}


def test_a_missing_journal_is_reported_before_anything_is_served(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "longwatch", "mcp", "--journal", f"sqlite:///{tmp_path}/none.db"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "No journal at" in ran.stderr


def test_a_missing_extra_names_its_install_line(journal: str) -> None:
    hide = "import sys; sys.modules['mcp'] = None; from longwatch.cli.main import run; "
    ran = subprocess.run(
        [sys.executable, "-c", f"{hide}sys.exit(run(['mcp', '--journal', '{journal}']))"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install '.[mcp]'" in ran.stderr
