"""`python -m longwatch.testing.simulate`: plays seeds, says what they held, and names the one that failed.

Exit codes: 0 every promise was kept, 1 one was broken, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Protocol

import click

from longwatch.testing.simulation.bugs import FollowerBug
from longwatch.testing.simulation.simulation import Outcome, Simulation
from longwatch.testing.simulation.stores import STORES
from longwatch.testing.simulation.world import SimulationCounts

TOGETHER = 10  # seeds that a process plays before it tells of them
AHEAD = 3  # such groups for each process, so that none has to wait for the slowest


class SeedPlayer(Protocol):
    """Something that can be played by seeds."""

    def play(self, seed: int) -> Outcome:
        """What comes of this seed."""


class Playable(Protocol):
    """What to play, in words that another process understands."""

    def simulation(self) -> SeedPlayer:
        """The simulation itself, made in the process that plays it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSubject:
    """What to simulate, in words that another process understands."""

    named: str | None = None  # `module:attribute` of a `Simulation`; None: longwatch itself
    store: str | None = None
    bug: FollowerBug | None = None

    def simulation(self) -> Simulation:
        """The simulation. Raises ValueError if the name leads nowhere."""
        if self.named is None:
            return Simulation(store=self.store, bug=self.bug)
        module, colon, attribute = self.named.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"{self.named!r} is not of the form module:attribute")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{self.named}: {error}") from error
        if not isinstance(found, Simulation):
            raise ValueError(f"{self.named} is not a Simulation but {found!r}")
        return found


@dataclass
class Summary:
    """What came of the seeds so far."""

    seeds: int = 0
    tally: SimulationCounts = field(default_factory=SimulationCounts)
    failed: Outcome | None = None  # the first one


def play_seeds(
    subject: Playable,
    seeds: range,
    *,
    jobs: int = 1,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Play these seeds until one fails. They are told of in their order, however many processes play them."""
    summary = Summary()
    groups = (seeds[begin : begin + TOGETHER] for begin in range(0, len(seeds), TOGETHER))
    with closing(_played(subject, groups, min(jobs, len(seeds)))) as played:
        for outcomes in played:
            for outcome in outcomes:
                summary.seeds += 1
                summary.tally.add(outcome.tally)
                if outcome.problem is not None:
                    summary.failed = outcome
                    return summary
            progress(summary)
    return summary


def _played(subject: Playable, groups: Iterator[range], jobs: int) -> Generator[list[Outcome], None, None]:
    if jobs <= 1:
        for group in groups:
            yield _play(subject, group)
        return
    others = active_children()
    # Started anew rather than forked: what is in this process must not reach into the simulation.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
        waiting: list[Future[list[Outcome]]] = []
        is_through = False
        try:
            for group in groups:
                waiting.append(pool.submit(_play, subject, group))
                if len(waiting) >= jobs * AHEAD:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
            is_through = True
        finally:
            if not is_through:  # nobody wants to know what they are still playing
                for process in active_children():
                    if process not in others:
                        process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _play(subject: Playable, seeds: range) -> list[Outcome]:
    simulation, outcomes = subject.simulation(), []
    for seed in seeds:
        outcomes.append(simulation.play(seed))
        if outcomes[-1].problem is not None:
            break
    return outcomes


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that was started by hand; it ends the others."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


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
    "--bug", type=click.Choice([each.value for each in FollowerBug]), help="Plant this bug, to see it found."
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
    subject = SimulationSubject(named=named, store=store, bug=None if bug is None else FollowerBug(bug))
    sys.path.insert(0, "")  # a simulation of one's own lies where one stands
    try:
        subject.simulation()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if seed is not None:
        _replay(subject, seed)
        return
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


class SeedProgress:
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


def _replay(subject: SimulationSubject, seed: int) -> None:
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


def _failure(outcome: Outcome, subject: SimulationSubject) -> str:
    options = [] if subject.named is None else [subject.named]
    options += [] if subject.store is None else ["--store", subject.store]
    options += [] if subject.bug is None else ["--bug", subject.bug.value]
    replay = f"{PROGRAM} {shlex.join([*options, '--seed', str(outcome.seed)])}"
    return f"seed {outcome.seed} failed, trace {outcome.digest}: {outcome.problem}\nreplay it: {replay}"


if __name__ == "__main__":
    main()
