"""The React package: its hooks against a real server, its types, and that it can be installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.web.node import CORE, POLLING, ROOT, WEB, node, take_core, tool

REACT = WEB / "react"
SECONDS = 300
PEERS = ("react", "@tanstack/react-query", "@tanstack/query-core", "yjs", "lib0", "isomorphic.js")


def test_the_hooks_work_against_a_running_server() -> None:
    command = Path(sys.executable).with_name("longwatch")

    done = subprocess.run(
        [*tool("vitest"), "run", "--root", "react"],
        cwd=WEB,
        env={**os.environ, "LONGWATCH_COMMAND": str(command), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("project", ["tsconfig.react.json", "tsconfig.apps.json"])
def test_the_types_of_the_hooks_and_of_the_example_hold(project: str) -> None:
    take_core()

    done = subprocess.run(
        [*tool("tsc"), "--project", project],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stdout


def test_the_package_holds_the_core_and_loads_without_a_build(tmp_path: Path) -> None:
    if (npm := shutil.which("npm")) is None:
        pytest.skip("there is no `npm` here; it packs the React package")
    tool("tsc")  # the peers are there
    packed = subprocess.run(
        [npm, "pack", "--silent", "--pack-destination", str(tmp_path)],
        cwd=REACT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert packed.returncode == 0, packed.stdout + packed.stderr
    (archive,) = tmp_path.glob("*.tgz")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(tmp_path)], check=True)
    modules = tmp_path / "node_modules"
    (modules / "@longwatch").mkdir(parents=True)
    (tmp_path / "package").rename(modules / "@longwatch" / "react")
    for name in PEERS:
        (modules / name).parent.mkdir(exist_ok=True)
        (modules / name).symlink_to(WEB / "node_modules" / name)

    done = subprocess.run(
        [
            node(),
            "--input-type=module",
            "-e",
            "console.log(Object.keys(await import('@longwatch/react')).join())",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    package = modules / "@longwatch" / "react"
    assert module_names(package / "core") == module_names(CORE)
    assert module_names(package / "src" / "polling") == module_names(POLLING)
    assert "useSessionPolling" in done.stdout.strip().split(","), done.stderr


def module_names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.js")}


def test_installing_the_package_runs_no_script() -> None:
    scripts = json.loads((REACT / "package.json").read_text(encoding="utf-8"))["scripts"]

    # npm warns about every package that has one of these, or wants it approved.
    assert scripts.keys().isdisjoint({"prepare", "preinstall", "install", "postinstall"})


def test_the_core_is_in_the_tree_once() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "web"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout, so the files of the tree cannot be listed")

    assert [name for name in listed.stdout.splitlines() if name.startswith("web/react/core/")] == []
