"""The page of the demo: `longwatch serve` in a process of its own, on a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from longwatch.cli.demo.model import write_settings
from longwatch.cli.render.terminal import remark
from longwatch.settings import Settings

STOP_SECONDS = 5.0

_ADDRESS = re.compile(r"http://\S+")


def page_is_possible() -> bool:
    """Whether the server's extra is installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "uvicorn", "pycrdt"))


class ServedPage:
    """A context in which the demo's journal is served. `url` is empty if the server did not start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="longwatch-demo-")
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, "serve", "--port", "0", "--log-level", "error"]
        self._process = subprocess.Popen(
            [*command, "--journal", self._settings.journal],
            stdin=subprocess.PIPE,  # closed with the demo, even by SIGKILL, which ends the server
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                "LONGWATCH_DOCUMENTS": self._settings.journal,
                "LONGWATCH_CONFIG": str(write_settings(Path(self._folder.name))),
            },
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then ends the server
        )
        self.url = self._read_url()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._folder.cleanup()
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def wait(self) -> None:
        """Wait until Ctrl-C or until the server exits."""
        if self._process is not None:
            self._process.wait()

    def _read_url(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        output: list[str] = []
        for line in self._process.stdout:
            output.append(line.strip())
            found = _ADDRESS.search(line)
            if line.startswith("Serving ") and found is not None:
                return found[0]
        remark(f"Playing without the page: the server did not start. {' '.join(output)}")
        return ""


def _serve() -> None:
    """Run `longwatch serve` until the demo, which holds the other end of stdin, is gone."""
    from longwatch.cli.main import main

    threading.Thread(target=_end_with_demo, daemon=True).start()
    main()


def _end_with_demo() -> None:
    os.read(0, 1)  # not through `sys.stdin`, whose lock a daemon thread must not hold at exit
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _serve()
