"""The installed command without extras: each command works, or names what is missing and how to get it.

The modules of the extras are hidden from the command, which runs offline and needs no other environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.server.live.servers import server_process
from tests.patience import PATIENCE_SECONDS

HIDDEN = (
    "anyio",
    "boto3",
    "botocore",
    "fastapi",
    "graphql",
    "httptools",
    "httpx2",
    "opentelemetry",
    "prometheus_client",
    "pycrdt",
    "pycrdt_websocket",
    "pydantic",
    "starlette",
    "strawberry",
    "uvicorn",
    "uvloop",
    "websockets",
)

# Runs the command with finders that do not find the hidden modules.
PROGRAM = """
import sys
hidden = set(sys.argv.pop(1).split(","))
class Hiding:
    def __init__(self, finder): self._finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else self._finder.find_spec(name, path, target)
    def __getattr__(self, name): return getattr(self._finder, name)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
from longwatch.cli.main import main
main()
"""


def longwatch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(HIDDEN), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_the_hidden_modules_are_those_that_the_base_install_lacks() -> None:
    found = longwatch("doctor", "-o", "json")

    report = json.loads(found.stdout)
    assert report["ok"], found.stdout
    extras = {fact["name"]: fact["value"] for fact in report["parts"]["documents"]["facts"]}
    assert extras["extra"] == "not installed"


def test_the_demo_plays_without_its_page_and_names_the_missing_extra() -> None:
    done = longwatch("demo", "--once")

    assert done.returncode == 0, done.stderr
    assert "The page needs the 'server' extra. Install it" in done.stderr
    assert "in a checkout of longwatch: pip install '.[server]'" in done.stderr
    assert "succeeded" in done.stdout


@pytest.mark.parametrize(
    ("words", "install"),
    [
        (("serve",), "pip install '.[server]'"),
        (("runs", "--journal", "dynamodb://events?region=eu-west-1"), "pip install '.[aws]'"),
        (
            ("executions", "list", "--journal", "dynamodb://events?region=eu-west-1"),
            "pip install '.[aws]'",
        ),
    ],
)
def test_a_command_that_needs_an_extra_names_the_install_command(
    words: tuple[str, ...], install: str
) -> None:
    done = longwatch(*words)

    assert done.returncode == 2
    assert install in done.stderr
    assert "Traceback" not in done.stderr


# Repeats its prompt, then reports success as a coding agent does.
AGENT = ("sh", "-c", """cat; echo; echo '{"type":"result","subtype":"success","result":"done"}'""")


def test_a_turn_is_executed_for_a_server_elsewhere_without_any_extra(tmp_path: Path) -> None:
    with server_process(tmp_path / "server.db") as server:
        done = longwatch("turn", "--server", server.url, "--session", "s", "--prompt", "hello", "--", *AGENT)

    assert done.returncode == 0, done.stderr
    assert "  hello\n" in done.stdout


def test_a_turn_and_an_export_as_a_page_need_no_extra(tmp_path: Path) -> None:
    turn = longwatch("turn", "--session", "s", "--prompt", "hello", "--", *AGENT)
    page = longwatch("export", "latest", "--html", "-o", str(tmp_path / "page.html"))

    assert (turn.returncode, page.returncode) == (0, 0), turn.stderr + page.stderr
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_output_needs_no_extra() -> None:
    add = ("executions", "add", "--plan", "shop", "--id", "x-1", "--total-waves", "1")
    commands = {
        "recording": longwatch("run", "-q", "--run-id", "wf-1", "--", "true"),
        "adding": longwatch(*add),
        "runs": longwatch("runs", "-o", "json"),
        "a run": longwatch("show", "wf-1", "-o", "json"),
        "a verification": longwatch("verify", "wf-1", "-o", "json"),
        "an execution": longwatch("executions", "show", "x-1", "-o", "json"),
    }

    assert {name: done.stderr for name, done in commands.items() if done.returncode} == {}
    assert {run["run_id"] for run in json.loads(commands["runs"].stdout)} == {"shop/x-1", "wf-1"}
    assert json.loads(commands["a run"].stdout)["status"] == "succeeded"
    assert json.loads(commands["a verification"].stdout)["answer"] == "complete"
    assert json.loads(commands["an execution"].stdout)["execution_id"] == "x-1"
