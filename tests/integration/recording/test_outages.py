"""A journal that goes away and comes back: everything arrives, once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.clock import SystemClock
from longwatch.errors import JournalBusy
from longwatch.journal.factory import open_journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.verify import Completeness
from longwatch.model.event import Event
from longwatch.recording.outbox import Outbox
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings
from longwatch.testing import FaultyJournal
from tests.integration.recording.processes import Workspace, all_events, finished, verification_of

RUN = "wf-1"
PATIENCE_SECONDS = 30


class QuickClock(SystemClock):
    """Time that passes a hundred times as fast, so that no test waits a second for a retry."""

    def monotonic(self) -> float:
        return super().monotonic() * 100


@pytest.fixture
def faulty(workspace: Workspace) -> Iterator[FaultyJournal]:
    with FaultyJournal(SqliteJournal(workspace.path)) as journal:
        yield journal


@pytest.fixture
def recorder(workspace: Workspace, faulty: FaultyJournal) -> Iterator[Recorder]:
    settings = Settings(journal=workspace.url, outbox=str(workspace.outbox))
    recorder = Recorder(faulty, settings=settings, clock=QuickClock())
    yield recorder
    recorder.close(1)


def steps(recorder: Recorder, first: int, last: int) -> None:
    for n in range(first, last):
        recorder.record(RUN, "step", {"n": n})
    assert recorder.flush()


def steps_of(events: list[Event]) -> list[object]:
    return [event.payload["n"] for event in events if event.type == "step"]


def test_events_that_waited_in_the_outbox_arrive_once_and_are_announced(
    workspace: Workspace, faulty: FaultyJournal, recorder: Recorder
) -> None:
    steps(recorder, 0, 10)
    faulty.fail()
    steps(recorder, 10, 700)
    waiting = Outbox(workspace.outbox).pending()
    faulty.recover()

    wait_until(lambda: recorder.stats().in_outbox == 0)
    steps(recorder, 700, 710)
    recorder.close()

    events = all_events(faulty, RUN)
    late = [event for event in events if event.type == "late_batch"]
    assert [(batch.url, batch.events) for batch in waiting] == [(workspace.url, 690)]
    assert steps_of(events) == list(range(710))
    assert sum(event.payload["count"] for event in late) == 690  # type: ignore[misc]
    assert len(late) == 3
    assert verification_of(events).answer is Completeness.COMPLETE
    assert Outbox(workspace.outbox).pending() == []


def test_another_process_ships_what_a_dead_one_left(workspace: Workspace) -> None:
    workspace.path.write_text("this is no database, however hard one looks")
    done = workspace.run(
        """
import longwatch
with longwatch.run(run_id="wf-1"):
    for n in range(20):
        longwatch.record("step", n=n)
assert longwatch.flush()
"""
    )
    workspace.path.unlink()

    report = Outbox(workspace.outbox).ship(open_journal)

    events = workspace.events(RUN)
    assert done.returncode == 0
    assert "is not a SQLite database" in done.stderr
    assert done.stderr.count("cannot deliver events") == 1
    assert (report.shipped, report.left, report.errors) == (23, 0, [])
    assert steps_of(events) == list(range(20))
    assert verification_of(events).answer is Completeness.COMPLETE


def test_the_next_process_ships_what_the_last_one_left(workspace: Workspace) -> None:
    recording = "import longwatch\nwith longwatch.run(run_id={!r}): pass\nassert longwatch.flush()"
    workspace.path.write_text("this is no database, however hard one looks")
    workspace.run(recording.format("wf-1"))
    workspace.path.unlink()

    workspace.run(recording.format("wf-2"))

    for run_id in ("wf-1", "wf-2"):
        assert verification_of(workspace.events(run_id)).answer is Completeness.COMPLETE
    assert Outbox(workspace.outbox).pending() == []


def test_two_processes_ship_at_once_and_everything_arrives_once(workspace: Workspace) -> None:
    outbox = Outbox(workspace.outbox)
    outbox.put(
        workspace.url,
        [
            Event(run_id=RUN, event_id=f"e{n:05}", type="step", occurred_at=1_000 + n, payload={"n": n})
            for n in range(3_000)
        ],
    )
    outbox.close()
    shipping = """
import sys
from pathlib import Path
from longwatch.journal.factory import open_journal
from longwatch.recording.outbox import Outbox
print(Outbox(Path(sys.argv[1])).ship(open_journal).shipped)
"""

    processes = [workspace.start(shipping, str(workspace.outbox)) for _ in range(2)]
    shipped = [int(finished(process)[0]) for process in processes]

    assert sum(shipped) == 3_000
    assert steps_of(workspace.events(RUN)) == list(range(3_000))
    assert outbox.pending() == []


def test_refused_events_are_stored_with_the_reason_across_processes(
    workspace: Workspace, faulty: FaultyJournal, recorder: Recorder
) -> None:
    faulty.refuse(lambda event: event.payload.get("n") == 3)
    steps(recorder, 0, 6)
    recorder.close()

    outbox = Outbox(workspace.outbox)

    assert steps_of(all_events(faulty, RUN)) == [0, 1, 2, 4, 5]
    assert [reason for _, reason in outbox.refused()] == ["'step' events are refused here"]
    assert outbox.ship(open_journal).shipped == 0
    (producer,) = verification_of(all_events(faulty, RUN)).producers
    assert producer.missing == ((5, 5),)  # and the numbering shows which one is gone


def test_a_locked_journal_is_an_outage_and_nothing_is_lost(workspace: Workspace) -> None:
    with SqliteJournal(workspace.path, busy_timeout_ms=50) as journal:
        journal.append([Event(run_id="wf-0", event_id="e0", type="step", occurred_at=1)])
        recorder = Recorder(
            journal,
            settings=Settings(journal=workspace.url, outbox=str(workspace.outbox)),
            clock=QuickClock(),
        )
        holder = sqlite3.connect(workspace.path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")

        steps(recorder, 0, 5)
        in_outbox = recorder.stats().in_outbox
        holder.execute("COMMIT")
        holder.close()
        wait_until(lambda: recorder.stats().in_outbox == 0)
        recorder.close()

        assert in_outbox == 6  # with the one that names this process
        assert "is locked by another process" in str(recorder.stats().last_error)
        assert steps_of(all_events(journal, RUN)) == list(range(5))


def test_a_brief_busy_error_is_not_an_outage(faulty: FaultyJournal, recorder: Recorder) -> None:
    faulty.fail(1, JournalBusy("locked"))
    steps(recorder, 0, 3)

    wait_until(lambda: recorder.stats().in_outbox == 0)

    assert steps_of(all_events(faulty, RUN)) == [0, 1, 2]
    assert recorder.stats().failures == 1


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_text("no database at all, just text")])
def test_with_the_outbox_unwritable_events_are_held_until_the_journal_is_back(
    workspace: Workspace, faulty: FaultyJournal, recorder: Recorder, make: object
) -> None:
    make(workspace.outbox)  # type: ignore[operator]
    faulty.fail()
    recorder.record(RUN, "step", {"n": 0})

    flushed = recorder.flush(0.2)
    faulty.recover()

    assert not flushed
    assert recorder.flush(PATIENCE_SECONDS)
    assert steps_of(all_events(faulty, RUN)) == [0]


def wait_until(condition: object) -> None:
    """Until the writer thread has done it. Checks as often as it can, for half a minute."""
    tick = threading.Event()
    for _ in range(PATIENCE_SECONDS * 200):
        if condition():  # type: ignore[operator]
            return
        tick.wait(0.005)
    raise AssertionError("it did not happen")
