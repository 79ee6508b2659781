"""The server as people run it: a process of its own, which can be killed and started again."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.patience import PATIENCE_SECONDS

_ADDRESS = re.compile(r"http://[\w.:\[\]-]+/")


class Served:
    """`longwatch serve` over a SQLite file."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.options = options
        self.url = ""
        self.output = ""
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, at the same port as before if there was one, and wait until it listens."""
        command = [sys.executable, "-m", "longwatch", "serve", "--port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--journal", f"sqlite:///{self.path}", *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LONGWATCH_DATA": str(self.path.parent), "PYTHONUNBUFFERED": "1"},
        )
        self.output = ""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        while "Ctrl-C" not in self.output:
            ready, _, _ = select.select([output], [], [], PATIENCE_SECONDS)
            read = os.read(output, 65_536) if ready else b""
            if not read:
                self.kill()
                raise AssertionError(f"the server did not start: {self.output}")
            self.output += read.decode()
        found = _ADDRESS.search(self.output)
        assert found is not None, self.output
        self.url = found[0].rstrip("/")
        self._port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """As a machine that loses power would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def freeze(self) -> None:
        """Accept connections and respond to none, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Respond again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Any:
        """Call the API; bytes go as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method)
        request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error

    def post_events(self, run_id: str, *events: dict[str, Any]) -> None:
        self.call("POST", f"/api/runs/{quote(run_id, safe='')}/events", {"events": list(events)})

    def put_file(self, project: str, path: str, text: str) -> None:
        self.call("PUT", f"/api/projects/{project}/content/{path}", text.encode(), kind="text/plain")
