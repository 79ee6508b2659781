"""`longwatch run -- python agent.py` with a program that does not know longwatch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longwatch.testing import ModelReply, ModelServer
from tests.patience import PATIENCE_SECONDS

LONGWATCH = str(Path(sys.executable).with_name("longwatch"))

AGENT = """
import os, sys
import openai

client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="test")
answer = client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Hello?"}])
print(answer.choices[0].message.content, os.environ.get("PYTHONPATH"))
"""
IN_A_WORKER = """
import multiprocessing, runpy

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=runpy.run_path, args=("agent.py",))
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(respond=lambda _: ModelReply("good day")) as server:
        yield server


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: ModelServer) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("LONGWATCH_JOURNAL", f"sqlite:///{tmp_path}/journal.db")
    monkeypatch.setenv("MODEL_URL", f"{server.url}/v1")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "worker.py").write_text(IN_A_WORKER)


def longwatch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LONGWATCH, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def model_calls() -> list[dict[str, Any]]:
    events = [json.loads(line) for line in longwatch("export", "wf-1").stdout.splitlines()]
    return [event for event in events if event["type"] == "model_call"]


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "agent.py"],
        ["sh", "-c", f"{sys.executable} agent.py"],
        [sys.executable, "-m", "agent"],
        [sys.executable, "worker.py"],
    ],
    ids=["python", "shell", "module", "multiprocessing"],
)
def test_an_unmodified_program_is_recorded_and_sees_its_own_environment(command: list[str]) -> None:
    result = longwatch("run", "--run-id", "wf-1", "--", *command)

    assert (result.returncode, result.stdout) == (0, "good day None\n"), result.stderr
    start, end = model_calls()
    assert start["call_id"] == end["call_id"]
    assert (end["payload"]["status"], end["payload"]["input_tokens"]) == ("completed", 10)


@pytest.mark.parametrize("names", ["none", "anthropic"])
def test_the_setting_selects_what_is_recorded(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_ATTACH", names)

    result = longwatch("run", "--run-id", "wf-1", "--", sys.executable, "agent.py")

    assert (result.returncode, result.stdout) == (0, "good day None\n")
    assert model_calls() == []


@pytest.mark.parametrize(("names", "calls"), [("all", [1]), ("none", [])])
def test_what_a_turn_s_command_calls_is_a_run_below_the_turn(
    names: str, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_ATTACH", names)

    longwatch("turn", "--quiet", "--", sys.executable, "agent.py")

    runs = json.loads(longwatch("runs", "-o", "json").stdout)
    [turn] = [run["run_id"] for run in runs if run["kind"] == "turn"]
    below = [run for run in runs if run["parent_run_id"] == turn]
    assert [run["usage"]["model_calls"] for run in below] == calls


def test_an_untested_version_is_left_alone_with_one_warning(tmp_path: Path) -> None:
    """The version is that of the distribution that is found first."""
    information = tmp_path / "openai-99.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: openai\nVersion: 99.0\n")

    result = longwatch("run", "--run-id", "wf-1", "--", sys.executable, "agent.py")

    assert (result.returncode, result.stdout) == (0, "good day None\n")
    assert result.stderr.count("longwatch: openai 99.0 is not recorded, because the tested versions are") == 1
    assert model_calls() == []
