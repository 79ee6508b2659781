"""The page beside the demo: `longwatch serve` in a process of its own, at any port that is free."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from longwatch.cli.render.terminal import remark
from longwatch.errors import MissingExtra
from longwatch.settings import Settings

STOP_SECONDS = 5.0

_ADDRESS = re.compile(r"http://\S+")


def page_is_possible() -> bool:
    """Whether the server's extra is installed."""
    return all(find_spec(name) is not None for name in ("fastapi", "uvicorn", "pycrdt"))


def say_what_is_missing() -> None:
    """Name the install line, and go on without the page."""
    remark(f"Without the page: {MissingExtra('The page', 'server')}")


class ServedPage:
    """The server of the demo's journal, until the end of the block. `url` is empty if it did not start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, "serve", "--port", "0", "--log-level", "error"]
        self._process = subprocess.Popen(
            [*command, "--journal", self._settings.journal],
            stdin=subprocess.PIPE,  # the server ends when it is closed, however the demo ended
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1", "LONGWATCH_DOCUMENTS": self._settings.journal},
            start_new_session=True,  # Ctrl-C is for the demo, which then ends the server
        )
        self.url = self._address()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
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
        """Until somebody presses Ctrl-C, or the server ends by itself."""
        if self._process is not None:
            self._process.wait()

    def _address(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        told: list[str] = []
        for line in self._process.stdout:
            told.append(line.strip())
            found = _ADDRESS.search(line)
            if line.startswith("Serving ") and found is not None:
                return found[0]
        remark(f"Without the page: the server did not start. {' '.join(told)}")
        return ""


def _serve() -> None:
    """Run `longwatch serve` for as long as the demo, which holds the other end of stdin, exists."""
    from longwatch.cli.main import main

    threading.Thread(target=_end_with_demo, daemon=True).start()
    main()


def _end_with_demo() -> None:
    os.read(0, 1)  # not through `sys.stdin`, whose lock a daemon thread must not hold at exit
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _serve()
