"""`python -m longwatch.testing.simulate`, as one types it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]  # for the planted bugs
OWN = """
from longwatch.testing import Simulation


class Grumbles:
    def __init__(self, run_id):
        self.cursor = ""

    def take(self, item):
        self.cursor = item.cursor

    def crash(self):
        return self.cursor

    def check(self, events):
        assert not events, "too many events"


simulation = Simulation(consumer=Grumbles)
number = 1
"""


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longwatch.testing.simulate", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_the_summary_lists_what_was_simulated() -> None:
    done = simulate("--seeds", "12", "--start", "5", "--jobs", "2")

    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first.startswith("12 seeds in ")
    assert " events, " in second
    assert "faults:" in rest
    assert "watches ended:" in rest
    assert done.stderr == ""


def test_a_failing_seed_is_named_and_replays_exactly() -> None:
    found = simulate("tests.simulation.bugs:no_drain", "--seeds", "40", "--jobs", "1")
    *_, failure, how = found.stdout.splitlines()
    replay = how.removeprefix("replay it: python -m longwatch.testing.simulate ").split()

    first, again = simulate(*replay), simulate(*replay)

    assert found.returncode == first.returncode == again.returncode == 1
    assert first.stdout == again.stdout
    seed, digest = failure.split()[1], failure.split()[4].rstrip(":")
    assert first.stdout.splitlines()[-1].startswith(f"seed {seed}, trace {digest}: ")
    assert len(first.stdout.splitlines()) > 20


def test_a_seed_that_keeps_every_promise_is_replayed_with_its_trace() -> None:
    done = simulate("--seed", "3")

    assert done.returncode == 0
    assert done.stdout.endswith(": every promise was kept\n")


def test_a_custom_simulation_is_found_in_the_working_directory() -> None:
    Path("mine.py").write_text(OWN, encoding="utf-8")

    done = simulate("mine:simulation", "--seeds", "4", "--jobs", "2")

    assert done.returncode == 1
    assert "too many events" in done.stdout
    assert "simulate mine:simulation --seed 0" in done.stdout


def test_an_unknown_name_is_a_usage_error() -> None:
    Path("mine.py").write_text(OWN, encoding="utf-8")

    for name, complaint in {
        "mine": "module:attribute",
        "yours:simulation": "yours",
        "mine:nothing": "nothing",
        "mine:number": "not a Simulation",
    }.items():
        done = simulate(name)

        assert done.returncode == 2
        assert complaint in done.stderr


def test_on_a_terminal_it_shows_how_far_it_is_and_ctrl_c_ends_it_and_its_processes() -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "longwatch.testing.simulate", "--seeds", "100000", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=its,
        start_new_session=True,
    ) as running:
        os.close(its)
        shown = read_until(ours, "seeds")
        os.killpg(running.pid, signal.SIGINT)
        shown += read_until(ours, None)
        os.close(ours)

    assert "of 100,000 seeds, " in shown
    assert "Interrupted." in shown
    assert "Traceback" not in shown
    assert running.returncode == 130


def read_until(descriptor: int, text: str | None) -> str:
    """What a terminal shows until this text, or until no process writes to it any more."""
    shown = ""
    while text is None or text not in shown:
        try:
            shown += os.read(descriptor, 1_000).decode()
        except OSError:  # that is how a terminal ends
            break
    return shown
