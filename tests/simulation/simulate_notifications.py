"""`python -m tests.simulation.simulate_notifications`: plays notifiers, and names the seed that failed.

Exit codes: 0 all guarantees held, 1 one was broken, 2 usage, 130 interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from longwatch.testing.simulate import Summary, counter_lines, play_and_report, replay_seed, run_command
from tests.simulation.notifications.simulation import NotificationSimulation

PROGRAM = "python -m tests.simulation.simulate_notifications"
PLAYED = 10_000


@dataclass(frozen=True, slots=True)
class NotificationSubject:
    """Names the simulation, in a form that can be pickled for another process."""

    def simulation(self) -> NotificationSimulation:
        return NotificationSimulation()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", default=PLAYED, show_default=True, type=click.IntRange(1), help="Number of seeds.")
@click.option("--start", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option("--seed", type=click.IntRange(0), help="Play only this seed and print its trace.")
@click.option("--jobs", default=None, type=click.IntRange(1), help="Processes. Default: one per core.")
def command(seeds: int, start: int, seed: int | None, jobs: int | None) -> None:
    """Simulate notifiers that are killed at every point, and check every message."""
    subject = NotificationSubject()
    if seed is not None:
        replay_seed(subject, seed)
        return
    play_and_report(subject, range(start, start + seeds), jobs=jobs, describe=_describe, replay=PROGRAM)


def _describe(summary: Summary, seconds: float) -> str:
    counts = summary.counts
    return "\n".join(
        [
            f"{summary.seeds:,} seeds in {seconds:.1f} s, {counts.virtual_seconds / 3600:,.1f} virtual hours",
            f"{counts.events:,} events, {counts.delivered:,} messages",
            "what went wrong:",
            *counter_lines(counts.faults),
            "messages:",
            *counter_lines(counts.endings),
        ]
    )


if __name__ == "__main__":
    run_command(command, PROGRAM)
