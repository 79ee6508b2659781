"""Names and messages from anywhere are shown on a terminal, and none can steer it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.acceptance.conftest import command, environment
from tests.patience import PATIENCE_SECONDS

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b2J\x08\u202e\u2066\u200b\u200d\u2060\ufeff\x7fy"
UNSEEN = "x\u202e\u2066\u200b\u2060\ufeffy"  # no control characters: ids of executions may not have any
FORBIDDEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
OUR_SEQUENCES = re.compile("\x1b\\[(?:[0-9;]*m|\\?25[lh]|\\d*[AGKJ])")

COMMANDS = {
    "runs": ("runs",),
    "runs -o json": ("runs", "-o", "json"),
    "runs -o jsonl": ("runs", "-o", "jsonl"),
    "runs of a kind": ("runs", "--kind", HOSTILE),
    "runs since": ("runs", "--since", HOSTILE),
    "runs of a status": ("runs", "--status", HOSTILE),
    "show": ("show", "wf-1"),
    "show -o json": ("show", "wf-1", "-o", "json"),
    "show unknown": ("show", HOSTILE),
    "show any of": ("show", "wf-"),
    "tail": ("tail", "wf-1"),
    "tail -o json": ("tail", "wf-1", "-o", "json"),
    "tail -o jsonl": ("tail", "wf-1", "-o", "jsonl"),
    "tail unknown": ("tail", HOSTILE),
    "watch": ("watch", "wf-1"),
    "watch -o jsonl": ("watch", "wf-1", "-o", "jsonl"),
    "watch unknown": ("watch", HOSTILE, "--timeout", "1"),
    "watch source": ("watch", f"pid:{HOSTILE}"),
    "verify": ("verify", "wf-1"),
    "verify -o json": ("verify", "wf-1", "-o", "json"),
    "verify unknown": ("verify", HOSTILE),
    "export": ("export", "wf-1"),
    "export to a file": ("export", "wf-1", "-f", "html", "-O", f"{HOSTILE}/x.html"),
    "import": ("import", f"{HOSTILE}.jsonl"),
    "import bad lines": ("import", "bad.jsonl"),
    "record": ("record", HOSTILE, HOSTILE, "--data", f"message={HOSTILE}"),
    "record data": ("record", "wf-1", "note", "--data", HOSTILE),
    "run": ("run", "--name", HOSTILE, "--", f"no-such-{HOSTILE}"),
    "turn": ("turn", "--project", HOSTILE, "--session", HOSTILE, HOSTILE),
    "ship": ("ship", HOSTILE),
    "prune": ("prune", "--older-than", HOSTILE),
    "executions add": ("executions", "add", "--plan", HOSTILE, "--id", HOSTILE, "--wave", HOSTILE),
    "executions list": ("executions", "list"),
    "executions show": ("executions", "show", HOSTILE),
    "executions explain": ("executions", "explain", HOSTILE),
    "executions close": ("executions", "close", HOSTILE, "--reason", HOSTILE),
    "serve": ("serve", "--host", HOSTILE),
    "package": ("package", "--upload", HOSTILE),
    "simulate": ("simulate", HOSTILE),
    "doctor": ("doctor",),
    "doctor -o json": ("doctor", "-o", "json"),
    "init": ("init", f"{HOSTILE}/longwatch.toml"),
    "init here": ("init", f"{HOSTILE}.toml"),
    "completion": ("completion", HOSTILE),
    "command": (HOSTILE,),
    "option": ("runs", f"--{HOSTILE}"),
    "demo option": ("demo", f"--{HOSTILE}"),
    "show a host": ("show", "host-1"),
    "show a host -o json": ("show", "host-1", "-o", "json"),
    "show a host that is gone": ("show", "host-2"),
    "debug": ("show", HOSTILE, "--debug"),
    "debug journal": ("runs", "--journal", f"{HOSTILE}://x", "--debug"),
    "debug import": ("import", f"{HOSTILE}.jsonl", "--debug"),
    "debug mistake": ("serve", "--host", HOSTILE, "--debug"),
    "journal": ("runs", "--journal", f"{HOSTILE}://x"),
}


@pytest.fixture
def journal(tmp_path: Path) -> str:
    now = time.time_ns() // 1_000_000
    with SqliteJournal(tmp_path / "runs.db") as file:
        for run in ("wf-1", "wf-2", f"wf-{HOSTILE}"):
            file.append(_events(run, now))
        file.append(_of_hosts(now))
    (tmp_path / "bad.jsonl").write_text(f"{HOSTILE}\n", encoding="utf-8")
    return "sqlite:///runs.db"


def _events(run_id: str, now: int) -> list[Event]:
    call: dict[str, object] = {
        "status": "failed",
        "operation": HOSTILE,
        "error_message": HOSTILE,
        HOSTILE: HOSTILE,
    }
    rows: list[tuple[str, dict[str, object], str | None]] = [
        ("workflow_start", {"name": HOSTILE, "kind": HOSTILE}, None),
        ("agent_start", {"status": "started", "operation": HOSTILE}, "call-1"),
        ("agent_end", call, "call-1"),
        (f"note{HOSTILE}", {"message": HOSTILE}, None),
        ("workflow_error", {"error": HOSTILE, "error_message": HOSTILE, "error_code": HOSTILE}, None),
    ]
    return [
        Event(
            run_id=run_id,
            event_id=f"{run_id}-{number}",
            type=type,
            occurred_at=now + number,
            payload=payload,
            agent_name=HOSTILE if call_id else None,
            call_id=call_id,
        )
        for number, (type, payload, call_id) in enumerate(rows)
    ]


def _of_hosts(now: int) -> list[Event]:
    """An open run on a host that sends no heartbeats, and one whose process is gone."""
    process = {"id": "000000000000000a", "host": HOSTILE, "pid": 7, "boot": "b1", "namespace": "pid:[1]"}
    gone: dict[str, object] = {
        "status": "died",
        "error_code": "process_died",
        "error_message": f"Process 7 on {HOSTILE} exited without reporting an outcome.",
        "processes": [process["id"]],
    }
    rows: list[tuple[str, str, dict[str, object]]] = [
        ("host-1", "workflow_start", {"process": process}),
        ("host-2", "workflow_start", {"process": process}),
        ("host-2", "workflow_error", gone),
    ]
    return [
        Event(run_id=run, event_id=f"{run}-{type}", type=type, occurred_at=now - 600_000, payload=payload)
        for run, type, payload in rows
    ]


class HostileAnswers(BaseHTTPRequestHandler):
    """Responds with hostile text: in values, in a body that is not JSON, in headers and the reason."""

    def do_GET(self) -> None:
        as_header = HOSTILE.encode().decode("latin-1")
        code, reason, body = {
            "/unknown": (200, None, json.dumps({"status": HOSTILE, "message": HOSTILE})),
            "/failed": (200, None, json.dumps({"status": "failed", "error": HOSTILE, "reason": HOSTILE})),
            "/text": (200, None, HOSTILE),
            "/missing": (404, as_header, HOSTILE),
            "/busy": (503, as_header, HOSTILE),
        }[self.path]
        self.send_response(code, reason)
        self.send_header("Content-Type", f"text/{as_header}" if reason else "application/json")
        self.send_header("Retry-After", as_header)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *values: object) -> None:
        """Nothing on our own standard error."""


@pytest.fixture(scope="module")
def hostile_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), HostileAnswers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def seen_on_a_terminal(*arguments: str, **variables: str) -> str:
    screen, line = pty.openpty()
    process = subprocess.Popen(
        command(*arguments), stdin=subprocess.DEVNULL, stdout=line, stderr=line, env=environment(**variables)
    )
    os.close(line)
    seen = b""
    try:
        while part := os.read(screen, 65_536):
            seen += part
    except OSError:
        pass  # Linux ends a pseudo-terminal with an error rather than with nothing
    process.wait(PATIENCE_SECONDS)
    os.close(screen)
    return seen.decode(errors="replace")


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_no_command_lets_hostile_text_steer_the_terminal(journal: str, arguments: tuple[str, ...]) -> None:
    seen = seen_on_a_terminal(*arguments, LONGWATCH_JOURNAL=journal, TERM="dumb", NO_COLOR="1")

    assert seen
    assert not FORBIDDEN.findall(seen)


@pytest.mark.parametrize("name", ["runs", "show", "tail", "watch", "show any of"])
def test_a_terminal_with_colour_gets_no_sequences_but_ours(journal: str, name: str) -> None:
    seen = seen_on_a_terminal(*COMMANDS[name], LONGWATCH_JOURNAL=journal, TERM="xterm")

    assert "own" in seen or name == "tail"  # a narrow table cuts the word
    assert not FORBIDDEN.findall(OUR_SEQUENCES.sub("", seen))


@pytest.mark.parametrize("term", ["dumb", "xterm"])
@pytest.mark.parametrize("path", ["unknown", "failed", "text", "missing", "busy"])
def test_a_hostile_response_cannot_steer_the_terminal(
    journal: str, hostile_url: str, path: str, term: str
) -> None:
    watch = ("watch", f"{hostile_url}/{path}", "--timeout", "1s", "--every", "1s", "--debug")

    seen = seen_on_a_terminal(*watch, LONGWATCH_JOURNAL=journal, TERM=term)

    assert f"{hostile_url}/{path}" in seen
    assert not FORBIDDEN.findall(OUR_SEQUENCES.sub("", seen))


def test_a_hostile_execution_cannot_steer_a_live_view(journal: str, hostile_url: str) -> None:
    named = ("--plan", UNSEEN, "--id", UNSEEN, "--name", UNSEEN)
    wave = ("--source", "http", "--wave", f"{UNSEEN}={hostile_url}/unknown")
    screens = [
        seen_on_a_terminal(*words, LONGWATCH_JOURNAL=journal, TERM="xterm")
        for words in (
            ("executions", "add", *named, *wave),
            ("executions", "watch", "--once"),
            ("executions", "list"),
            ("executions", "show", UNSEEN),
        )
    ]

    for seen in screens:
        assert "\\u202e" in seen
        assert not FORBIDDEN.findall(OUR_SEQUENCES.sub("", seen))


def test_a_hostile_setting_is_named_without_its_control_characters(tmp_path: Path, journal: str) -> None:
    name = HOSTILE.encode("unicode_escape").decode().replace("\\x", "\\u00")
    (tmp_path / "longwatch.toml").write_text(
        f'journal = "{name}"\n[recording]\ncapture = "{name}"\n', encoding="utf-8"
    )

    seen = seen_on_a_terminal("runs", TERM="dumb")

    assert "capture" in seen
    assert not FORBIDDEN.findall(seen)
