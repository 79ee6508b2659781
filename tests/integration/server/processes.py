"""`longwatch serve` as people start it: a process of its own on a free port of this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_SECONDS


@dataclass(slots=True)
class ServeProcess:
    """A server that runs."""

    process: subprocess.Popen[str]
    url: str  # without a slash at the end
    port: int
    login: str | None = None  # the address that logs in once

    def stop(self, with_signal: int = signal.SIGTERM) -> tuple[int, float]:
        """Its exit code, and how many seconds it took to end."""
        began = time.monotonic()
        self.process.send_signal(with_signal)
        code = self.process.wait(PATIENCE_SECONDS)
        return code, time.monotonic() - began

    def errors(self) -> str:
        """What it wrote on standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[ServeProcess]:
    """Start a server, wait until it prints its URL, and end it after the block."""
    command = [sys.executable, "-m", "longwatch", "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
    ) as process:
        try:
            yield _started(process, wants_login="--token" in arguments or "--host" in arguments)
        finally:
            process.kill()


def _started(process: subprocess.Popen[str], *, wants_login: bool) -> ServeProcess:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r" at (http://\S+?:(\d+))/$", line.strip())
    if found is None:
        process.kill()
        assert process.stderr is not None
        raise AssertionError(f"the server did not start: {line} {process.stderr.read()}")
    login = None
    if wants_login:
        login = process.stdout.readline().strip().rpartition(" ")[2]
    return ServeProcess(process, found[1], int(found[2]), login)


def journal_option(file: Path) -> tuple[str, str]:
    return ("--journal", f"sqlite:///{file}")


def raw_response(port: int, request: bytes, *, then: bytes = b"", seconds: float = 10.0) -> bytes:
    """The server's response to these very bytes, until it closes the connection or is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(request)
            if then:
                connection.sendall(then)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has had enough already
        response = b""
        try:
            while piece := connection.recv(65536):
                response += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return response
