"""Simulated notifiers keep their guarantees, and the simulation notices if they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.notifications.notifier import Notifier
from longwatch.notifications.queue import NotificationQueue
from longwatch.notifications.records import QueuedMessage
from longwatch.testing.simulate import play_seeds
from tests.patience import PATIENCE_SECONDS
from tests.simulation.simulate_notifications import NotificationSubject

ROOT = Path(__file__).parents[3]
SEEDS = range(150)


def found_problem(seeds: range = SEEDS) -> str | None:
    summary = play_seeds(NotificationSubject(), seeds)
    return None if summary.failed is None else summary.failed.problem


def test_every_message_is_sent_whatever_happens() -> None:
    assert found_problem() is None


def test_a_seed_replays_exactly() -> None:
    simulation = NotificationSubject().simulation()

    assert simulation.play(3).digest == simulation.play(3, trace=True).digest


def test_notifiers_that_ignore_leases_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotificationQueue, "is_due", lambda self, delivery: True)

    assert "was repeated" in (found_problem() or "")


def test_a_position_that_is_stored_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Notifier._check_endings

    def hasty(self: Notifier) -> None:
        for rule, _ in self._states():
            self._advance(rule, self._journal.last_arrival())  # type: ignore[attr-defined]
        real(self)

    monkeypatch.setattr(Notifier, "_check_endings", hasty)

    assert "was never reported" in (found_problem() or "")


def test_a_message_that_is_settled_before_it_is_recorded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NotificationQueue.accepted

    def hasty(self: NotificationQueue, delivery: QueuedMessage, response: str) -> QueuedMessage | None:
        done = real(self, delivery, response)
        if done is not None:
            self.finish(done)
        return done

    monkeypatch.setattr(NotificationQueue, "accepted", hasty)

    assert "the journal states" in (found_problem() or "")


def test_a_message_a_second_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longwatch.notifications.queue.MESSAGE_INTERVAL_MS", 1_000)

    assert "two messages within a minute" in (found_problem(range(600)) or "")


def test_the_command_prints_what_was_simulated() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.simulate_notifications", "--seeds", "10", "--jobs", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 seeds in ")
