"""The outbox stores events until a process ships them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.errors import Unreachable
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.recording.outbox import Outbox, ShipReport, announcements
from longwatch.testing import FakeClock, FaultyJournal
from tests.unit.recording.recorded import events_of


def event(n: int, run_id: str = "wf-1", **fields: object) -> Event:
    return Event(
        run_id=run_id,
        event_id=f"{run_id}-{n:04}",
        type="step",
        occurred_at=1_000 + n,
        payload={"n": n, "raw": b"\x00", "set": {1, 2}},
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "deep" / "outbox.db", clock=FakeClock())


def test_the_file_appears_when_the_first_event_has_to_wait(outbox: Outbox) -> None:
    assert outbox.pending() == []
    assert outbox.refused() == []
    assert not outbox.path.exists()

    outbox.put("memory://a", [event(1)])

    assert outbox.path.exists()


def test_it_lists_what_waits_for_which_journal(outbox: Outbox) -> None:
    outbox.put("memory://a", [event(2), event(1)])
    outbox.put("memory://b", [event(3)])
    outbox.put("memory://b", [event(3)])

    assert [(each.url, each.events, each.oldest_ms) for each in outbox.pending()] == [
        ("memory://a", 2, 1_001),
        ("memory://b", 1, 1_003),
    ]


def test_everything_is_shipped_to_its_own_journal_as_it_was(outbox: Outbox) -> None:
    journals = {"memory://a": MemoryJournal("a"), "memory://b": MemoryJournal("b")}
    outbox.put("memory://a", [event(n) for n in range(600)])
    outbox.put("memory://b", [event(1, "wf-2")])
    seen: list[tuple[int, int]] = []

    report = outbox.ship(journals.__getitem__, progress=lambda done, total: seen.append((done, total)))

    shipped = [each for each in events_of(journals["memory://a"], "wf-1") if each.type == "step"]
    assert shipped == [event(n) for n in range(600)]
    assert (report.shipped, report.left, report.refused, report.errors) == (601, 0, 0, [])
    assert seen == [(250, 601), (500, 601), (600, 601), (601, 601)]
    assert outbox.pending() == []


def test_a_journal_that_does_not_respond_is_skipped_with_an_error(outbox: Outbox) -> None:
    good, bad = MemoryJournal(), FaultyJournal()
    bad.fail(error=Unreachable("nobody home"))
    journals: dict[str, Journal] = {"memory://good": good, "memory://bad": bad}
    outbox.put("memory://bad", [event(1)])
    outbox.put("memory://good", [event(2)])

    report = outbox.ship(journals.__getitem__)

    assert (report.shipped, report.left, report.errors) == (1, 1, ["memory://bad: nobody home"])
    assert outbox.ship(lambda url: good).shipped == 1  # at once: a failed try claims nothing


def test_an_unreadable_line_is_set_aside(outbox: Outbox) -> None:
    journal = MemoryJournal()
    outbox.put("memory://a", [event(1), event(2)])
    with outbox._database.writing() as connection:
        connection.execute('UPDATE waiting SET line = \'{"from": "the future"}\' WHERE id = 1')

    report = outbox.ship(lambda url: journal)

    assert (report.shipped, report.refused, report.left) == (1, 1, 0)
    assert outbox.refused() == [("wf-1-0001", outbox.refused()[0][1])]
    assert "unknown field from" in outbox.refused()[0][1]


def test_two_shippers_do_not_take_the_same_batch(outbox: Outbox) -> None:
    outbox.put("memory://a", [event(n) for n in range(300)])
    other = Outbox(outbox.path, clock=FakeClock())
    first, second = MemoryJournal(), MemoryJournal()

    class Shipping(MemoryJournal):
        """A journal during whose first append another process ships too."""

        def append(self, events: object) -> None:
            if not second.find_runs().runs:
                other.ship(lambda url: second)
            first.append(events)  # type: ignore[arg-type]

    outbox.ship(lambda url: Shipping())

    claimed = [{e.event_id for e in events_of(each, "wf-1") if e.type == "step"} for each in (first, second)]
    assert [len(ids) for ids in claimed] == [250, 50]
    assert not claimed[0] & claimed[1]


SHIPPER_THAT_DIES = """
import os, sys
from pathlib import Path
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.outbox import Outbox

class Killing(MemoryJournal):
    def append(self, events):
        os.kill(os.getpid(), 9)

Outbox(Path(sys.argv[1])).ship(lambda url: Killing())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which processes are gone")
def test_events_claimed_by_a_process_that_is_gone_are_shipped_at_once(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    outbox.put("memory://a", [event(n) for n in range(300)])
    subprocess.run([sys.executable, "-c", SHIPPER_THAT_DIES, str(outbox.path)], check=False)

    report = outbox.ship(lambda url: MemoryJournal())

    assert (report.shipped, report.left, report.errors) == (300, 0, [])


def test_events_claimed_by_a_living_process_are_left_to_it(outbox: Outbox) -> None:
    outbox.put("memory://a", [event(1)])
    reports: list[ShipReport] = []

    class Shipping(MemoryJournal):
        """A journal during whose append the same outbox is shipped too."""

        def append(self, events: object) -> None:
            if not reports:
                reports.append(Outbox(outbox.path, clock=FakeClock()).ship(lambda url: MemoryJournal()))

    outbox.ship(lambda url: Shipping())

    assert [(report.shipped, report.left) for report in reports] == [(0, 1)]
    assert "another process has claimed 1" in reports[0].errors[0]


def test_a_late_batch_names_the_range_of_each_run_and_lives_as_long_as_its_events() -> None:
    late = [event(5, ttl=90), event(2, ttl=80), event(9, "wf-2", ttl=70), event(9, "wf-3")]

    announced = announcements([*late, event(1, "wf-2")], now_ms=50_000)

    assert [(each.run_id, each.type, each.payload, each.ttl) for each in announced] == [
        ("wf-1", "late_batch", {"from": 1_002, "to": 1_005, "count": 2}, 90),
        ("wf-2", "late_batch", {"from": 1_001, "to": 1_009, "count": 2}, None),
        ("wf-3", "late_batch", {"from": 1_009, "to": 1_009, "count": 1}, None),
    ]
    assert {each.occurred_at for each in announced} == {50_000}
