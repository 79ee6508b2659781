"""A stored event that cannot be decoded is an unreadable event; everything else is read as before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.following import Ended, Hub, Reason
from longwatch.following.observation import Observer, read_known
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.rows import EVENT_COLUMNS, event_to_row, events_from_rows
from longwatch.journal.verify import Completeness, Verification, Verifier
from longwatch.model.event import START, UNREADABLE, Event
from longwatch.model.process import ProcessIdentity, process_of
from longwatch.model.run import Status

from . import damage

Damage = Callable[[Path, str, int], None]


def read_all(journal: SqliteJournal, run_id: str, limit: int = 7) -> list[Event]:
    found: list[Event] = []
    cursor = START
    while True:
        page = journal.read(run_id, after=cursor, limit=limit)
        found += page.events
        cursor = page.cursor
        if not page.more:
            return found


def verified(events: list[Event]) -> Verification:
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    return verifier.report(damage.AT + 10_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("spoil", [damage.invalid_byte, damage.not_json])
def test_a_row_that_cannot_be_decoded_is_a_marked_gap(path: Path, spoil: Damage) -> None:
    runs = damage.make(path)
    spoil(path, "run-b", 5)

    with SqliteJournal(path) as journal:
        found = read_all(journal, "run-b")

        gap = found[4]
        assert (gap.type, gap.number, gap.producer) == (UNREADABLE, 5, damage.producer_of("run-b"))
        assert gap.event_id == runs["run-b"][4].event_id
        assert [each for each in found if each is not gap] == [
            each for each in runs["run-b"] if each.number != 5
        ]
        assert verified(found).answer is Completeness.ALTERED
        assert verified(found).producers[0].altered.ranges == ((5, 5),)


@pytest.mark.parametrize("spoil", [damage.invalid_byte, damage.not_json])
def test_arrivals_of_all_runs_carry_the_gap(path: Path, spoil: Damage) -> None:
    runs = damage.make(path)
    spoil(path, "run-b", 5)

    with SqliteJournal(path) as journal:
        arrived = [event for _, event in journal.arrivals(0, limit=1000)]

    assert len(arrived) == 3 * damage.EVENTS
    assert [each.event_id for each in arrived if each.type == UNREADABLE] == [runs["run-b"][4].event_id]


@pytest.mark.parametrize("spoil", [damage.invalid_byte, damage.not_json])
def test_other_runs_are_unaffected(path: Path, spoil: Damage) -> None:
    runs = damage.make(path)
    spoil(path, "run-b", 5)

    with SqliteJournal(path) as journal:
        assert read_all(journal, "run-a") == runs["run-a"]
        assert read_all(journal, "run-c") == runs["run-c"]


def test_an_overwritten_page_loses_only_its_own_rows(path: Path) -> None:
    runs = damage.make(path)
    pages = damage.leaf_pages(path, b"run-b")
    damage.overwrite_page(path, pages[len(pages) // 2])

    with SqliteJournal(path) as journal:
        found = read_all(journal, "run-b")
        gaps = [each for each in found if each.type == UNREADABLE]

        assert 0 < len(gaps) < damage.EVENTS
        assert [each.event_id for each in found] == [each.event_id for each in runs["run-b"]]
        assert {each.producer for each in gaps} == {damage.producer_of("run-b")}
        assert [each for each in found if each.type != UNREADABLE] == [
            each for each in runs["run-b"] if each.number not in {gap.number for gap in gaps}
        ]
        assert verified(found).answer is Completeness.ALTERED
        assert read_all(journal, "run-a") == runs["run-a"]


def test_a_damaged_index_is_read_around(path: Path) -> None:
    runs = damage.make(path)
    data = path.read_bytes()
    for number in range(2, len(data) // damage.PAGE_BYTES + 1):
        page = data[(number - 1) * damage.PAGE_BYTES : number * damage.PAGE_BYTES]
        if page[0] == 0x0A and page.count(b"run-") > 10 and b"succeeded" not in page:
            damage.overwrite_page(path, number)

    with SqliteJournal(path) as journal:
        for run_id, events in runs.items():
            assert read_all(journal, run_id) == events


def test_a_truncated_file_gives_what_is_left(path: Path) -> None:
    runs = damage.make(path)
    damage.truncate(path, path.stat().st_size // damage.PAGE_BYTES * 3 // 4)

    with SqliteJournal(path) as journal:
        listed = {run.run_id for run in journal.find_runs().runs}
        found = {run_id: read_all(journal, run_id) for run_id in runs}

    readable = {run_id: [e for e in events if e.type != UNREADABLE] for run_id, events in found.items()}
    assert readable["run-a"]
    assert all(event in runs[run_id] for run_id, events in readable.items() for event in events)
    damaged = [run_id for run_id, events in readable.items() if events != runs[run_id]]
    assert damaged
    assert all(verified(found[run_id]).answer is not Completeness.COMPLETE for run_id in damaged)
    assert {run_id for run_id, events in found.items() if events} <= listed


def test_a_summary_that_cannot_be_decoded_is_made_from_the_events(path: Path) -> None:
    damage.make(path)
    with SqliteJournal(path) as journal:
        before = journal.find_run("run-b")
    damage.change(path, "UPDATE runs SET summary = '[1, 2' WHERE run_id = 'run-b'")

    with SqliteJournal(path) as journal:
        assert journal.find_run("run-b") == before
        assert {run.run_id for run in journal.find_runs().runs} == set(damage.RUNS)


def test_events_are_appended_to_a_run_whose_summary_is_damaged(path: Path) -> None:
    damage.make(path)
    damage.change(path, "UPDATE runs SET summary = CAST(x'ff' AS TEXT) WHERE run_id = 'run-b'")

    with SqliteJournal(path) as journal:
        journal.append([Event(run_id="run-b", event_id="later", type="note", occurred_at=damage.AT + 99)])

        found = journal.find_run("run-b")
        assert found is not None
        assert found.events == damage.EVENTS + 1


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("call_id", 0),
        ("agent_name", 1.5),
        ("type", 7),
        ("occurred_at", "soon"),
        ("number", 2.5),
        ("ttl", "x"),
        ("run_id", ""),
        ("type", ""),
        ("occurred_at", -1),
        ("occurred_at", 2**62),
        ("number", 0),
        ("number", None),
        ("producer", None),
        ("payload", "[1]"),
        ("payload", 5),
        ("payload", '{"raw":{"$bytes":"no base64"}}'),
    ],
)
def test_a_value_that_no_event_has_is_a_marked_gap(column: str, value: object) -> None:
    before, event = damage.chain("run-a")[3:5]
    rows = [dict(zip(EVENT_COLUMNS.split(", "), event_to_row(each), strict=True)) for each in (before, event)]
    rows[1][column] = value

    found = events_from_rows([(*row.values(), 1, at) for at, row in enumerate(rows)])

    assert found[0] == before
    assert found[1].type == UNREADABLE
    assert found[1].event_id == event.event_id


def test_payloads_of_tagged_values_are_read_beside_others(path: Path) -> None:
    tagged = Event(run_id="run-a", event_id="tagged", type="note", occurred_at=1, payload={"raw": b"\xff"})
    plain = Event(run_id="run-a", event_id="plain", type="note", occurred_at=2, payload={"text": "plain"})
    with SqliteJournal(path) as journal:
        journal.append([tagged, plain])

        assert read_all(journal, "run-a") == [tagged, plain]


async def ended(path: Path, run_id: str) -> Ended:
    with SqliteJournal(path) as journal:
        async with Hub(journal) as hub:
            async for item in hub.follow(run_id):
                if isinstance(item, Ended):
                    return item
    raise AssertionError("it never ended")


@pytest.mark.parametrize("spoil", [damage.invalid_byte, damage.not_json])
async def test_a_run_whose_ending_cannot_be_read_ends_as_its_summary_does(path: Path, spoil: Damage) -> None:
    damage.make(path)
    spoil(path, "run-b", damage.EVENTS - 1)

    found = await ended(path, "run-b")

    assert (found.reason, found.status) == (Reason.ENDED, Status.SUCCEEDED)


def dead_process() -> ProcessIdentity:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = process_of(child.pid)
    child.communicate()
    assert process is not None
    return process


def make_abandoned(path: Path) -> None:
    """A run of two events whose process is gone."""
    payload = {"name": "work", "process": dead_process().fields}
    start = Event(
        run_id="run-a", event_id="start", type="workflow_start", occurred_at=damage.AT, payload=payload
    )
    with SqliteJournal(path) as journal:
        journal.append([start, replace(start, event_id="note", type="note", payload={})])
    damage.change(path, "UPDATE events SET payload = '{no json' WHERE event_id = 'note'")


def test_a_run_with_an_unreadable_event_is_judged_by_its_summary(path: Path) -> None:
    make_abandoned(path)

    with SqliteJournal(path) as journal:
        progress = read_known(journal, "run-a")

        assert not progress.lifecycle.has_gaps
        assert Observer(journal).death_of("run-a", progress) is not None


def test_a_run_with_an_unreadable_event_and_no_summary_is_not_judged_dead(path: Path) -> None:
    make_abandoned(path)
    damage.change(path, "UPDATE runs SET summary = '[1, 2'")

    with SqliteJournal(path) as journal:
        progress = read_known(journal, "run-a")
        observed = Observer(journal).find_runs()

        assert progress.lifecycle.has_gaps
        assert Observer(journal).death_of("run-a", progress) is None
        assert [each.run.status for each in observed.runs] == [Status.RUNNING]
        assert [each.name for run in observed.runs for each in run.conditions] == ["unreadable"]
