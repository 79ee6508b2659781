"""`python -m longwatch.testing.simulate`: plays seeds, prints a summary and names the seed that failed.

Exit codes: 0 all guarantees held, 1 one was broken, 2 usage, 130 interrupted.
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
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Protocol

import click

from longwatch.testing.simulation.simulation import Simulation, SimulationResult
from longwatch.testing.simulation.stores import STORES
from longwatch.testing.simulation.world import SimulationCounts

GROUP_SEEDS = 10  # that a process plays before it reports their results
QUEUED_GROUPS = 3  # for each process, so that none waits for the slowest


class SeedPlayer(Protocol):
    """A simulation of seeds."""

    def play(self, seed: int, *, trace: bool = False) -> SimulationResult: ...


class Playable(Protocol):
    """Names a simulation, in a form that can be pickled for another process."""

    def simulation(self) -> SeedPlayer:
        """The simulation, created in the process that plays it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSubject:
    """Names a `Simulation`, in a form that can be pickled for another process."""

    named: str | None = None  # `module:attribute` of a `Simulation`; None: longwatch itself
    store: str | None = None

    def simulation(self) -> Simulation:
        """The simulation. Raises ValueError for an invalid name."""
        if self.named is None:
            return Simulation(store=self.store)
        module, colon, attribute = self.named.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"{self.named!r} is not of the form module:attribute")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{self.named}: {error}") from error
        if not isinstance(found, Simulation):
            raise ValueError(f"{self.named} is not a Simulation but {found!r}")
        return found if self.store is None else replace(found, store=self.store)


@dataclass
class Summary:
    """The results of the seeds so far."""

    seeds: int = 0
    counts: SimulationCounts = field(default_factory=SimulationCounts)
    failed: SimulationResult | None = None  # the first one


def play_seeds(
    subject: Playable,
    seeds: range,
    *,
    jobs: int = 1,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Play these seeds until one fails. Results are in seed order, however many processes play."""
    summary = Summary()
    groups = (seeds[begin : begin + GROUP_SEEDS] for begin in range(0, len(seeds), GROUP_SEEDS))
    with closing(_play_groups(subject, groups, min(jobs, len(seeds)))) as groups_played:
        for results in groups_played:
            for result in results:
                summary.seeds += 1
                summary.counts.add(result.counts)
                if result.problem is not None:
                    summary.failed = result
                    return summary
            progress(summary)
    return summary


def _play_groups(
    subject: Playable, groups: Iterator[range], jobs: int
) -> Generator[list[SimulationResult], None, None]:
    if jobs <= 1:
        for group in groups:
            yield _play(subject, group)
        return
    others = active_children()
    # Spawned instead of forked: the state of this process must not affect a simulation.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_ignore_interrupts) as pool:
        waiting: list[Future[list[SimulationResult]]] = []
        is_complete = False
        try:
            for group in groups:
                waiting.append(pool.submit(_play, subject, group))
                if len(waiting) >= jobs * QUEUED_GROUPS:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
            is_complete = True
        finally:
            if not is_complete:  # the other results are not needed
                for process in active_children():
                    if process not in others:
                        process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _play(subject: Playable, seeds: range) -> list[SimulationResult]:
    simulation, results = subject.simulation(), []
    for seed in seeds:
        results.append(simulation.play(seed))
        if results[-1].problem is not None:
            break
    return results


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the main process, which ends the others."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


PROGRAM = "python -m longwatch.testing.simulate"
FAILED, INTERRUPTED = 1, 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("named", metavar="[MODULE:SIMULATION]", required=False)
@click.option("--seeds", default=1_000, show_default=True, type=click.IntRange(1), help="Number of seeds.")
@click.option("--start", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option("--seed", type=click.IntRange(0), help="Play only this seed and print its trace.")
@click.option("--jobs", default=None, type=click.IntRange(1), help="Processes. Default: one per core.")
@click.option("--store", type=click.Choice(STORES), help="Only this store. Default: the seed decides.")
def command(
    named: str | None, seeds: int, start: int, seed: int | None, jobs: int | None, store: str | None
) -> None:
    """Simulate writers, followers, crashes and faults in virtual time, and check longwatch's guarantees.

    MODULE:SIMULATION names a longwatch.testing.Simulation of your own.
    """
    subject = SimulationSubject(named=named, store=store)
    sys.path.insert(0, "")  # for a simulation in the working directory
    try:
        subject.simulation()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if seed is not None:
        replay_seed(subject, seed)
        return
    options = [] if named is None else [named]
    options += [] if store is None else ["--store", store]
    play_and_report(
        subject,
        range(start, start + seeds),
        jobs=jobs,
        describe=_describe,
        replay=shlex.join([*PROGRAM.split(), *options]),
    )


def play_and_report(
    subject: Playable,
    seeds: range,
    *,
    jobs: int | None,
    describe: Callable[[Summary, float], str],
    replay: str,
) -> None:
    """Play seeds with progress on stderr and the summary on stdout; exit if a seed fails.

    `replay` is the command that plays the same simulation.
    """
    progress = SeedProgress(len(seeds))
    summary = play_seeds(subject, seeds, jobs=jobs or os.cpu_count() or 1, progress=progress.show)
    progress.clear()
    click.echo(describe(summary, progress.seconds))
    failed = summary.failed
    if failed is not None:
        click.echo(f"seed {failed.seed} failed, trace {failed.digest}: {failed.problem}")
        click.echo(f"replay it: {replay} --seed {failed.seed}")
        sys.exit(FAILED)


def replay_seed(subject: Playable, seed: int) -> None:
    """Play one seed and print its trace; exit if it fails."""
    result = subject.simulation().play(seed, trace=True)
    for line in result.trace:
        click.echo(line)
    click.echo(f"seed {seed}, trace {result.digest}: {result.problem or 'every promise was kept'}")
    if result.problem is not None:
        sys.exit(FAILED)


def run_command(command: click.Command, program: str) -> None:
    """Run a command of a simulator; print one line if it is interrupted."""
    try:
        command(prog_name=program, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nInterrupted.", err=True)
        sys.exit(INTERRUPTED)


class SeedProgress:
    """A progress line on stderr, if that is a terminal."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._started = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def show(self, summary: Summary) -> None:
        if self._is_shown:
            rate = summary.seeds / max(self.seconds, 0.001)
            left = (self._seeds - summary.seeds) / max(rate, 0.001)
            line = f"{summary.seeds:,} of {self._seeds:,} seeds, {rate:.0f} a second, {left:.0f} s to go"
            click.echo(f"\r\x1b[2K{line}", err=True, nl=False)

    def clear(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[2K", err=True, nl=False)


def _describe(summary: Summary, seconds: float) -> str:
    counts = summary.counts
    return "\n".join(
        [
            f"{summary.seeds:,} seeds in {seconds:.1f} s, {counts.virtual_seconds / 3600:,.1f} virtual hours",
            f"{counts.events:,} events, {counts.delivered:,} deliveries",
            "faults:",
            *counter_lines(counts.faults),
            "watches ended:",
            *counter_lines(counts.endings),
        ]
    )


def counter_lines(counter: Counter[str]) -> list[str]:
    """One line for each count, the most frequent first."""
    return [f"  {count:>9,}  {what}" for what, count in counter.most_common()] or ["  none"]


if __name__ == "__main__":
    run_command(command, PROGRAM)
