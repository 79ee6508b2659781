"""`longwatch turn --server`, as installed: a command executes a turn that lives on a real server."""

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
from typing import Any

import httpx2
import pytest

from tests.integration.server.live.servers import ServerProcess, server_process
from tests.patience import PATIENCE_SECONDS

SESSION = "/api/projects/default/sessions/s"

# Prints a line, waits for a word, prints what follows, and waits to be stopped if the word was "stay".
AGENT = """
import json, sys
def say(words): print(json.dumps({"type": "assistant", "message": {"content": words}}), flush=True)
say("first")
word = open(sys.argv[1]).read()
if word == "stay": open(sys.argv[1]).read()
print("no JSON at all", flush=True)
for number in range(int(word)): say(f"{number}")
print('{"type": "result", "subtype": "success"}', flush=True)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path / "server.db") as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """What the agent waits for."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def words(server: ServerProcess, *more: str) -> list[str]:
    return [sys.executable, "-m", "longwatch", "turn", "--server", server.url, "--session", "s", *more]


@contextmanager
def executing(server: ServerProcess, gate: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start an agent as the executor of a turn, and wait until its first line is on the server."""
    process = subprocess.Popen(
        [*words(server, *more), "-o", "jsonl", "--", sys.executable, "-c", AGENT, str(gate)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LONGWATCH_DATA": str(gate.parent / "data")},
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["payload"]["text"] == "first"
        yield process
    finally:
        process.kill()
        process.communicate()


def the_turn(server: ServerProcess) -> dict[str, Any]:
    """The last turn of session s, with its blocks."""
    turns = httpx2.get(f"{server.url}{SESSION}/turns", timeout=PATIENCE_SECONDS).json()["turns"]
    found: dict[str, Any] = httpx2.get(
        f"{server.url}{SESSION}/turns/{turns[-1]['id']}", timeout=PATIENCE_SECONDS
    ).json()
    return found


def texts(turn: dict[str, Any]) -> list[str]:
    return [block["content"]["text"] for block in turn["blocks"]]


def test_the_lines_of_a_command_become_blocks_of_a_turn_on_a_server(
    server: ServerProcess, gate: Path
) -> None:
    with executing(server, gate, "--prompt", "Mend the roof") as process:
        gate.write_text("2")
        out, err = process.communicate(timeout=PATIENCE_SECONDS)

    turn = the_turn(server)
    assert (process.returncode, turn["status"], turn["prompt"]) == (0, "completed", "Mend the roof")
    assert texts(turn) == ["first", "0", "1"]
    assert [json.loads(line)["type"] for line in out.splitlines()] == [
        "output",
        "block",
        "block",
        "turn_result",
    ]
    assert f"See it: {server.url}/projects/default/sessions/s" in err


def test_a_server_that_goes_away_and_comes_back_has_every_line_once(
    server: ServerProcess, gate: Path
) -> None:
    with executing(server, gate) as process:
        server.kill()
        gate.write_text("700")  # more than are sent at once
        assert process.stderr is not None
        while "retrying" not in process.stderr.readline():
            pass
        server.start()
        process.communicate(timeout=PATIENCE_SECONDS)

    turn = the_turn(server)
    assert (process.returncode, turn["status"]) == (0, "completed")
    assert texts(turn) == ["first", *(f"{number}" for number in range(700))]


def test_a_turn_that_is_interrupted_on_the_server_stops_its_command(
    server: ServerProcess, gate: Path
) -> None:
    with executing(server, gate) as process:
        gate.write_text("stay")
        turn_id = the_turn(server)["id"]
        httpx2.post(
            f"{server.url}{SESSION}/turns/{turn_id}/interrupt",
            json={"reason": "enough"},
            timeout=PATIENCE_SECONDS,
        )
        _, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 1
    assert "enough" in err
    assert the_turn(server)["error"] == "enough"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 1), (signal.SIGINT, 130)])
def test_an_executor_that_is_terminated_ends_its_turn_on_the_server(
    server: ServerProcess, gate: Path, number: signal.Signals, code: int
) -> None:
    with executing(server, gate) as process:
        gate.write_text("stay")
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_SECONDS)

    turn = the_turn(server)
    assert process.returncode == code
    assert turn["status"] == "failed"
    assert turn["error"].startswith(f"interrupted by {number.name}")


def test_an_executor_that_is_killed_leaves_a_turn_that_ends(server: ServerProcess, gate: Path) -> None:
    with executing(server, gate) as process:
        process.kill()
        gate.write_text("stay")
        until = time.monotonic() + PATIENCE_SECONDS
        while (turn := the_turn(server))["status"] == "running" and time.monotonic() < until:
            httpx2.get(
                f"{server.url}{SESSION}/turns/{turn['id']}/status?wait=1",
                headers={"If-None-Match": "*"},
                timeout=PATIENCE_SECONDS,
            )
        os.close(os.open(gate, os.O_RDWR))  # lets the agent go, which outlives its executor

    assert turn["status"] == "failed"
    assert "exited without reporting an outcome" in turn["error"]


def test_a_turn_that_was_created_on_the_server_is_executed_once(server: ServerProcess, gate: Path) -> None:
    httpx2.post(f"{server.url}/api/projects", json={"id": "default"}, timeout=PATIENCE_SECONDS)
    httpx2.post(f"{server.url}/api/projects/default/sessions", json={"id": "s"}, timeout=PATIENCE_SECONDS)
    made = httpx2.post(
        f"{server.url}{SESSION}/turns", json={"prompt": "paint"}, timeout=PATIENCE_SECONDS
    ).json()["id"]
    agent = ["sh", "-c", """cat; echo; echo '{"type": "turn.completed"}'"""]
    command = [
        sys.executable,
        "-m",
        "longwatch",
        "turn",
        "--server",
        server.url,
        "--turn",
        made,
        "--",
        *agent,
    ]

    first = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    assert (first.returncode, second.returncode) == (0, 2)
    assert "  paint\n" in first.stdout
    assert "has ended" in second.stderr


def test_lines_that_the_server_did_not_accept_are_stored_and_can_be_sent_later(
    server: ServerProcess, gate: Path
) -> None:
    with executing(server, gate) as process:
        server.kill()
        gate.write_text("3")
        assert process.stderr is not None
        while "Ctrl-C to give up" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    (spooled,) = (gate.parent / "data" / "turns").iterdir()
    server.start()
    url = next(word for word in err.replace("'", " ").split() if "first=" in word)
    httpx2.post(url, content=spooled.read_bytes(), timeout=PATIENCE_SECONDS).raise_for_status()

    assert process.returncode == 3
    assert texts(the_turn(server)) == ["first", "0", "1", "2"]


def test_an_unreachable_server_is_named_and_the_command_is_not_started(tmp_path: Path) -> None:
    touch = ["touch", str(tmp_path / "started")]
    command = [sys.executable, "-m", "longwatch", "turn", "--server", "http://127.0.0.1:9", "--", *touch]

    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    assert done.returncode == 3
    assert "Is the server running?" in done.stderr
    assert not (tmp_path / "started").exists()
