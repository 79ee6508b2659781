"""A simulation: what is simulated, and what came of one seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from longwatch.testing.simulation.bugs import Bug
from longwatch.testing.simulation.desks import Producer
from longwatch.testing.simulation.loop import Stuck, in_virtual_time
from longwatch.testing.simulation.plan import draw_plan
from longwatch.testing.simulation.playing import play
from longwatch.testing.simulation.trace import Tally
from longwatch.testing.simulation.world import MakeConsumer, MakeJournal, World

MOST_TOLD = 40  # lines of a trace in a message


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    problem: str | None  # None: every promise was kept
    digest: str  # of the trace: the same as long as the same happened
    tally: Tally
    trace: tuple[str, ...] = field(default=(), repr=False)  # empty unless it was asked for

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        if self.problem is not None:
            end = "\n".join(self.trace[-MOST_TOLD:])
            raise AssertionError(f"seed {self.seed}: {self.problem}" + (f"\n{end}" if end else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Writers, followers, crashes and faults in virtual time; the seed alone decides what happens.

    `journal` makes an empty journal for a seed, given the clock; None takes longwatch's own, one after the
    other, or the `store` that is named. `consumer` makes somebody who follows, given the run. `producer`
    writes events at a `Desk`. `bug` is for the simulator's own tests.
    """

    journal: MakeJournal | None = None
    consumer: MakeConsumer | None = None
    producer: Producer | None = None
    store: str | None = None
    bug: Bug | None = None

    def play(self, seed: int, *, trace: bool = False) -> Outcome:
        """Play this seed. With `trace` every step is kept, to be read."""
        if not __debug__:
            raise RuntimeError("python -O leaves out every check of the simulation; run it without -O")
        plan = draw_plan(seed, Random(f"{seed}/plan"), store=self.store)
        worlds: list[World] = []

        async def story() -> list[str]:
            world = World(
                seed,
                plan,
                bug=self.bug,
                make_journal=self.journal,
                make_consumer=self.consumer,
                keep_trace=trace,
            )
            worlds.append(world)
            return await play(world, self.producer)

        try:
            problems = in_virtual_time(story)
        except Stuck as stuck:
            problems = [f"stuck: {stuck}"]
        (world,) = worlds
        problem = problems[0] if problems else None
        return Outcome(seed, problem, world.trace.digest, world.tally, tuple(world.trace.lines))
