"""A thousand open executions among many that are closed: found without reading those, and written at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from longwatch.errors import VersionConflict
from longwatch.executions.finder import Finder
from longwatch.executions.model import Execution
from longwatch.testing import FakeClock
from tests.load.backends import Backend
from tests.load.records import fill, records
from tests.load.sizes import CLOSED_IN_A_FILE, CLOSED_IN_A_TABLE, OPEN, READS
from tests.load.timings import INDEX_QUERY, Timings, print_line

WRITERS = 16
RIVALS = 8


@pytest.fixture
def closed(backend: Backend, clock: FakeClock) -> int:
    """How many closed ones there are, beside those that are open."""
    count = CLOSED_IN_A_FILE if backend.name == "SQLite" else CLOSED_IN_A_TABLE
    began = time.perf_counter()
    fill(backend.store, records(count, now_ms=clock.now_ms(), is_open=False))
    fill(backend.store, records(OPEN, now_ms=clock.now_ms(), is_open=True))
    print_line(
        f"{backend.name}: {count:,} closed and {OPEN:,} open, filled in {time.perf_counter() - began:.0f} s"
    )
    return count


def test_a_thousand_open_executions_are_found_dispatched_and_leased(
    backend: Backend, closed: int, clock: FakeClock
) -> None:
    handed: list[Execution] = []
    reads, wanted = Timings(), [f"open-{number:06}" for number in range(OPEN)]

    tick = Finder(backend.store, handed.append, clock=clock).tick()
    processor = time.process_time()
    for _ in range(READS):
        with reads.timed():
            found = [each.execution_id for each in backend.store.open_executions()]
        assert found == wanted  # all of them, oldest first, and no other
    processor = time.process_time() - processor
    began = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as writers:
        leased = list(writers.map(lambda each: backend.store.update(_leased(each, "a poller")), handed))
    took = time.perf_counter() - began

    assert (tick.dispatched, tick.failed, tick.survey.open) == (OPEN, 0, OPEN)
    assert [each.execution_id for each in handed] == wanted
    assert {each.version for each in leased} == {2}
    assert {each.lease_holder for each in backend.store.open_executions()} == {"a poller"}
    assert_only_open_ones_were_read(backend)
    print_line(reads.line(f"{backend.name}, {closed:,} closed: all {OPEN:,} open ones"))
    print_line(f"  {processor / READS:.2f} s of processor for each look at all of them")
    if backend.of_store.calls:
        queries = backend.of_store.timings("Query")
        print_line(queries.line(f"{backend.name}, {closed:,} closed: a query of the index", INDEX_QUERY))
    print_line(f"{backend.name}: {OPEN / took:,.0f} conditional writes a second, {WRITERS} at a time")


def test_of_pollers_that_race_for_one_execution_one_wins_each_time(
    backend: Backend, clock: FakeClock
) -> None:
    fill(backend.store, records(1, now_ms=clock.now_ms(), is_open=True))

    def race(name: str) -> int:
        won = 0
        while (seen := backend.store.get("open-000000")) is not None and seen.version <= 20:
            try:
                backend.store.update(_leased(seen, name))
                won += 1
            except VersionConflict:
                pass
        return won

    with ThreadPoolExecutor(RIVALS) as rivals:
        won = list(rivals.map(race, (f"poller-{n}" for n in range(RIVALS))))

    final = backend.store.get("open-000000")
    assert final is not None
    assert sum(won) == final.version - 1  # every write with a response counts, and none counts twice


def assert_only_open_ones_were_read(backend: Backend) -> None:
    """Both indexes were queried for the open ones, page by page, and read no other."""
    queries = [call for call in backend.of_store.calls if call.operation == "Query"]
    if queries:
        assert sum(call.examined for call in queries) == 2 * (READS + 2) * OPEN


def _leased(execution: Execution, holder: str) -> Execution:
    return replace(execution, lease_holder=holder, lease_until=execution.started_at + 90_000)
