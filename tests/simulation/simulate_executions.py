"""`python -m tests.simulation.simulate_executions`: plays executions by seeds, and names one that failed.

Exit codes: 0 every promise was kept, 1 one was broken, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass

import click

from longwatch.testing.simulate import FAILED, INTERRUPTED, SeedProgress, Summary, counted, play_seeds
from longwatch.testing.simulation.simulation import Outcome
from tests.simulation.executions.bugs import ExecutionBug
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.simulation import EXECUTIONS, PLAYED_FAULTS, ExecutionSimulation

PROGRAM = "python -m tests.simulation.simulate_executions"
PLAYED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSubject:
    """What to simulate, in words that another process understands."""

    bug: ExecutionBug | None = None
    faults: frozenset[Fault] = PLAYED_FAULTS

    def simulation(self) -> ExecutionSimulation:
        return ExecutionSimulation(bug=self.bug, faults=self.faults)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--executions", default=PLAYED, show_default=True, type=click.IntRange(1), help="How many to play."
)
@click.option("--start", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--seed", type=click.IntRange(0), help="Play only this one, and print its trace.")
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
        _replay(subject, seed)
        return
    seeds = math.ceil(executions / EXECUTIONS)
    progress = SeedProgress(seeds)
    summary = play_seeds(
        subject, range(start, start + seeds), jobs=jobs or os.cpu_count() or 1, progress=progress.show
    )
    progress.clear()
    click.echo(_told(summary, progress.seconds))
    if summary.failed is not None:
        click.echo(_failure(summary.failed, subject))
        sys.exit(FAILED)


def main() -> None:
    """The command, with one line and a code for whoever interrupts it."""
    try:
        command(prog_name=PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nInterrupted.", err=True)
        sys.exit(INTERRUPTED)


def _replay(subject: ExecutionSubject, seed: int) -> None:
    outcome = subject.simulation().play(seed, trace=True)
    for line in outcome.trace:
        click.echo(line)
    click.echo(f"seed {seed}, trace {outcome.digest}: {outcome.problem or 'every promise was kept'}")
    if outcome.problem is not None:
        sys.exit(FAILED)


def _told(summary: Summary, seconds: float) -> str:
    tally = summary.tally
    hours = tally.virtual_seconds / 3600
    return "\n".join(
        [
            f"{summary.seeds * EXECUTIONS:,} executions in {seconds:.1f} s, {hours:,.1f} virtual hours",
            f"{tally.events:,} events, {tally.delivered:,} polls",
            "what was odd or went wrong:",
            *counted(tally.faults),
            "executions in the end:",
            *counted(tally.endings),
        ]
    )


def _failure(outcome: Outcome, subject: ExecutionSubject) -> str:
    bug = "" if subject.bug is None else f" --bug {subject.bug}"
    named = () if subject.faults == PLAYED_FAULTS else sorted(subject.faults)
    faults = "".join(f" --fault {each}" for each in named)
    return (
        f"seed {outcome.seed} failed, trace {outcome.digest}: {outcome.problem}\n"
        f"replay it: {PROGRAM}{bug}{faults} --seed {outcome.seed}"
    )


if __name__ == "__main__":
    main()
