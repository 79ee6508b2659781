"""A recorder accepts no more than it has room for, and reports what it had to drop."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.recording import queue
from longwatch.recording.writer import NUMBERED_AT_ONCE
from longwatch.testing import FakeClock, FaultyJournal
from tests.patience import PATIENCE_SECONDS
from tests.unit.recording.conftest import MakeRecorder
from tests.unit.recording.gate import Gate
from tests.unit.recording.recorded import events_of, types_of, verification_of

RUN = "wf-1"


def test_a_full_queue_drops_counts_and_reports(
    make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Gate()
    recorder = make_recorder(journal, queue_events=100)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    with caplog.at_level(logging.WARNING, "longwatch"):
        for n in range(150):
            recorder.record(RUN, "step", {"n": n})
        recorder.record("wf-2", "step", {})
    waiting = recorder.stats().recorded
    journal.open.set()
    recorder.close()

    stored = [event.payload["n"] for event in events_of(journal, RUN) if event.type == "step"]
    assert stored == list(range(100))
    assert waiting == 101
    assert recorder.stats().dropped == 51
    assert [e.payload for e in events_of(journal, RUN) if e.type == "events_dropped"] == [{"count": 50}]
    assert types_of(journal, "wf-2") == ["events_dropped"]
    assert str(verification_of(journal, RUN).answer) == "complete"
    assert caplog.text.count("the queue is full") == 1


def test_large_payloads_fill_the_queue_by_their_bytes(
    make_recorder: MakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "QUEUE_BYTES", 4_000_000)
    journal = Gate()
    recorder = make_recorder(journal)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    for _ in range(20):
        recorder.record(RUN, "large", {"text": "x" * 400_000})
    held = recorder.stats()
    journal.open.set()
    recorder.close(PATIENCE_SECONDS)

    assert 1 < held.recorded <= 1 + 4_000_000 // 350_000 + 1
    assert held.recorded + held.dropped == 21
    recorder.record(RUN, "large", {"text": "x" * 400_000})  # there is room again
    assert recorder.flush()
    assert recorder.stats().dropped == held.dropped


def test_foreign_events_are_bounded_too(make_recorder: MakeRecorder) -> None:
    journal = Gate()
    recorder = make_recorder(journal, queue_events=100)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    for n in range(110):
        recorder.append(Event(run_id=RUN, event_id=f"e{n}", type="line", occurred_at=1))
    journal.open.set()
    recorder.close()

    assert types_of(journal, RUN).count("line") == 100
    assert recorder.stats().dropped == 10


def test_a_foreign_event_that_no_journal_can_hold_does_not_stop_the_others(
    journal: MemoryJournal, make_recorder: MakeRecorder
) -> None:
    recorder = make_recorder(journal)

    recorder.append(
        Event(run_id=RUN, event_id="e1", type="line", occurred_at=1, payload={"n": float("inf"), "a": 1})
    )
    recorder.append(Event(run_id=RUN, event_id="e2", type="line", occurred_at=2))

    assert recorder.flush()
    assert [event.payload for event in events_of(journal, RUN)] == [{"n": "inf", "a": 1}, {}]


def test_events_that_fit_nowhere_are_held_and_reported(
    tmp_path: Path, make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outbox.db").write_text("something else entirely, and no database")
    faulty = FaultyJournal()
    faulty.fail()
    recorder = make_recorder(faulty)

    with caplog.at_level(logging.WARNING, "longwatch"):
        recorder.record(RUN, "step", {})
        recorder.record(RUN, "step", {})
        flushed = recorder.flush(0.1)
        closed = recorder.close(0.1)
    faulty.recover()

    assert not flushed
    assert not closed
    assert "the outbox" in caplog.text
    assert "2 events could not be stored before the process ended" in caplog.text
    assert recorder.flush(PATIENCE_SECONDS)  # held in memory, not lost
    assert types_of(faulty, RUN) == ["step", "step"]


def test_the_writer_gives_the_interpreter_away_within_a_large_group(make_recorder: MakeRecorder) -> None:
    journal, clock = Gate(), FakeClock()
    recorder = make_recorder(journal, clock=clock)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    for n in range(4 * NUMBERED_AT_ONCE):
        recorder.record(RUN, "step", {"n": n})
    journal.open.set()
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    assert clock.slept == [0.0] * 3


def test_the_writer_keeps_the_interpreter_while_a_caller_waits_for_it(make_recorder: MakeRecorder) -> None:
    journal, clock = Gate(), FakeClock()
    recorder = make_recorder(journal, clock=clock)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    for n in range(4 * NUMBERED_AT_ONCE):
        recorder.record(RUN, "step", {"n": n})
    mark = recorder.start_closing()
    journal.open.set()

    assert recorder.finish_closing(mark, PATIENCE_SECONDS)
    assert clock.slept == []
