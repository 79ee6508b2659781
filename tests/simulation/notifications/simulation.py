"""Plays one seed: runs that end and wait, notifiers that are killed, and at last an hour without faults.

Checked at the end: every ending and every long wait was reported, none of them by two messages, a message was
repeated only where its sender was killed or lost the store right after it was accepted, at most one message
of a rule was made a minute, and the journal has each message once for each of its runs.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from longwatch.model.summary import Status
from longwatch.notifications.notifier import NOTIFIED, Notifier
from longwatch.notifications.rules import Trigger
from longwatch.testing.simulation.simulation import SimulationResult
from longwatch.testing.simulation.world import SimulationCounts
from tests.simulation.notifications.world import WAIT_MS, Killed, Rates, World

MINUTE_MS = 60_000
RUNS = 5
STEPS = 22
CALM_STEPS = 6
CALM_SECONDS = 31 * 60.0  # longer than any delay, lease or pause

Reported = tuple[str, str, str, bool]  # rule, run, trigger, whether it is resolved


@dataclass
class Expected:
    """What has to be reported, written down as it happens."""

    endings: set[Reported] = field(default_factory=set)
    waiting: dict[str, int] = field(default_factory=dict)  # run -> since when
    resumed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class NotificationSimulation:
    """A simulation by seed."""

    def play(self, seed: int, *, trace: bool = False) -> SimulationResult:
        """Play this seed."""
        random = Random(f"{seed}/notifications")
        worst = random.choice([0.0, 0.3, 1.0])
        rates = Rates(0.04 * worst, 0.03 * worst, 0.3 * worst, 0.03 * random.choice([0.0, 1.0]))
        world, expected = World(random, rates, keep=trace), Expected()
        with _quiet():
            _play(world, expected)
        problems = list(_problems(world, expected))
        counts = SimulationCounts(
            events=len(world.journal.arrivals(0, limit=100_000)),
            delivered=len(world.accepted),
            virtual_seconds=world.clock.monotonic(),
            faults=world.faults,
            endings=Counter({"repeated as permitted": _repetitions(world).total()}),
        )
        return SimulationResult(
            seed=seed,
            problem="; ".join(problems) or None,
            digest=world.trace.digest,
            counts=counts,
            trace=tuple(world.trace.lines),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("longwatch.notifications")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _play(world: World, expected: Expected) -> None:
    random = world.random
    names = ["a", "b", "c"][: random.choice([1, 2, 3])]
    processes: dict[str, Notifier | None] = {}

    def make_pass(name: str) -> None:
        notifier = processes.get(name) or world.notifier(name)
        processes[name] = notifier
        try:
            notifier.run_once()
        except Killed:
            processes[name] = None  # it is started again at its next pass

    def make_other_pass(name: str) -> None:
        others = [each for each in names if each != name]
        if others:
            make_pass(random.choice(others))

    rates, world.rates = world.rates, Rates()
    make_pass(names[0])  # from now on the rules report
    world.rates = rates
    world.others = make_other_pass
    producer = _Producer(world, expected)
    for _ in range(STEPS):
        world.clock.advance(random.choice([1.0, 20.0, 61.0, 200.0, 900.0]))
        if random.random() < 0.5:
            producer.step()
        make_pass(random.choice(names))
    world.rates = Rates()
    for _ in range(CALM_STEPS):
        world.clock.advance(CALM_SECONDS)
        for name in names:
            make_pass(name)


class _Producer:
    """Runs that start, wait, resume, end and are corrected."""

    def __init__(self, world: World, expected: Expected) -> None:
        self._world = world
        self._expected = expected
        self._open: list[str] = []
        self._ended: list[str] = []
        self._started = 0

    def step(self) -> None:
        random, world = self._world.random, self._world
        choice = random.random()
        if self._started < RUNS and (choice < 0.4 or not self._open):
            self._started += 1
            run_id = f"run-{self._started}"
            self._open.append(run_id)
            world.record(run_id, "execution_started", name=run_id)
        elif self._open and choice < 0.6:
            self._wait(random.choice(self._open))
        elif self._open:
            self._end(self._open.pop(random.randrange(len(self._open))))
        elif self._ended:
            run_id = self._ended.pop()
            world.record(run_id, "execution_corrected", status="partial")
            self._expected.endings.add(("ends", run_id, Trigger.CORRECTED.value, False))

    def _wait(self, run_id: str) -> None:
        waiting = self._expected.waiting
        if run_id not in waiting:
            self._world.record(run_id, "waiting_started", call_id="w", reason="approval")
            waiting[run_id] = self._world.clock.now_ms()
        elif run_id not in self._expected.resumed:
            self._world.record(run_id, "waiting_ended", call_id="w", reason="approval")
            self._expected.resumed.add(run_id)

    def _end(self, run_id: str) -> None:
        status = self._world.random.choice([Status.SUCCEEDED, Status.FAILED])
        self._world.record(run_id, "execution_ended", status=status.value)
        trigger = Trigger.FAILED if status is Status.FAILED else Trigger.ENDED
        self._expected.endings.add(("ends", run_id, trigger.value, False))
        self._expected.resumed.add(run_id)
        self._ended.append(run_id)


def _messages_by_report(world: World) -> dict[Reported, set[str]]:
    """The messages that reported each occurrence."""
    found: dict[Reported, set[str]] = defaultdict(set)
    for _, message in world.accepted:
        for each in message.notices:
            report = (message.rule, each.run_id, each.trigger.value, each.is_resolved)
            found[report].add(message.delivery_id)
    return found


def _repetitions(world: World) -> Counter[str]:
    times = Counter(message.delivery_id for _, message in world.accepted)
    return Counter({name: count - 1 for name, count in times.items() if count > 1})


def _problems(world: World, expected: Expected) -> Iterator[str]:
    reports = _messages_by_report(world)
    yield from _problems_of_endings(reports, expected)
    yield from _problems_of_waits(world, reports, expected)
    for report, messages in reports.items():
        if len(messages) > 1:
            yield f"{report} was reported by {len(messages)} messages"
    for name, times in _repetitions(world).items():
        if times > world.excused[name]:
            yield f"message {name} was repeated {times} times, and {world.excused[name]} are permitted"
    yield from _problems_of_records(world)


def _problems_of_endings(reports: dict[Reported, set[str]], expected: Expected) -> Iterator[str]:
    corrected = {run_id for _, run_id, trigger, _ in expected.endings if trigger == Trigger.CORRECTED.value}
    for report in expected.endings:
        if report in reports:
            continue
        # An ending that was corrected before any notifier saw it is reported as corrected only.
        if report[1] in corrected and ("ends", report[1], Trigger.CORRECTED.value, False) in reports:
            continue
        yield f"{report} was never reported"
    for report in reports:
        if report[0] == "ends" and report not in expected.endings:
            yield f"{report} was reported and did not happen"


def _problems_of_waits(world: World, reports: dict[Reported, set[str]], expected: Expected) -> Iterator[str]:
    for run_id, since in expected.waiting.items():
        began = ("waits", run_id, Trigger.WAITING.value, False)
        ended = ("waits", run_id, Trigger.WAITING.value, True)
        is_over = run_id in expected.resumed
        if not is_over and world.clock.now_ms() - since > WAIT_MS and began not in reports:
            yield f"the wait of {run_id} was never reported"
        if began in reports and is_over and ended not in reports:
            yield f"the end of the wait of {run_id} was never reported"
        if ended in reports and (began not in reports or not is_over):
            yield f"the wait of {run_id} was resolved, and it was not reported or is not over"


def _problems_of_records(world: World) -> Iterator[str]:
    left = world.store.list("queue#", limit=100)
    if left:
        yield f"{len(left)} messages are left in the queue"
    created: dict[str, list[int]] = defaultdict(list)
    for record in world.store.list("sent#", limit=1_000):
        created[record.value["message"]["rule"]].append(record.value["created_at"])
    for rule, times in created.items():
        times.sort()
        if any(later - earlier < MINUTE_MS for earlier, later in pairwise(times)):
            yield f"rule {rule} made two messages within a minute"
    stated = Counter(
        (event.run_id, str(event.payload["delivery_id"]))
        for _, event in world.journal.arrivals(0, limit=100_000)
        if event.type == NOTIFIED
    )
    sent = {(run_id, each.delivery_id) for _, each in world.accepted for run_id in each.run_ids}
    if set(stated) != sent or any(count > 1 for count in stated.values()):
        yield f"the journal states {len(stated)} notified runs, of which {len(sent)} are true"
    for run in world.journal.find_runs(limit=100).runs:
        if run.last_event_type == NOTIFIED:
            yield f"a notification is the last activity of {run.run_id}"
