"""Many seeds, in several processes, until one of them shows something wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Protocol

from longwatch.testing.simulation.bugs import Bug
from longwatch.testing.simulation.simulation import Outcome, Simulation
from longwatch.testing.simulation.trace import Tally

TOGETHER = 10  # seeds that a process plays before it tells of them
AHEAD = 3  # such groups for each process, so that none has to wait for the slowest


class Plays(Protocol):
    """Something that can be played by seeds."""

    def play(self, seed: int) -> Outcome:
        """What comes of this seed."""


class Playable(Protocol):
    """What to play, in words that another process understands."""

    def simulation(self) -> Plays:
        """The simulation itself, made in the process that plays it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What to simulate, in words that another process understands."""

    named: str | None = None  # `module:attribute` of a `Simulation`; None: longwatch itself
    store: str | None = None
    bug: Bug | None = None

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
    tally: Tally = field(default_factory=Tally)
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
