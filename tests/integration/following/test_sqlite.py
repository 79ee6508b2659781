"""Following a SQLite journal as it is used: threads, other processes, real time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import longwatch
from longwatch.following import DrainLimits, Ended, Hub, Reason
from longwatch.journal.claims import ending_id
from longwatch.journal.factory import open_journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.model.process import process_of
from longwatch.model.run import Status
from longwatch.turns import Conversations
from tests.contract.events import event, new_run
from tests.contract.watches import Watch

Start = Callable[..., "subprocess.Popen[str]"]

WRITER = """
import sys
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal

path, run, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with SqliteJournal(path) as journal:
    for number in range(1, count + 1):
        named = {"run_id": run, "event_id": f"{run}-{number}", "producer": "p", "number": number}
        journal.append([Event(type="note", occurred_at=number, **named)])
        if number == 1:
            print("begun", flush=True)
"""

RECORDER = """
import os, sys
import longwatch

longwatch.configure(sys.argv[1])
with longwatch.run("work", run_id=sys.argv[2]):
    longwatch.record("half_way")
    assert longwatch.flush()
    print("ready", flush=True)
    sys.stdin.readline()
"""

WATCHER = """
import asyncio, sys
import longwatch
from longwatch.following import Ended

async def main():
    async for item in longwatch.follow(sys.argv[2], journal=sys.argv[1]):
        if isinstance(item, Ended):
            print(item.reason, item.status, flush=True)

