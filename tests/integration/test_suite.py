"""The suite itself: signals reach what a test starts, a test that hangs is named, no process is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADED_SECONDS = 240  # for a run of pytest on a loaded machine

QUICK = """
from tests import processes
processes.GRACE_SECONDS = 0.2
"""
CASES = """
import pathlib, signal, subprocess, sys, threading
import pytest

HERE = pathlib.Path(__file__).parent
KEPT = []
WAITS = "import time; print('up', flush=True); time.sleep(600)"

def test_a_child_can_be_interrupted():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", WAITS], **pipes) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait() == -signal.SIGINT

def test_a_child_can_be_hung_up():
    with subprocess.Popen(["sleep", "600"]) as child:
        child.send_signal(signal.SIGHUP)
        assert child.wait() == -signal.SIGHUP

@pytest.mark.timeout(1)
def test_that_hangs():
    threading.Thread(target=the_other_thread, daemon=True).start()
    threading.Event().wait()

def the_other_thread():
    threading.Event().wait()

@pytest.mark.timeout(1)
async def test_that_hangs_in_a_loop():
    import asyncio
    await asyncio.Event().wait()

def test_that_leaves_processes():
    # One in a session of its own, whose parent has ended, and one that is a child of the test.
    with subprocess.Popen(["sh", "-c", f"setsid sleep 600 & echo $! > {HERE}/orphan"]) as parent:
        parent.wait()
    KEPT.append(subprocess.Popen(["sleep", "600"]))
    (HERE / "child").write_text(str(KEPT[0].pid))

@pytest.fixture(scope="session")
def engine():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()

def test_that_starts_what_others_share(request):
    request.getfixturevalue("engine")

def test_that_shares_it(engine):
    assert engine.poll() is None
"""
DYING = """
import os, pathlib, signal, subprocess, threading

def test_that_can_not_be_interrupted():
    started = subprocess.Popen(["sleep", "600"])
    (pathlib.Path(__file__).parent / "child").write_text(str(started.pid))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    threading.Event().wait()

def test_that_comes_after(): pass
"""


@dataclass(frozen=True)
class Outcome:
    output: str
    folder: Path

    def still_runs(self, name: str) -> bool:
        return Path("/proc", (self.folder / name).read_text().strip()).exists()


def run(folder: Path, cases: str, *options: str) -> Outcome:
    """Run these cases with the settings of the project, as the background job of a script: without SIGINT."""
    (folder / "conftest.py").write_text(QUICK)
    (folder / "test_cases.py").write_text(cases)
    in_the_background = ["sh", "-c", "trap '' INT HUP QUIT; exec \"$@\"", "sh"]
    pytest_ = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    # Where CI is set, pytest repeats the whole text of an error in its summary.
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "CI")}
    done = subprocess.run(
        [
            *in_the_background,
            *pytest_,
            "-p",
            "no:cacheprovider",
            f"--rootdir={folder}",
            *options,
            str(folder),
        ],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=LOADED_SECONDS,
    )
    return Outcome(done.stdout + done.stderr, folder)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(tmp_path_factory.mktemp("suite"), CASES)


def test_signals_that_the_starter_ignores_reach_the_children_of_a_test(outcome: Outcome) -> None:
    assert "test_a_child_can_be_interrupted" not in outcome.output
    assert "test_a_child_can_be_hung_up" not in outcome.output
    assert "2 failed, 5 passed, 1 error" in outcome.output


@pytest.mark.parametrize("name", ["test_that_hangs", "test_that_hangs_in_a_loop"])
def test_a_test_that_hangs_fails_by_name(outcome: Outcome, name: str) -> None:
    assert f"FAILED test_cases.py::{name} - Failed: Timeout (>1.0s)" in outcome.output


def test_the_stacks_of_a_test_that_hangs_are_printed(outcome: Outcome) -> None:
    assert "in the_other_thread" in outcome.output


def test_processes_that_a_test_leaves_are_ended_and_reported(outcome: Outcome) -> None:
    assert "ERROR test_cases.py::test_that_leaves_processes" in outcome.output
    assert outcome.output.count(": sleep 600\n") == 2
    assert not outcome.still_runs("orphan")
    assert not outcome.still_runs("child")


def test_processes_that_a_fixture_shares_are_left_running(outcome: Outcome) -> None:
    assert "test_that_starts_what_others_share" not in outcome.output
    assert "test_that_shares_it" not in outcome.output


def test_a_worker_that_can_not_be_interrupted_is_named_and_replaced(tmp_path: Path) -> None:
    how = re.findall(r"--dist \w+", (ROOT / "Makefile").read_text())[0].split()  # with loadscope xdist hangs

    outcome = run(tmp_path, DYING, "-n4", *how, "-o", "timeout=4", "-o", "faulthandler_timeout=5")

    assert "crashed while running 'test_cases.py::test_that_can_not_be_interrupted'" in outcome.output
    assert "1 failed, 1 passed" in outcome.output
    assert "ended what a worker left running" in outcome.output
    assert not outcome.still_runs("child")
