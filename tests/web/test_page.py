"""The page's own modules: their types, and that they are what a browser can load without a build."""

from __future__ import annotations

import re
import subprocess

from tests.web.node import CORE, WEB, tool

SECONDS = 120
APP = CORE.parent / "app"


def test_the_types_of_the_page_hold() -> None:
    done = subprocess.run(
        [*tool("tsc"), "--project", "tsconfig.viewer.json"],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stdout


def test_the_page_imports_nothing_but_its_own_files_and_the_core() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in APP.glob("*.js")}

    found = [
        (path, target)
        for path, text in sources.items()
        for target in re.findall(r'^import\b[^;]*"([^"]+)";', text, re.M)
    ]

    assert found
    assert [target for path, target in found if not (path.parent / target).resolve().is_file()] == []


def test_nothing_in_the_page_makes_markup_or_code_out_of_text() -> None:
    unsafe = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|"
        r"createContextualFragment"
    )

    assert [
        path.name
        for path in (*APP.glob("*.js"), *CORE.glob("*.js"))
        if unsafe.search(path.read_text(encoding="utf-8"))
    ] == []