asyncio.run(main())
"""

WAYS = [
    pytest.param(True, id="inotify", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux only")),
    pytest.param(False, id="polling"),
]


@pytest.mark.parametrize("inotify", WAYS)
async def test_events_of_another_process_arrive_live_and_once(
    journal: SqliteJournal, path: Path, start: Start, inotify: bool
) -> None:
    runs = [new_run(), new_run()]

    async with Hub(journal, subscribe=partial(journal.subscribe, inotify=inotify)) as hub:
        watches = [Watch(hub.follow(run)) for run in (*runs, runs[0])]
        for watch in watches:
            await watch.caught_up()
        for run in runs:
            start(WRITER, path, run, 300)
        for watch in watches:
            await watch.has(300)

    for watch in watches:
        assert [each.number for each in watch.events] == list(range(1, 301))
        assert watch.shape.startswith("C")


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_inotify_is_enough_without_polling(
    journal: SqliteJournal, path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from longwatch.storage.sqlite import file_signal

    monkeypatch.setattr(file_signal, "CHECK_BESIDE_INOTIFY_SECONDS", None)
    monkeypatch.setattr(file_signal.InotifySignal, "check_seconds", None)
    run = new_run()

    async with Hub(journal) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        start(WRITER, path, run, 50)
        await watch.has(50)

    assert len(watch.events) == 50


@pytest.mark.skipif(sys.platform != "linux", reason="processes are distinguished by /proc")
async def test_the_end_of_a_killed_recorder_is_written_once_though_several_processes_watch(
    journal: SqliteJournal, path: Path, start: Start
) -> None:
    run, url = new_run(), f"sqlite:///{path}"
    recorder = start(RECORDER, url, run)
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "ready\n"
    others = [start(WATCHER, url, run) for _ in range(2)]

    async with Hub(journal, drain=DrainLimits(quiet_seconds=0.5)) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        os.kill(recorder.pid, signal.SIGKILL)
        ended = await watch.end()
    outputs = [await asyncio.to_thread(other.communicate) for other in others]

    assert (ended.reason, ended.status) == (Reason.DIED, Status.DIED)
    assert f"Process {recorder.pid}" in str(ended.message)
    assert {out for out, _ in outputs} == {"died died\n"}
    terminal = [each for each in journal.read(run).events if each.type == "workflow_error"]
    assert len(terminal) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are distinguished by /proc")
async def test_the_death_of_an_executor_that_a_program_follows_is_the_one_ending_of_its_turn(
    journal: SqliteJournal, path: Path
) -> None:
    conversations = Conversations(journal)
    conversations.create_project("p")
    conversations.create_conversation("p", "s")
    turn = conversations.create_turn("p", "s", "go").turn_id
    executor = await asyncio.create_subprocess_exec("sleep", "60")
    conversations.start("p", "s", turn, process=process_of(executor.pid).fields)
    executor.kill()
    await executor.wait()

    items = [item async for item in longwatch.follow(turn, journal=f"sqlite:///{path}")]

    assert isinstance(items[-1], Ended)
    assert items[-1].status is Status.DIED
    types = {event.event_id: event.type for event in journal.read(turn).events}
    assert types[ending_id(turn)] == "workflow_error"
    assert list(types.values()).count("turn_end_claimed") == 1


async def test_a_recorder_that_ends_by_itself_ends_the_watch_at_once(
    journal: SqliteJournal, path: Path, start: Start
) -> None:
    run, loop = new_run(), asyncio.get_running_loop()
    recorder = start(RECORDER, f"sqlite:///{path}", run)
    assert recorder.stdout is not None
    assert recorder.stdin is not None
    assert recorder.stdout.readline() == "ready\n"

    async with Hub(journal, drain=DrainLimits(quiet_seconds=30.0, most_seconds=40.0)) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()
        recorder.stdin.write("\n")
        recorder.stdin.close()
        began = loop.time()
        ended = await watch.end()

    assert (ended.reason, ended.status) == (Reason.ENDED, Status.SUCCEEDED)
    assert loop.time() - began < 25.0
    assert watch.events[-1].type == "producer_closed"


async def test_a_closed_hub_leaves_no_thread_no_task_and_no_descriptor(path: Path) -> None:
    await _follow_for_a_moment(path)
    threads, descriptors = set(threading.enumerate()), _descriptors()

    for _ in range(3):
        await _follow_for_a_moment(path)

    assert set(threading.enumerate()) == threads
    assert _descriptors() == descriptors
    assert len(asyncio.all_tasks()) == 1


async def _follow_for_a_moment(path: Path) -> None:
    with SqliteJournal(path) as journal:
        hub = Hub(journal)
        watches = [Watch(hub.follow(new_run())) for _ in range(20)]
        for watch in watches:
            await watch.caught_up()
        leaves = Watch(hub.follow(new_run()))
        await leaves.leave()
        await hub.aclose()
        for watch in watches:
            assert (await watch.end()).reason is Reason.STOPPED


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


async def test_closing_a_busy_hub_ends_everything(path: Path) -> None:
    with SqliteJournal(path) as journal:
        run = new_run()
        journal.append([event(run, at) for at in range(5_000)])
        hub = Hub(journal, page_events=50)
        watches = [Watch(hub.follow(run)) for _ in range(30)]
        await watches[0].has(60)

        await hub.aclose()
        endings = [await watch.end() for watch in watches]

    assert {ended.reason for ended in endings} == {Reason.STOPPED}


async def test_appends_of_another_thread_come_while_the_journal_is_followed(journal: SqliteJournal) -> None:
    runs = [new_run() for _ in range(4)]

    def write(run: str) -> None:
        for number in range(1, 101):
            journal.append([_numbered(run, number)])

    async with Hub(journal, buffer_events=20) as hub:
        watches = [Watch(hub.follow(run)) for run in runs for _ in range(3)]
        threads = [threading.Thread(target=write, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for watch in watches:
            await watch.has(100)
        for thread in threads:
            await asyncio.to_thread(thread.join)

    for watch in watches:
        assert [each.number for each in watch.events] == list(range(1, 101))


def _numbered(run: str, number: int) -> Event:
    return event(run, number, producer="p", number=number)


async def test_a_million_events_are_followed_in_little_memory(tmp_path: Path) -> None:
    """A hundred thousand here; what grows with them would show."""
    import tracemalloc

    run = new_run()
    with open_journal(f"sqlite:///{tmp_path / 'long.db'}") as journal:
        for first in range(0, 100_000, 5_000):
            journal.append([_numbered(run, number) for number in range(first + 1, first + 5_001)])
        async with Hub(journal) as hub:
            tracemalloc.start()
            count = highest = 0
            async for item in hub.follow(run):
                count += 1
                if count == 20_000:
                    tracemalloc.reset_peak()
                if count > 100_000:
                    break
                del item
            highest = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    assert count == 100_001
    assert highest < 8_000_000
