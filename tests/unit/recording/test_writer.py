"""A process with open runs refreshes one record in the journal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

from longwatch.errors import JournalBusy, TableProblem
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.recorder import Recorder
from longwatch.recording.writer import Heartbeat
from longwatch.settings import Settings
from longwatch.testing import FakeClock, FaultyJournal


class Beaten(MemoryJournal):
    """Records every heartbeat, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[tuple[str, int]] = []
        self.error: Exception | None = None

    def beat(self, process_id: str, at_ms: int) -> None:
        self.beats.append((process_id, at_ms))
        if self.error is not None:
            raise self.error

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        return dict(self.beats)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def new_heartbeat(clock: FakeClock, seconds: float | None = None) -> Heartbeat:
    return Heartbeat(lambda: "p", seconds=seconds, clock=clock)


@pytest.mark.parametrize(("setting", "expected"), [(None, [15, 30, 45]), (20.0, [20, 40]), (0.0, [])])
def test_the_first_heartbeat_comes_after_an_interval_and_then_one_in_each(
    setting: float | None, expected: list[int], clock: FakeClock
) -> None:
    journal, heartbeat = Beaten(), new_heartbeat(clock, setting)
    began = clock.now_ms()

    for _ in range(50):
        heartbeat.update(journal, runs_are_open=True)
        clock.advance(1)

    assert [(each, at - began) for each, at in journal.beats] == [("p", each * 1_000) for each in expected]


def test_no_heartbeat_is_sent_while_no_run_is_open_and_the_interval_starts_again(clock: FakeClock) -> None:
    journal, heartbeat = Beaten(), new_heartbeat(clock)
    heartbeat.update(journal, runs_are_open=True)
    clock.advance(20)

    heartbeat.update(journal, runs_are_open=False)
    assert heartbeat.seconds_left() is None
    heartbeat.update(journal, runs_are_open=True)

    assert journal.beats == []
    assert heartbeat.seconds_left() == 15


def test_no_heartbeat_is_sent_in_lambda(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
    journal, heartbeat = Beaten(), new_heartbeat(clock)

    heartbeat.update(journal, runs_are_open=True)

    assert heartbeat.seconds_left() is None


@pytest.mark.parametrize(
    ("error", "beats", "lines"),
    [
        (JournalBusy("locked"), 3, 0),  # the next one will do
        (TableProblem("access-denied", "no right to put"), 1, 1),
        (RuntimeError("a bug"), 1, 1),
    ],
)
def test_a_journal_that_denies_heartbeats_gets_no_more_and_is_reported_once(
    error: Exception, beats: int, lines: int, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    journal, heartbeat = Beaten(), new_heartbeat(clock)
    journal.error = error

    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            heartbeat.update(journal, runs_are_open=True)
            clock.advance(15)

    assert len(journal.beats) == beats
    assert len(caplog.records) == lines


def test_a_journal_without_heartbeats_is_left_alone(clock: FakeClock) -> None:
    heartbeat = new_heartbeat(clock)

    heartbeat.update(FaultyJournal(), runs_are_open=True)

    assert heartbeat.seconds_left() is None


def test_an_outage_leaves_heartbeats_out(clock: FakeClock) -> None:
    journal, heartbeat = Beaten(), new_heartbeat(clock, 20.0)
    heartbeat.update(journal, runs_are_open=True)
    clock.advance(20)

    heartbeat.update(None, runs_are_open=True)

    assert journal.beats == []
    assert heartbeat.seconds_left() == 20


def test_a_recorder_sends_one_heartbeat_for_all_runs_of_its_process(
    settings: Settings, clock: FakeClock
) -> None:
    journal = Beaten()
    recorder = Recorder(journal, settings=settings, clock=clock)
    for run_id in ("wf-1", "wf-2"):
        recorder.record(run_id, "step", {})
    recorder.flush()

    clock.advance(15)
    recorder.record("wf-1", "step", {})  # the writer waits in real time, and this wakes it
    recorder.flush()
    recorder.close()

    assert journal.beats == [(recorder.membership.process.id, clock.now_ms())]
