"""A real server in a process of its own, which can be killed and started again at the same address."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ADDRESS = re.compile(rb" at (http://127\.0\.0\.1:(\d+))/")


class ServerProcess:
    """`longwatch serve` on a SQLite file."""

    def __init__(self, file: Path, *, port: int = 0, token: str | None = None) -> None:
        self.file = file
        self.port = port
        self.token = token
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it listens."""
        command = [sys.executable, "-m", "longwatch", "serve", "--port", str(self.port)]
        command += ["--journal", f"sqlite:///{self.file}"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self.token is not None:
            command.append("--token")
            environment["LONGWATCH_TOKEN"] = self.token
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdout is not None
        output, until = b"", time.monotonic() + PATIENCE_SECONDS
        while (found := ADDRESS.search(output)) is None:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            assert more, f"the server did not print its URL; its output: {output!r}"
            output += more
        self.port = int(found[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """End it with a signal; returns how many seconds that took."""
        process, self._process = self._process, None
        if process is None:
            return 0.0
        began = time.monotonic()
        process.send_signal(how)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        took = time.monotonic() - began
        assert process.stdout is not None
        process.stdout.close()
        return took

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        self.stop(signal.SIGKILL)


@contextmanager
def server_process(file: Path, *, token: str | None = None) -> Iterator[ServerProcess]:
    """A server that runs until the block is left; with a token, it requires that."""
    server = ServerProcess(file, token=token)
    server.start()
    try:
        yield server
    finally:
        server.kill()
