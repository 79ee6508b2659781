"""The codes that the reference lists for a command are those with which it exits."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longwatch.cli.main import run
from longwatch.journal.codec import to_line
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.recording.outbox import Outbox
from tests.docs.pages import page
from tests.patience import PATIENCE_SECONDS

RECORDS = (
    "import longwatch\nwith longwatch.run('notes', run_id='wf-notes'):\n    longwatch.record('note', n=1)\n"
)
IS_KILLED = (
    "import os, signal, longwatch\n"
    "with longwatch.run('killed', run_id='wf-notes'):\n"
    "    longwatch.flush()\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
)


def _event(event_id: str, type_: str = "note", /, **payload: object) -> Event:
    return Event(run_id="wf-notes", event_id=event_id, type=type_, occurred_at=1_000, payload=payload)


class Scene:
    """A journal, an outbox and a data directory of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "events.db"
        self.url = f"sqlite:///{self.file}"

    def program(self, text: str, *, ends_with: int = 0) -> None:
        done = subprocess.run([sys.executable, "-c", text], timeout=PATIENCE_SECONDS)
        assert done.returncode == ends_with

    def append(self, *events: Event) -> None:
        with SqliteJournal(self.file) as journal:
            journal.append(list(events))

    def put_into_outbox(self, url: str, *events: Event) -> None:
        outbox = Outbox(self.folder / "outbox.db")
        outbox.put(url, list(events))
        outbox.close()

    def sql(self, statement: str) -> None:
        import sqlite3

        connection = sqlite3.connect(self.file, isolation_level=None)
        connection.execute(statement)
        connection.close()

    def lines(self, *lines: str) -> str:
        path = self.folder / "events.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path))
    monkeypatch.setenv("LONGWATCH_JOURNAL", scene.url)
    return scene


def _verify_whole(scene: Scene) -> int:
    scene.program(RECORDS)
    return run(["verify", "latest"])


def _verify_altered(scene: Scene) -> int:
    scene.program(RECORDS)
    scene.sql("UPDATE events SET payload = '{\"n\":2}' WHERE number = 2")
    return run(["verify", "latest"])


def _doctor_with_waiting_events(scene: Scene) -> int:
    scene.append(_event("e-1"))
    scene.put_into_outbox(scene.url, _event("e-2"))
    return run(["doctor"])


def _doctor_of_damage(scene: Scene) -> int:
    scene.append(_event("e-1"))
    scene.sql("UPDATE events SET payload = 'not JSON'")
    return run(["doctor", "--full"])


def _import_whole(scene: Scene) -> int:
    return run(["import", scene.lines(to_line(_event("e-1")))])


def _import_the_good(scene: Scene) -> int:
    return run(["import", "--keep-going", scene.lines(to_line(_event("e-1")), "{}")])


def _import_bad(scene: Scene) -> int:
    return run(["import", scene.lines(to_line(_event("e-1")), "{}")])


def _ship_all(scene: Scene) -> int:
    scene.append(_event("e-1"))
    scene.put_into_outbox(scene.url, _event("e-2"))
    return run(["ship", "--once"])


def _ship_refused(scene: Scene) -> int:
    scene.append(_event("e-1", n=1))
    scene.put_into_outbox(scene.url, _event("e-1", n=2))
    return run(["ship", "--once"])


def _ship_nowhere(scene: Scene) -> int:
    (scene.folder / "shelf").touch()
    scene.put_into_outbox(f"sqlite:///{scene.folder}/shelf/events.db", _event("e-1"))
    return run(["ship", "--once"])


def _recover_all(scene: Scene) -> int:
    scene.append(_event("e-1"))
    return run(["recover", str(scene.file), "--to", str(scene.folder / "new.db")])


def _recover_some(scene: Scene) -> int:
    scene.append(_event("e-1"), _event("e-2"))
    scene.sql("UPDATE events SET payload = 'not JSON' WHERE event_id = 'e-1'")
    return run(["recover", str(scene.file), "--to", str(scene.folder / "new.db")])


def _recover_nothing(scene: Scene) -> int:
    scene.file.write_text("a text", encoding="utf-8")
    return run(["recover", str(scene.file), "--to", str(scene.folder / "new.db")])


def _watch_success(scene: Scene) -> int:
    scene.program(RECORDS)
    return run(["watch", "latest"])


def _watch_failure(scene: Scene) -> int:
    scene.append(_event("e-1", "workflow_start"), _event("e-2", "workflow_error", status="failed"))
    return run(["watch", "wf-notes"])


def _watch_nothing(scene: Scene) -> int:
    scene.append(_event("e-1"))
    return run(["watch", "wf-other"])


def _watch_silence(scene: Scene) -> int:
    scene.append(_event("e-1", "workflow_start"))
    return run(["watch", "wf-notes", "--silent-after", "100ms"])


def _watch_for_no_time(scene: Scene) -> int:
    scene.append(_event("e-1", "workflow_start"))
    return run(["watch", "wf-notes", "--timeout", "0s"])


def _watch_death(scene: Scene) -> int:
    scene.program(IS_KILLED, ends_with=-signal.SIGKILL)
    return run(["watch", "wf-notes"])


def _poll_one_that(status: str) -> Callable[[Scene], int]:
    def poll(scene: Scene) -> int:
        with _endpoint(status) as url:
            assert run(["executions", "add", "--plan", "p", "--source", "http", "--wave", f"w={url}"]) == 0
            return run(["executions", "watch", "--once"])

    return poll


@contextmanager
def _endpoint(status: str) -> Iterator[str]:
    class Job(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"status": status}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Job)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/job"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


CASES: dict[tuple[str, int], Callable[[Scene], int]] = {
    ("verify", 0): _verify_whole,
    ("verify", 1): _verify_altered,
    ("doctor", 0): _doctor_with_waiting_events,
    ("doctor", 1): _doctor_of_damage,
    ("import", 0): _import_whole,
    ("import", 1): _import_the_good,
    ("import", 2): _import_bad,
    ("ship", 0): _ship_all,
    ("ship", 1): _ship_refused,
    ("ship", 3): _ship_nowhere,
    ("recover", 0): _recover_all,
    ("recover", 1): _recover_some,
    ("recover", 2): _recover_nothing,
    ("watch", 0): _watch_success,
    ("watch", 1): _watch_failure,
    ("watch", 2): _watch_nothing,
    ("watch", 3): _watch_silence,
    ("watch", 4): _watch_for_no_time,
    ("watch", 5): _watch_death,
    ("executions watch", 0): _poll_one_that("succeeded"),
    ("executions watch", 1): _poll_one_that("failed"),
    ("executions watch", 4): _poll_one_that("running"),
}


def test_every_code_of_a_command_in_the_reference_is_tried() -> None:
    rows = re.findall(r"^\| `([a-z ]+)` \| (\d+) \|", page("reference/exit-codes.md").text, re.MULTILINE)

    assert [(command, int(code)) for command, code in rows] == list(CASES)


@pytest.mark.parametrize(("command", "code"), CASES)
def test_a_command_exits_with_the_code_that_the_reference_lists(
    scene: Scene, command: str, code: int
) -> None:
    assert CASES[command, code](scene) == code
