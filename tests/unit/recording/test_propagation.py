"""Threads and pools that are started inside a run belong to it, and to no other."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording import propagation
from longwatch.recording.recorder import Recorder, configure
from longwatch.recording.scope import SCOPE
from longwatch.settings import Settings
from tests.unit.recording.recorded import events_of


def run_here() -> str | None:
    scope = SCOPE.get()
    return scope.run_id if scope is not None else None


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_belongs_to_the_run_it_is_started_in(configured: Recorder) -> None:
    seen: list[str | None] = []

    with longwatch.run() as run:
        in_thread(lambda: seen.append(run_here()))
    in_thread(lambda: seen.append(run_here()))

    assert seen == [run.run_id, None]


def test_threads_of_threads_and_timers_and_subclasses_too(configured: Recorder) -> None:
    seen: list[str | None] = []

    class Worker(threading.Thread):
        def run(self) -> None:
            seen.append(run_here())
            in_thread(lambda: seen.append(run_here()))

    with longwatch.run() as run:
        worker, timer = Worker(), threading.Timer(0, lambda: seen.append(run_here()))
        for thread in (worker, timer):
            thread.start()
        for thread in (worker, timer):
            thread.join()

    assert seen == [run.run_id] * 3


def test_a_thread_whose_target_is_a_method_of_a_builtin_starts_as_before(configured: Recorder) -> None:
    found: list[int] = []

    with longwatch.run():
        thread = threading.Thread(target=found.append, args=(1,))
        thread.start()
        thread.join()

    assert found == [1]


def test_a_thread_without_a_target_starts_as_before(configured: Recorder) -> None:
    with longwatch.run():
        thread = threading.Thread()
        thread.start()
        thread.join()

    assert not thread.is_alive()


def test_the_call_around_a_thread_is_its_parent(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def fetch() -> None: ...

    @longwatch.agent
    def searcher() -> None:
        in_thread(fetch)

    with longwatch.run() as run:
        searcher()
    configured.flush()

    start, call, *_ = events_of(journal, run.run_id)[1:]
    assert call.agent_name == "searcher"
    assert call.parent_call_id == start.call_id


def test_a_pool_carries_each_task_into_its_own_run(configured: Recorder) -> None:
    with ThreadPoolExecutor(1) as pool:
        with longwatch.run() as one:
            first = pool.submit(run_here).result()
        outside = pool.submit(run_here).result()
        with longwatch.run() as two:
            second = pool.submit(run_here).result()
            mapped = list(pool.map(lambda _: run_here(), range(2)))

    assert (first, outside, second, mapped) == (one.run_id, None, two.run_id, [two.run_id] * 2)


def test_a_task_that_fails_in_a_pool_raises_as_before(configured: Recorder) -> None:
    with ThreadPoolExecutor(1) as pool, longwatch.run():
        failing = pool.submit(int, "x", base=10)

        with pytest.raises(ValueError, match="invalid literal"):
            failing.result()


async def test_asyncio_tasks_and_threads_carry_the_run(configured: Recorder) -> None:
    async def here() -> str | None:
        return run_here()

    loop = asyncio.get_running_loop()
    with longwatch.run() as run:
        inside = [
            await asyncio.create_task(here()),
            await asyncio.to_thread(run_here),
            await loop.run_in_executor(None, run_here),
        ]
    outside = [await asyncio.create_task(here()), await loop.run_in_executor(None, run_here)]

    assert inside == [run.run_id] * 3
    assert outside == [None] * 2


def test_threads_are_left_alone_where_the_settings_require_it(
    journal: MemoryJournal, settings: Settings
) -> None:
    configure(journal, settings=replace(settings, carry_context=False))
    seen: list[str | None] = []

    with longwatch.run():
        in_thread(lambda: seen.append(run_here()))

    assert seen == [None]
    assert threading.Thread.start is propagation._plain_start


def test_installing_twice_wraps_once(configured: Recorder) -> None:
    propagation.install()
    first = threading.Thread.start

    propagation.install()

    assert threading.Thread.start is first


def test_the_writer_itself_belongs_to_no_run(configured: Recorder) -> None:
    seen: list[str | None] = []

    class ScopeJournal(MemoryJournal):
        def append(self, events: object) -> None:
            seen.append(run_here())
            super().append(events)  # type: ignore[arg-type]

    configure(ScopeJournal(), settings=configured.settings)
    with longwatch.run():
        longwatch.record("step")
        longwatch.flush()

    assert set(seen) == {None}


def test_a_finished_thread_is_freed(configured: Recorder) -> None:
    import weakref

    with longwatch.run():
        thread = threading.Thread(target=run_here)
        thread.start()
        thread.join()
    trace = weakref.ref(thread)
    del thread
    gc.collect()

    assert trace() is None
