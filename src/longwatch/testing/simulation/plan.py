"""The plan of a seed: store, runs, writers, watchers and faults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from longwatch.testing.simulation.network import READING, WRITING, FaultRates, SimulatedOutage
from longwatch.testing.simulation.stores import STORES

# On DynamoDB a reader looks back 30 s, and events that are stored 20 s after their time are announced. The
# difference covers clocks that differ by up to 8 s, and requests of up to 1.5 s.
MAX_SKEW_MS = 4_000
MAX_LATE_MS = 12_000  # between the time of an event and its append
LONG_SECONDS = 150.0  # a longer run reveals growing state
LARGE_PAGE = 1_000  # items


class RunEnd(StrEnum):
    """The end of a run."""

    COMPLETE = "complete"
    FAILED = "failed"
    DEAD = "dead"  # its process exits without reporting an outcome
    OPEN = "open"  # it never ends


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPlan:
    """One writer of a run. Shares are of its events."""

    skew_ms: int
    pause_seconds: float  # between groups of events, on average
    max_events: int  # in a group
    same_instant: float  # groups of events with the same time
    late: float
    duplicated: float  # sent again, at once or later
    crashes: tuple[tuple[float, float], ...]  # seconds of work before it, and seconds until the restart


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run."""

    run_id: str
    seconds: float  # of work
    end: RunEnd
    writers: tuple[WriterPlan, ...]
    foreign_seconds: float | None  # between events without a number; None: no such events
    stragglers: bool  # some events follow the terminal one
    watchers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """A whole simulation."""

    store: str
    page_items: int  # of the store
    page_events: int  # of the hubs
    buffer_events: int
    rates: FaultRates
    runs: tuple[RunPlan, ...]
    processes: int  # that follow
    process_crashes: tuple[float, ...]  # when one of them ends
    has_service: bool
    has_manager: bool


def draw_plan(seed: int, random: Random, *, store: str | None = None) -> SimulationPlan:
    """The plan of a seed."""
    longest = random.choice([3.0, 6.0, 6.0, 12.0, 12.0, 25.0, 60.0])
    runs = tuple(
        _run(f"wf-{seed:x}-{index}", random, longest) for index in range(random.choice([1, 1, 2, 3]))
    )
    longest_run = max(run.seconds for run in runs)
    return SimulationPlan(
        store=store if store is not None else random.choice(STORES),
        # With small pages a wide scan takes many requests, which never all succeed with many faults.
        page_items=random.choice([3, 7, LARGE_PAGE]) if longest_run < LONG_SECONDS else LARGE_PAGE,
        page_events=random.choice([2, 7, 100]),
        buffer_events=random.choice([4, 20, 1_000]),
        rates=_rates(random, longest),
        runs=runs,
        processes=random.choice([1, 1, 2]),
        process_crashes=tuple(random.uniform(0.5, longest + 5) for _ in range(random.choice([0, 0, 1, 2]))),
        has_service=random.random() < 0.5,
        has_manager=random.random() < 0.4,
    )


def _run(run_id: str, random: Random, longest: float) -> RunPlan:
    end = random.choice([RunEnd.COMPLETE, RunEnd.COMPLETE, RunEnd.FAILED, RunEnd.DEAD, RunEnd.OPEN])
    seconds = random.uniform(1.0, longest)
    foreign = random.choice([None, None, random.uniform(0.2, 3.0)])
    if foreign is not None and random.random() < 0.15:  # a long run
        seconds, foreign = random.uniform(LONG_SECONDS, 210.0), random.uniform(0.3, 0.6)
    return RunPlan(
        run_id=run_id,
        seconds=seconds,
        end=end,
        writers=tuple(_writer(random, seconds) for _ in range(random.choice([1, 2, 2, 3]))),
        foreign_seconds=foreign,
        stragglers=random.random() < 0.6,
        watchers=random.choice([1, 2, 2, 3]),
    )


def _writer(random: Random, seconds: float) -> WriterPlan:
    crashes = random.choice([0, 0, 1, 2])
    return WriterPlan(
        skew_ms=random.choice([0, random.randint(-200, 200), random.randint(-MAX_SKEW_MS, MAX_SKEW_MS)]),
        pause_seconds=max(random.choice([0.05, 0.4, 2.0]), seconds / 20),
        max_events=random.choice([1, 3, 6]),
        same_instant=random.choice([0.0, 0.3, 1.0]),
        late=random.choice([0.0, 0.1, 0.4]),
        duplicated=random.choice([0.0, 0.1]),
        crashes=tuple((random.uniform(0.1, seconds), random.uniform(0.1, 40.0)) for _ in range(crashes)),
    )


def _rates(random: Random, longest: float) -> FaultRates:
    outages = tuple(
        SimulatedOutage(side, begins, begins + random.choice([0.5, 5.0, 45.0]))
        for side in (READING, WRITING)
        if random.random() < 0.4
        for begins in [random.uniform(0.0, longest)]
    )
    return FaultRates(
        throttled=random.choice([0.0, 0.01, 0.05]),
        lost=random.choice([0.0, 0.01, 0.05]),
        slow=random.choice([0.0, 0.05, 0.3]),
        outages=outages,
    )
