"""`python -m tests.simulation.simulate_executions`: plays executions by seeds and names the one that failed.

Exit codes: 0 all guarantees held, 1 one was broken, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import click

from longwatch.testing.simulate import Summary, counter_lines, play_and_report, replay_seed, run_command
from tests.simulation.executions.bugs import ExecutionBug
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.simulation import EXECUTIONS, PLAYED_FAULTS, ExecutionSimulation

PROGRAM = "python -m tests.simulation.simulate_executions"
PLAYED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSubject:
    """Names a simulation, in a form that can be pickled for another process."""

    bug: ExecutionBug | None = None
    faults: frozenset[Fault] = PLAYED_FAULTS

    def simulation(self) -> ExecutionSimulation:
        return ExecutionSimulation(bug=self.bug, faults=self.faults)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--executions", default=PLAYED, show_default=True, type=click.IntRange(1), help="Number of executions."
)
@click.option("--start", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option("--seed", type=click.IntRange(0), help="Play only this seed and print its trace.")
@click.option("--jobs", default=None, type=click.IntRange(1), help="Processes. Default: one per core.")
@click.option(
    "--bug", type=click.Choice([each.value for each in ExecutionBug]), help="Plant this bug, to see it found."
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice([each.value for each in Fault]),
    help="Play only these faults; again for each. Default: all that are played in CI.",
)
def command(
    executions: int, start: int, seed: int | None, jobs: int | None, bug: str | None, faults: tuple[str, ...]
) -> None:
    """Simulate drills, recoveries, pollers that die and sources that fail, and check every verdict.

    Each seed has five executions.
    """
    played = frozenset(map(Fault, faults)) or PLAYED_FAULTS
    subject = ExecutionSubject(bug=None if bug is None else ExecutionBug(bug), faults=played)
    if seed is not None:
        replay_seed(subject, seed)
        return
    seeds = math.ceil(executions / EXECUTIONS)
    options = "" if bug is None else f" --bug {bug}"
    options += "".join(f" --fault {each}" for each in (() if played == PLAYED_FAULTS else sorted(played)))
    play_and_report(
        subject, range(start, start + seeds), jobs=jobs, describe=_describe, replay=f"{PROGRAM}{options}"
    )


def _describe(summary: Summary, seconds: float) -> str:
    counts = summary.counts
    hours = counts.virtual_seconds / 3600
    return "\n".join(
        [
            f"{summary.seeds * EXECUTIONS:,} executions in {seconds:.1f} s, {hours:,.1f} virtual hours",
            f"{counts.events:,} events, {counts.delivered:,} polls",
            "what was odd or went wrong:",
            *counter_lines(counts.faults),
            "executions in the end:",
            *counter_lines(counts.endings),
        ]
    )


if __name__ == "__main__":
    run_command(command, PROGRAM)
