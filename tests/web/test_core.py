"""The browser modules: their own tests on Node's runner, and their types."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.web.node import CORE, ROOT, WEB, node, tool

HERE = Path(__file__).parent
SECONDS = 120


@pytest.mark.parametrize("script", sorted(HERE.glob("*.test.js")), ids=lambda path: path.name)
def test_the_browser_modules_pass_their_own_tests(script: Path) -> None:
    done = subprocess.run(
        [node(), "--test", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_of_the_browser_modules_hold() -> None:
    done = subprocess.run(
        [*tool("tsc"), "--project", "tsconfig.core.json"],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stdout


def test_the_browser_modules_import_nothing_but_each_other() -> None:
    imports = [
        line
        for path in CORE.glob("*.js")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("import ", "export ")) and " from " in line
    ]

    assert imports
    assert [line for line in imports if ' from "./' not in line] == []
