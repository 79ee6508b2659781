"""The browser modules: their own tests on Node's runner, and their types."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.web.node import CORE, POLLING, ROOT, WEB, node, take_core, tool

HERE = Path(__file__).parent
SECONDS = 120


@pytest.fixture(scope="module")
def core_in_package() -> None:
    take_core()


@pytest.mark.parametrize("script", sorted(HERE.glob("*.test.js")), ids=lambda path: path.name)
@pytest.mark.usefixtures("core_in_package")
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


@pytest.mark.parametrize(
    ("folder", "allowed"), [(CORE, "./"), (POLLING, ("./", "../../core/"))], ids=["core", "polling"]
)
def test_the_browser_modules_import_nothing_but_each_other(
    folder: Path, allowed: str | tuple[str, ...]
) -> None:
    imports = [
        target
        for path in folder.glob("*.js")
        for target in re.findall(
            r'^(?:import|export)\b[^;="]*"([^"]+)";', path.read_text(encoding="utf-8"), re.M
        )
    ]

    assert imports
    assert [target for target in imports if not target.startswith(allowed)] == []
