"""The simulation of executions finds bugs, finds none where there is none, and does the same again."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.testing.simulate import play_seeds
from tests.patience import PATIENCE_SECONDS
from tests.simulation.executions import ExecutionSimulation
from tests.simulation.executions.bugs import ExecutionBug
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.simulation import PLAYED_FAULTS
from tests.simulation.simulate_executions import ExecutionSubject

ROOT = Path(__file__).resolve().parents[3]
ENOUGH_SEEDS = 150  # within which each planted bug is found; CI plays many more without one
RARE = {
    ExecutionBug.RECORD_ALONE: range(700, 900)
}  # it takes a poller that dies, and a job that is forgotten


def test_every_promise_is_kept() -> None:
    summary = play_seeds(ExecutionSubject(), range(1_000_000, 1_000_030))

    assert summary.failed is None
    assert summary.seeds == 30


@pytest.mark.parametrize("bug", ExecutionBug)
def test_a_planted_bug_is_found_and_its_seed_is_clean_without_it(bug: ExecutionBug) -> None:
    faults = frozenset({Fault.CLOCKS}) if bug is ExecutionBug.LOCAL_TIME else PLAYED_FAULTS
    found = play_seeds(ExecutionSubject(bug=bug, faults=faults), RARE.get(bug, range(ENOUGH_SEEDS))).failed

    assert found is not None
    ExecutionSimulation(faults=faults).play(found.seed).check()


@pytest.mark.parametrize("fault", sorted({*PLAYED_FAULTS, Fault.CLOCKS}))
def test_every_promise_is_kept_with_each_fault_alone(fault: Fault) -> None:
    summary = play_seeds(ExecutionSubject(faults=frozenset({fault})), range(2_000_000, 2_000_015))

    assert summary.failed is None


def test_the_faults_are_those_that_were_planned() -> None:
    counts = play_seeds(ExecutionSubject(), range(150)).counts

    assert {
        "responses lost",
        "cancelled by its orchestrator",
        "finished without servers",
        "forgotten after its end",
        "job cancelled at its source",
        "job never ends",
        "launched after the grace",
        "launched within the grace",
        "missing for a while",
        "pollers died",
        "polls begun twice",
        "server tried again",
        "another program came in between",
        "throttled",
        "total never stated",
        "clocks that jumped",
        "id of another plan's execution",
        "operator: close",
        "operator: stop",
        "status of another program",
        "unknown action status",
        "unknown job status",
        "unknown launch status",
        "update lost",
        "waves added meanwhile",
    } <= set(counts.faults)
    assert {"succeeded", "partial", "failed", "cancelled"} <= set(counts.endings)
    assert any(word.startswith("open: ") for word in counts.endings)
    assert "open: " not in counts.endings  # one that is open has a reason


def test_log_records_after_the_simulation_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    ExecutionSimulation().play(7)
    silent = caplog.text

    logging.getLogger("longwatch.executions.finder").warning("after the simulation")

    assert (silent, "after the simulation" in caplog.text) == ("", True)


def test_a_seed_replays_byte_for_byte() -> None:
    first, again = (ExecutionSimulation().play(7, trace=True) for _ in range(2))

    assert first.trace == again.trace
    assert first.digest == again.digest


def test_a_seed_is_the_same_in_another_process_with_other_hashes() -> None:
    code = (
        "from tests.simulation.simulate_executions import ExecutionSubject; "
        "print([ExecutionSubject().simulation().play(n).digest for n in range(6)])"
    )

    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert printed == {f"{[ExecutionSubject().simulation().play(n).digest for n in range(6)]}\n"}


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.simulate_executions", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_the_summary_lists_what_was_simulated() -> None:
    done = simulate("--executions", "60", "--start", "5", "--jobs", "2")

    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first.startswith("60 executions in ")
    assert " polls" in second
    assert "what was odd or went wrong:" in rest
    assert "executions in the end:" in rest
    assert done.stderr == ""


def test_a_failing_seed_is_named_and_replays_exactly() -> None:
    found = simulate("--executions", "100", "--jobs", "1", "--bug", "job-decides")
    *_, failure, how = found.stdout.splitlines()
    replay = how.removeprefix("replay it: python -m tests.simulation.simulate_executions ").split()

    first, again = simulate(*replay), simulate(*replay)

    assert found.returncode == first.returncode == again.returncode == 1
    assert first.stdout == again.stdout
    seed, digest = failure.split()[1], failure.split()[4].rstrip(":")
    assert first.stdout.splitlines()[-1].startswith(f"seed {seed}, trace {digest}: ")


def test_a_seed_that_keeps_every_promise_is_replayed_with_its_trace() -> None:
    done = simulate("--seed", "3")

    assert done.returncode == 0
    assert done.stdout.endswith(": every promise was kept\n")


def test_an_unknown_bug_is_a_usage_error() -> None:
    assert simulate("--bug", "gremlins").returncode == 2
