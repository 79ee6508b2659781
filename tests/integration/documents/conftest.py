"""A process with the real Yjs, and stores to exchange updates with."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
WEB = ROOT / "web"


class Yjs:
    """Documents of npm's yjs in a process of Node."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def request(self, doc: str, action: str, **given: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"doc": doc, "action": action, **given}) + "\n")
        self._process.stdin.flush()
        response = json.loads(self._process.stdout.readline())
        assert "error" not in response, response["error"]
        return response["answer"]

    def apply(self, doc: str, update: bytes) -> None:
        self.request(doc, "apply", update=base64.b64encode(update).decode())

    def update(self, doc: str, state: bytes | None = None) -> bytes:
        return base64.b64decode(
            self.request(doc, "update", state=base64.b64encode(state).decode() if state else None)
        )

    def state(self, doc: str) -> bytes:
        return base64.b64decode(self.request(doc, "state"))

    def text(self, doc: str) -> str:
        return str(self.request(doc, "text"))

    def bytes_of(self, doc: str) -> bytes:
        return base64.b64decode(self.request(doc, "bytes"))


@pytest.fixture(scope="session")
def yjs() -> Iterator[Yjs]:
    """The same process for all tests: give documents names of their own."""
    if shutil.which("node") is None:
        pytest.skip(
            "the real Yjs needs Node and there is no `node` here (Debian: apt-get install nodejs npm)"
        )
    if not (WEB / "node_modules" / "yjs" / "package.json").exists():
        pytest.skip("Yjs is not installed; run `make web`, which needs npm")
    script = Path(__file__).with_name("yjs_client.mjs")
    with subprocess.Popen(
        ["node", str(script), str(WEB / "package.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        yield Yjs(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE_SECONDS)
