"""Node for the tests of the browser modules, where there is one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
CORE = ROOT / "src" / "longwatch" / "server" / "page" / "viewer" / "core"
POLLING = WEB / "react" / "src" / "polling"
OLDEST_NODE = 20


def node() -> str:
    """The command `node`, or a skip that names what to install."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no `node` here; install Node 20 or newer to test the browser modules")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(
            f"node is {version.strip()}; the tests of the browser modules want {OLDEST_NODE} or newer"
        )
    return found


def tool(name: str) -> list[str]:
    """A command of web/node_modules, or a skip that names the install command."""
    script = WEB / "node_modules" / ".bin" / name
    if not script.exists():
        pytest.skip(f"`{name}` is not installed; run `make web`, which needs npm")
    return [node(), str(script.resolve())]


def take_core() -> None:
    """Copy the core into the React package, whose modules import it from there."""
    subprocess.run([node(), "react/scripts/take-core.js"], cwd=WEB, check=True, timeout=PATIENCE_SECONDS)


class NodeLines:
    """A script that responds to each line of JSON with another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def request(self, question: Any) -> Any:
        """Send one line and wait for the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        assert response, "the script ended"
        return json.loads(response)


@contextmanager
def running(script: Path) -> Iterator[NodeLines]:
    """Run a script for as long as the block lasts."""
    with subprocess.Popen(
        [node(), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield NodeLines(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=PATIENCE_SECONDS)
