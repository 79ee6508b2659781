"""The arrivals reader with a signal that reports writes before they can be read."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from longwatch.following.arrivals_reader import POST_WRITE_POLLS_SECONDS, REPEAT_AFTER_SECONDS
from longwatch.following.hub import Hub
from longwatch.journal.arrivals import Arrival
from longwatch.journal.sqlite import SqliteJournal
from tests.contract.events import event, new_run
from tests.contract.watches import Watch


class Syncing(SqliteJournal):
    """Shows what is appended only after so many polls."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.hidden_after: int | None = None
        self.polled = threading.Event()
        self.stall_seconds = 0.0  # of the last vain poll
        self._vain_polls = 0
        self._lock = threading.Lock()  # the reader polls in threads

    def hide(self, *, polls: int) -> None:
        """Show nothing in the next polls."""
        with self._lock:
            self._vain_polls = polls

    def _is_hidden(self) -> bool:
        with self._lock:
            is_hidden = self._vain_polls > 0
            self._vain_polls -= is_hidden
            is_last = is_hidden and self._vain_polls == 0
        if is_last and self.stall_seconds:
            threading.Event().wait(self.stall_seconds)
        return is_hidden

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        self.polled.set()
        if self._is_hidden():
            return []
        found = super().arrivals(after, limit=limit)
        last = self.hidden_after
        return found if last is None else [arrival for arrival in found if arrival[0] <= last]


class Pipe:
    """Signals on demand, and never by itself."""

    check_seconds: float | None = None

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.descriptor: int | None
        self.descriptor, self._end = os.pipe2(os.O_NONBLOCK)
        self.closed = 0

    def signal(self) -> None:
        os.write(self._end, b"x")

    def drain(self) -> bool:
        assert self.descriptor is not None
        assert not self.closed
        try:
            return bool(os.read(self.descriptor, 100))
        except BlockingIOError:
            return False

    def changed(self) -> bool:
        raise AssertionError("no reader may poll")

    def close(self) -> None:
        self.closed += 1
        for descriptor in (self.descriptor, self._end):
            assert descriptor is not None
            os.close(descriptor)


@pytest.fixture
def syncing(path: Path) -> Iterator[Syncing]:
    with SqliteJournal(path):  # makes the file
        pass
    with Syncing(path) as journal:
        yield journal


class Pipes:
    """One for each subscription."""

    def __init__(self) -> None:
        self.all: list[Pipe] = []

    def subscribe(self, on_change: Callable[[], None]) -> Pipe:
        self.all.append(Pipe(on_change))
        return self.all[-1]


@pytest.mark.parametrize("vain_polls", [0, 3, 8, 11])
async def test_a_write_that_is_signalled_too_early_is_read_however_long_its_sync_takes(
    syncing: Syncing, vain_polls: int
) -> None:
    pipes, run = Pipes(), new_run()
    async with Hub(syncing, subscribe=pipes.subscribe) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        for number in (1, 2, 3):
            syncing.append([event(run, number)])
            syncing.hide(polls=vain_polls if number == 2 else 0)
            pipes.all[0].signal()
            await watch.has(number)

    assert [each.occurred_at for each in watch.events] == [1, 2, 3]
    assert [pipe.closed for pipe in pipes.all] == [1]


async def test_a_write_is_read_after_a_poll_that_outlasted_all_planned_ones(syncing: Syncing) -> None:
    pipes, run = Pipes(), new_run()
    syncing.stall_seconds = REPEAT_AFTER_SECONDS[-1] + 0.1  # as on a busy machine
    async with Hub(syncing, subscribe=pipes.subscribe) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        syncing.append([event(run, 1)])
        pipes.all[0].signal()
        await watch.has(1)
        await asyncio.sleep(REPEAT_AFTER_SECONDS[-1] + 0.01)  # the polls planned for the first write are over
        syncing.append([event(run, 2)])
        syncing.hide(polls=len(POST_WRITE_POLLS_SECONDS) + 1)
        pipes.all[0].signal()
        await watch.has(2)

    assert [each.occurred_at for each in watch.events] == [1, 2]


async def test_a_write_close_behind_another_is_read_although_they_share_a_signal(syncing: Syncing) -> None:
    pipes, run = Pipes(), new_run()
    async with Hub(syncing, subscribe=pipes.subscribe) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        syncing.append([event(run, 1)])
        syncing.append([event(run, 2)])
        syncing.hidden_after = 1
        pipes.all[0].signal()
        await watch.has(1)
        syncing.hidden_after = None
        await watch.has(2)

    assert [each.occurred_at for each in watch.events] == [1, 2]


async def test_a_poll_that_never_started_leaves_nothing_open(
    syncing: Syncing, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes, is_polled = Pipes(), asyncio.Event()
    hub = Hub(syncing, subscribe=pipes.subscribe)
    watch = Watch(hub.follow(new_run()))
    await watch.caught_up()
    monkeypatch.setattr(hub._threads, "poll", lambda call: is_polled.set())
    pipes.all[0].signal()
    await is_polled.wait()

    await hub.aclose()

    assert [pipe.closed for pipe in pipes.all] == [1]


async def test_a_follower_that_leaves_during_a_wait_closes_the_signal_once_and_others_start_again(
    syncing: Syncing,
) -> None:
    pipes, run = Pipes(), new_run()
    async with Hub(syncing, subscribe=pipes.subscribe) as hub:
        for _ in range(20):
            leaves = Watch(hub.follow(new_run()))
            await leaves.caught_up()
            syncing.polled.clear()
            syncing.hide(polls=1_000)
            pipes.all[-1].signal()
            await asyncio.to_thread(syncing.polled.wait)
            await leaves.leave()
            syncing.hide(polls=0)

        watch = Watch(hub.follow(run))
        await watch.caught_up()
        syncing.append([event(run, 1)])
        pipes.all[-1].signal()
        await watch.has(1)

    assert [pipe.closed for pipe in pipes.all] == [1] * 21
