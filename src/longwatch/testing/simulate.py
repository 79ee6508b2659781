"""`python -m longwatch.testing.simulate`: plays seeds, says what they held, and names the one that failed.

Exit codes: 0 every promise was kept, 1 one was broken, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter

import click

from longwatch.testing.simulation.bugs import Bug
from longwatch.testing.simulation.running import Subject, Summary, play_seeds
from longwatch.testing.simulation.simulation import Outcome
from longwatch.testing.simulation.stores import STORES

PROGRAM = "python -m longwatch.testing.simulate"
FAILED, INTERRUPTED = 1, 130
SEEDS = 1_000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("named", metavar="[MODULE:SIMULATION]", required=False)
@click.option("--seeds", default=SEEDS, show_default=True, type=click.IntRange(1), help="How many to play.")
@click.option("--start", default=0, show_default=True, type=click.IntRange(0), help="The first of them.")
@click.option("--seed", type=click.IntRange(0), help="Play only this one, and print its trace.")
@click.option("--jobs", default=None, type=click.IntRange(1), help="Processes. Default: one per core.")
@click.option("--store", type=click.Choice(STORES), help="Only this store. Default: the seed decides.")
@click.option(
    "--bug", type=click.Choice([each.value for each in Bug]), help="Plant this bug, to see it found."
)
def command(
    named: str | None,
    seeds: int,
    start: int,
    seed: int | None,
    jobs: int | None,
    store: str | None,
    bug: str | None,
) -> None:
    """Simulate writers, followers, crashes and faults in virtual time, and check what longwatch promises.

    MODULE:SIMULATION names a longwatch.testing.Simulation of your own.
    """
    subject = Subject(named=named, store=store, bug=None if bug is None else Bug(bug))
    sys.path.insert(0, "")  # a simulation of one's own lies where one stands
    try:
        subject.simulation()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if seed is not None:
        _replay(subject, seed)
        return
    progress = Progress(seeds)
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


class Progress:
    """One line that is written over, on a terminal only."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def show(self, summary: Summary) -> None:
        if self._is_shown:
            rate = summary.seeds / max(self.seconds, 0.001)
            left = (self._seeds - summary.seeds) / max(rate, 0.001)
            line = f"{summary.seeds:,} of {self._seeds:,} seeds, {rate:.0f} a second, {left:.0f} s to go"
            click.echo(f"\r\x1b[2K{line}", err=True, nl=False)

    def clear(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[2K", err=True, nl=False)


def _replay(subject: Subject, seed: int) -> None:
    outcome = subject.simulation().play(seed, trace=True)
    for line in outcome.trace:
        click.echo(line)
    click.echo(f"seed {seed}, trace {outcome.digest}: {outcome.problem or 'every promise was kept'}")
    if outcome.problem is not None:
        sys.exit(FAILED)


def _told(summary: Summary, seconds: float) -> str:
    tally = summary.tally
    return "\n".join(
        [
            f"{summary.seeds:,} seeds in {seconds:.1f} s, {tally.virtual_seconds / 3600:,.1f} virtual hours",
            f"{tally.events:,} events, {tally.delivered:,} deliveries",
            "faults:",
            *counted(tally.faults),
            "watches ended:",
            *counted(tally.endings),
        ]
    )


def counted(counter: Counter[str]) -> list[str]:
    """What was counted, the most frequent first."""
    return [f"  {count:>9,}  {what}" for what, count in counter.most_common()] or ["  none"]


def _failure(outcome: Outcome, subject: Subject) -> str:
    options = [] if subject.named is None else [subject.named]
    options += [] if subject.store is None else ["--store", subject.store]
    options += [] if subject.bug is None else ["--bug", subject.bug.value]
    replay = f"{PROGRAM} {shlex.join([*options, '--seed', str(outcome.seed)])}"
    return f"seed {outcome.seed} failed, trace {outcome.digest}: {outcome.problem}\nreplay it: {replay}"


if __name__ == "__main__":
    main()
