"""Whatever bytes of a file are changed: no traceback, no wrong `complete`, and other runs are unaffected."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longwatch.cli.doctor_checks import structure_faults
from longwatch.errors import LongwatchError
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.recovery import recover
from longwatch.journal.verify import Completeness, Verifier
from longwatch.model.event import START, UNREADABLE, Event
from longwatch.testing.clock import FakeClock

from . import damage

INDEX_PAGES = (0x02, 0x0A)  # by the first byte of a page
bounded = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
changes = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "journal.db"
    damage.make(path)
    return path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def spoiled(path: Path, places: list[tuple[int, int]], into: Path) -> Path:
    """A copy of the file with some bytes changed, alone in its folder."""
    shutil.rmtree(into)
    into.mkdir()
    data = bytearray(path.read_bytes())
    for offset, change in places:
        data[offset] ^= change
    copy = into / "journal.db"
    copy.write_bytes(data)
    return copy


def read_all(journal: SqliteJournal, run_id: str) -> list[Event]:
    found: list[Event] = []
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor, limit=15)
        found += page.events
        cursor, more = page.cursor, page.more
    return found


def result(journal: SqliteJournal, run_id: str, events: list[Event]) -> Completeness:
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    summary = journal.find_run(run_id)
    counted = None if summary is None else summary.events
    return verifier.report(damage.AT + 10_000, counted=counted).answer


def without_last(events: list[Event]) -> list[Event]:
    """What the digests vouch for: they do not cover the last event, nor when an event expires."""
    return [replace(event, ttl=None) for event in events[:-1]]


@bounded
@given(changes=changes)
def test_changed_bytes_never_verify_as_complete(
    whole: Path, scratch: Path, changes: list[tuple[float, int]]
) -> None:
    size = whole.stat().st_size
    path = spoiled(whole, [(int(at * size), change) for at, change in changes], scratch)

    with suppress(LongwatchError), SqliteJournal(path) as journal:
        journal.find_runs()
        journal.arrivals(0, limit=1000)
        for run_id in damage.RUNS:
            events = read_all(journal, run_id)
            if result(journal, run_id, events) is Completeness.COMPLETE:
                assert without_last(events) == without_last(damage.chain(run_id))
    with suppress(LongwatchError):
        recover(path, scratch / "new.db", clock=FakeClock(damage.AT))


@bounded
@given(changes=changes)
@example(changes=[(0.232421875, 128)])  # a position that is out of order
def test_changed_bytes_in_the_rows_of_one_run_leave_the_others_as_they_were(
    whole: Path, scratch: Path, changes: list[tuple[float, int]]
) -> None:
    data = whole.read_bytes()
    pages = [
        number - 1
        for number in damage.leaf_pages(whole, b"run-b")
        if not {b"run-a", b"run-c"} & {data[at : at + 5] for at in range((number - 1) * 4096, number * 4096)}
    ]
    size = len(pages) * damage.PAGE_BYTES
    places = [divmod(int(at * size), damage.PAGE_BYTES) for at, _ in changes]
    flips = [
        (pages[page] * damage.PAGE_BYTES + at, change)
        for (page, at), (_, change) in zip(places, changes, strict=True)
    ]
    path = spoiled(whole, flips, scratch)

    with SqliteJournal(path) as journal:
        assert read_all(journal, "run-a") == damage.chain("run-a")
        assert read_all(journal, "run-c") == damage.chain("run-c")
        arrived = [event for _, event in journal.arrivals(0, limit=1000)]
        assert {"run-a", "run-c"} <= {event.run_id for event in arrived if event.type != UNREADABLE}


@bounded
@given(changes=changes)
def test_changed_bytes_in_the_indexes_are_noticed_and_hide_nothing_from_recover(
    whole: Path, scratch: Path, changes: list[tuple[float, int]]
) -> None:
    data = whole.read_bytes()
    starts = range(damage.PAGE_BYTES, len(data), damage.PAGE_BYTES)
    places = [
        offset for at in starts if data[at] in INDEX_PAGES for offset in range(at, at + damage.PAGE_BYTES)
    ]
    path = spoiled(whole, [(places[int(at * len(places))], change) for at, change in changes], scratch)

    with suppress(LongwatchError), SqliteJournal(path) as journal:
        for run_id in damage.RUNS:
            events = read_all(journal, run_id)
            if events != damage.chain(run_id):
                assert result(journal, run_id, events).is_damage
                assert structure_faults(path)
    recover(path, scratch / "new.db", clock=FakeClock(damage.AT))
    with SqliteJournal(scratch / "new.db") as journal:
        assert all(read_all(journal, run_id) == damage.chain(run_id) for run_id in damage.RUNS)


def test_an_index_in_another_order_is_read_around(whole: Path, scratch: Path) -> None:
    data = whole.read_bytes()
    with closing(sqlite3.connect(whole)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_run'")
    page = (root - 1) * damage.PAGE_BYTES
    first, second = page + 8 + 2 * 10, page + 8 + 2 * 20  # pointers to two of its cells
    flips = [(first + at, data[first + at] ^ data[second + at]) for at in (0, 1)]
    path = spoiled(whole, [*flips, *((offset + second - first, change) for offset, change in flips)], scratch)

    with SqliteJournal(path) as journal:
        assert read_all(journal, "run-a") == damage.chain("run-a")


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_a_damaged_write_ahead_log_gives_what_was_written_before_the_damage(
    tmp_path: Path, at: float
) -> None:
    events, copy = damage.chain("run-a"), tmp_path / "copy"
    copy.mkdir()
    with SqliteJournal(tmp_path / "journal.db") as journal:
        for event in events:
            journal.append([event])
        for file in ("journal.db", "journal.db-wal"):
            shutil.copy(tmp_path / file, copy / file)
    log = copy / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    log.write_bytes(data)

    with SqliteJournal(copy / "journal.db") as journal:
        found = read_all(journal, "run-a")

        assert found == events[: len(found)]
        assert len(found) < len(events)
        assert result(journal, "run-a", found) is Completeness.OPEN
