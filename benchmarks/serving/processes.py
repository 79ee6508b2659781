"""Servers and writers in processes of their own, and what they cost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 30.0
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True)
class Running:
    """A running server."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory_bytes(self) -> int:
        """What it holds in memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """A free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def running(arguments: Sequence[str], port: int) -> Iterator[Running]:
    """The process, once it listens; ended at the end."""
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _until_listening(process, port)
            yield Running(process.pid, port)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def peer(name: str) -> Iterator[Running]:
    """One of `peers.py`."""
    port = free_port()
    with running(["-m", "benchmarks.serving.peers", name, str(port)], port) as server:
        yield server


@contextmanager
def longwatch(journal: Path) -> Iterator[Running]:
    """`longwatch serve` on this file."""
    port = free_port()
    arguments = ["-m", "longwatch", "serve", "--port", str(port), "--journal", f"sqlite:///{journal}"]
    with running(arguments, port) as server:
        yield server


def _until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen at port {port}")
