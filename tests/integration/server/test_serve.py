"""`longwatch serve` as a process: where it is, who it lets in, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from longwatch.journal.sqlite import SqliteJournal
from tests.integration.server.processes import journal_option, raw_response, serving
from tests.patience import PATIENCE_SECONDS
from tests.unit.cli.samples import research

QUICK_SECONDS = 1.0  # what is promised for Ctrl-C
SLACK_SECONDS = 15.0  # for a loaded machine; a server that waits for its streams takes 25 s


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with SqliteJournal(path) as journal:
        journal.append(research(at=1_700_000_000_000))
    return path


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "longwatch", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


class Reader:
    """Reads a stream in a thread until it ends."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.is_open = threading.Event()
        self._url = url
        self._headers = headers
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            with (
                httpx2.Client(timeout=PATIENCE_SECONDS) as http,
                http.stream("GET", self._url, headers=self._headers) as response,
            ):
                for line in response.iter_lines():
                    self.lines.append(line)
                    if line.startswith("event: caught_up"):
                        self.is_open.set()
        except httpx2.TransportError:
            pass  # the server went down

    def ended(self) -> list[str]:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        return self.lines


def test_ctrl_c_with_open_streams_ends_within_a_second(file: Path) -> None:
    with serving(*journal_option(file)) as server:
        run_id = httpx2.get(f"{server.url}/api/runs", timeout=PATIENCE_SECONDS).json()["runs"][0]["run_id"]
        readers = [Reader(f"{server.url}/api/stream?topic=runs&topic=run:{run_id}") for _ in range(3)]
        for reader in readers:
            assert reader.is_open.wait(PATIENCE_SECONDS)
        polls = Reader(f"{server.url}/api/feed?topic=runs&wait=25")
        assert httpx2.get(f"{server.url}/api/health", timeout=PATIENCE_SECONDS).status_code == 200

        code, seconds = server.stop(signal.SIGINT)

        assert code == 130
        assert seconds < QUICK_SECONDS + SLACK_SECONDS
        for reader in readers:
            assert "event: closing" in reader.ended()
        polls.ended()
        assert "Traceback" not in server.errors()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_it_cleanly(file: Path, number: int) -> None:
    with serving(*journal_option(file)) as server:
        reader = Reader(f"{server.url}/api/stream?topic=runs")
        assert reader.is_open.wait(PATIENCE_SECONDS)

        code, seconds = server.stop(number)

        assert (code, seconds < QUICK_SECONDS + SLACK_SECONDS) == (0, True)
        assert "Traceback" not in server.errors()


