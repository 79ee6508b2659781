"""The processes of followed runs: each watched once, and reported when it is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.following import process_watch
from longwatch.following.process_watch import ProcessWatch
from longwatch.following.timers import alarms
from longwatch.model.process import Presence, ProcessIdentity, process_of, this_process
from longwatch.testing.clock import START_MS, FakeClock
from longwatch.testing.simulation.virtual_loop import LoopClock

ONE, TWO = ProcessIdentity("h", 1, 10, boot="b"), ProcessIdentity("h", 2, 20, boot="b")


class Subscriber:
    """Counts what it is notified of."""

    def __init__(self) -> None:
        self.notified = 0
        self.changed = asyncio.Event()

    def on_process_exit(self) -> None:
        self.notified += 1
        self.changed.set()


class World:
    """Processes that are alive until they are not."""

    def __init__(self) -> None:
        self.presence = {ONE.id: Presence.ALIVE, TWO.id: Presence.ALIVE}
        self.probes = 0

    def __call__(self, process: ProcessIdentity) -> Presence:
        self.probes += 1
        return self.presence[process.id]


def waiting_child() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def watching(world: Callable[[ProcessIdentity], Presence]) -> ProcessWatch:
    timers = alarms(asyncio.get_running_loop())
    return ProcessWatch(timers, LoopClock(), presence=world, pidfds=False)


@pytest.mark.looptime
class TestWithoutPidfds:
    async def test_every_subscriber_is_notified_when_a_process_is_gone(self) -> None:
        world, one, other = World(), Subscriber(), Subscriber()
        watch = watching(world)
        watch.watch(one, [ONE])
        watch.watch(other, [ONE, TWO])

        await asyncio.sleep(10.0)
        world.presence[ONE.id] = Presence.GONE
        await asyncio.sleep(2.0)

        assert (one.notified, other.notified) == (1, 1)
        found = watch.observations([ONE, TWO])
        assert (found[ONE.id].presence, found[TWO.id].presence) == (Presence.GONE, Presence.ALIVE)
        alive_at, gone_by = found[ONE.id].alive_at, found[ONE.id].gone_by
        assert alive_at is not None
        assert gone_by is not None
        assert START_MS + 9_000 <= alive_at < gone_by <= alive_at + 1_100

    async def test_one_probe_a_second_serves_every_subscriber(self) -> None:
        world = World()
        watch = watching(world)
        for _ in range(100):
            watch.watch(Subscriber(), [ONE])

        await asyncio.sleep(10.5)

        assert world.probes == 11

    async def test_a_process_that_was_gone_before_is_reported_at_once(self) -> None:
        world, subscriber = World(), Subscriber()
        world.presence[ONE.id] = Presence.GONE
        watch = watching(world)

        watch.watch(subscriber, [ONE])
        await asyncio.sleep(0.01)

        assert subscriber.notified == 1

    async def test_a_process_that_can_not_be_judged_is_never_reported(self) -> None:
        world, subscriber = World(), Subscriber()
        world.presence[ONE.id] = Presence.UNKNOWN
        watch = watching(world)

        watch.watch(subscriber, [ONE])
        await asyncio.sleep(100.0)

        assert (subscriber.notified, watch.watched) == (0, 0)
        assert watch.observations([ONE])[ONE.id].presence is Presence.UNKNOWN

    async def test_a_subscriber_that_has_left_is_not_notified_and_nothing_is_probed_for_it(self) -> None:
        world, subscriber = World(), Subscriber()
        watch = watching(world)
        watch.watch(subscriber, [ONE])
        watch.watch(subscriber, [TWO])
        assert watch.watched == 1
        watch.unwatch(subscriber)
        probes = world.probes

        world.presence = dict.fromkeys(world.presence, Presence.GONE)
        await asyncio.sleep(10.0)

        assert (subscriber.notified, watch.watched, world.probes) == (0, 0, probes)

    async def test_a_process_of_this_machine_whose_first_probe_decides_nothing_is_probed_again(self) -> None:
        here, subscriber = this_process(), Subscriber()
        found = [Presence.UNKNOWN, Presence.UNKNOWN, Presence.GONE]
        watch = watching(lambda process: found.pop(0))

        watch.watch(subscriber, [here])
        at_first = watch.observations([here])[here.id].presence
        await asyncio.sleep(10.0)

        assert (at_first, subscriber.notified, found) == (Presence.UNKNOWN, 1, [])


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this Python has no pidfd_open")
class TestWithPidfds:
    async def test_the_kernel_reports_the_end_and_the_time_is_an_instant(self) -> None:
        subscriber = Subscriber()
        watch = ProcessWatch(alarms(asyncio.get_running_loop()), LoopClock())
        child = waiting_child()
        process = process_of(child.pid)
        watch.watch(subscriber, [process])

        child.kill()
        await asyncio.wait_for(subscriber.changed.wait(), 30.0)
        found = watch.observations([process])[process.id]
        child.communicate()

        assert found.presence is Presence.GONE
        assert found.alive_at == found.gone_by
        watch.close()
        assert watch.watched == 0

    async def test_a_loop_that_was_held_up_does_not_claim_to_know_the_instant(self) -> None:
        subscriber, clock = Subscriber(), FakeClock()
        watch = ProcessWatch(alarms(asyncio.get_running_loop()), clock)
        child = waiting_child()
        process = process_of(child.pid)
        watch.watch(subscriber, [process])
        alive_at = clock.now_ms()

        child.kill()
        clock.advance(6.0)  # the machine was asleep
        await asyncio.wait_for(subscriber.changed.wait(), 30.0)
        found = watch.observations([process])[process.id]
        child.communicate()

        assert (found.alive_at, found.gone_by) == (alive_at, alive_at + 6_000)
        watch.close()

    async def test_no_descriptor_is_left_open_and_only_so_many_are_held(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_watch, "MOST_PIDFDS", 1)
        watch = ProcessWatch(alarms(asyncio.get_running_loop()), LoopClock())
        here = process_of(os.getpid())
        before = open_files()
        one, other = Subscriber(), Subscriber()

        watch.watch(one, [here])
        watch.watch(other, [replace(here, role="command", id="another")])
        held = open_files() - before
        watch.close()

        assert held == 1
        assert open_files() == before