def test_a_request_that_never_ends_does_not_hold_up_the_end(file: Path) -> None:
    with serving(*journal_option(file)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(b"POST /api/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
            httpx2.get(
                f"{server.url}/api/health", timeout=PATIENCE_SECONDS
            )  # so the half request is under way

            code, seconds = server.stop(signal.SIGINT)

        assert (code, seconds < QUICK_SECONDS + SLACK_SECONDS) == (130, True)
        assert "Traceback" not in server.errors()


def test_a_port_in_use_is_reported_in_one_sentence(file: Path) -> None:
    with serving(*journal_option(file)) as server:
        response = serve(*journal_option(file), "--port", str(server.port))

    assert response.returncode == 2
    assert response.stderr.startswith(f"longwatch: Port {server.port} on 127.0.0.1 is in use")
    assert "--port" in response.stderr


def test_an_address_of_another_machine_is_reported(file: Path) -> None:
    response = serve(*journal_option(file), "--host", "203.0.113.7", "--port", "0")

    assert response.returncode == 2
    assert "203.0.113.7" in response.stderr


@pytest.mark.parametrize("host", ["nosuch.invalid", "a..b", "a" * 70])
def test_a_host_that_cannot_be_resolved_is_named(file: Path, host: str) -> None:
    done = serve("--host", host, "--port", "0", "--journal", f"sqlite:///{file}")

    assert done.returncode == 2
    assert done.stderr.startswith(f"longwatch: Invalid host {host!r}: ")


def test_a_missing_journal_is_created(tmp_path: Path) -> None:
    with serving(*journal_option(tmp_path / "new.db")) as server:
        assert httpx2.get(f"{server.url}/api/runs", timeout=PATIENCE_SECONDS).json() == {
            "runs": [],
            "cursor": None,
            "hint": None,
            "usage": None,
            "failures": [],
        }


def test_a_missing_table_is_reported_before_anything_starts() -> None:
    url = "dynamodb://none?region=eu-west-1&endpoint=http://127.0.0.1:9"

    response = serve("--journal", url, "--port", "0")

    assert response.returncode == 3
    assert response.stdout == ""


def test_any_address_but_loopback_requires_a_token_which_is_created_once_and_stored(
    file: Path, tmp_path: Path
) -> None:
    token_file = tmp_path / "tokens.json"
    arguments = (*journal_option(file), "--host", "0.0.0.0", "--token-file", str(token_file))

    with serving(*arguments) as server:
        assert server.login is not None
        stranger = httpx2.get(f"{server.url}/api/runs", timeout=PATIENCE_SECONDS)
        with httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as browser:
            entered = browser.get(server.login)
            inside = browser.get("/api/runs")
        written = token_file.read_text()
        mode = stat.S_IMODE(token_file.stat().st_mode)
        server.stop(signal.SIGINT)
        stderr = server.errors()
    with serving(*arguments) as again:
        used = httpx2.get(f"{again.url}/login?{server.login.partition('?')[2]}", timeout=PATIENCE_SECONDS)

    assert stranger.status_code == 401
    assert (entered.status_code, inside.status_code) == (200, 200)
    assert mode == 0o600
    assert token_file.read_text() == written
    assert used.status_code == 401
    token = written.split('"')[3]
    assert token not in stderr
    assert str(token_file) in stderr


def test_the_tokens_can_come_from_the_environment(file: Path) -> None:
    variables = {"LONGWATCH_TOKEN": "a-token-of-my-own-1", "LONGWATCH_READ_TOKEN": "a-token-for-reading"}

    with serving(*journal_option(file), "--token", **variables) as server:
        good = httpx2.get(
            f"{server.url}/api/runs",
            headers={"Authorization": "Bearer a-token-for-reading"},
            timeout=PATIENCE_SECONDS,
        )
        bad = httpx2.get(
            f"{server.url}/api/runs",
            headers={"Authorization": "Bearer a-token-of-nobody"},
            timeout=PATIENCE_SECONDS,
        )

    assert (good.status_code, bad.status_code) == (200, 401)


def test_a_weak_token_and_an_open_token_file_are_refused(file: Path, tmp_path: Path) -> None:
    token_file = tmp_path / "tokens.json"
    token_file.write_text('{"write": "0123456789abcdef0123"}')
    token_file.chmod(0o644)

    shared = serve(*journal_option(file), "--port", "0", "--token", "--token-file", str(token_file))
    command = [sys.executable, "-m", "longwatch", "serve", *journal_option(file), "--port", "0", "--token"]
    weak = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "LONGWATCH_TOKEN": "short"},
    )

    assert (shared.returncode, "Other users can read" in shared.stderr) == (2, True)
    assert (weak.returncode, "16 or more" in weak.stderr) == (2, True)
    assert "short" not in weak.stderr


def test_a_killed_and_restarted_server_resumes_a_stream_where_it_was(file: Path) -> None:
    with serving(*journal_option(file)) as server:
        run_id = httpx2.get(f"{server.url}/api/runs", timeout=PATIENCE_SECONDS).json()["runs"][0]["run_id"]
        first = Reader(f"{server.url}/api/stream?topic=run:{run_id}")
        assert first.is_open.wait(PATIENCE_SECONDS)
        server.process.kill()
        seen = first.ended()
    ids = [line.removeprefix("id: ") for line in seen if line.startswith("id: ")]
    middle = ids[3]

    with serving(*journal_option(file)) as server:
        again = Reader(f"{server.url}/api/stream?topic=run:{run_id}", {"Last-Event-ID": middle})
        assert again.is_open.wait(PATIENCE_SECONDS)
        rest = list(again.lines)

    events = [line for line in seen if line.startswith("data: ") and '"event":' in line]
    resumed = [line for line in rest if line.startswith("data: ") and '"event":' in line]
    assert resumed == events[4:]


def test_the_host_header_is_checked_on_a_real_connection(file: Path) -> None:
    with serving(*journal_option(file)) as server:
        response = raw_response(
            server.port, b"GET /api/runs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        upgrade = raw_response(
            server.port,
            b"GET /api/socket HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            seconds=3,
        )

    assert response.startswith(b"HTTP/1.1 403 ")
    assert upgrade.startswith(b"HTTP/1.1 403 ")
