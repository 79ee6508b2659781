"""The recorder queues in the caller's thread and stores in its own."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.recording import first_use
from longwatch.recording import recorder as recorder_module
from longwatch.recording.recorder import Recorder, configure, get_recorder
from longwatch.settings import Settings
from longwatch.testing import FakeClock, FaultyJournal
from tests.patience import PATIENCE_SECONDS
from tests.unit.recording.conftest import MakeRecorder
from tests.unit.recording.gate import Gate
from tests.unit.recording.recorded import events_of, types_of, verification_of

RUN = "wf-1"


def test_an_idle_recorder_stores_at_once_and_a_busy_one_in_groups(make_recorder: MakeRecorder) -> None:
    journal = Gate()
    recorder = make_recorder(journal)

    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)
    for n in range(50):
        recorder.record(RUN, "more", {"n": n})
    journal.open.set()

    assert recorder.flush()
    assert journal.groups == [1, 50]


def test_flush_is_true_once_everything_before_is_stored(
    journal: MemoryJournal, make_recorder: MakeRecorder
) -> None:
    recorder = make_recorder(journal)

    for n in range(2_500):
        recorder.record(RUN, "step", {"n": n})

    assert recorder.flush()
    assert [event.payload["n"] for event in events_of(journal, RUN)] == list(range(2_500))
    assert recorder.stats().stored == recorder.stats().recorded == 2_500


def test_flush_with_nothing_to_do_starts_no_thread(make_recorder: MakeRecorder) -> None:
    before = threading.active_count()

    assert make_recorder(MemoryJournal()).flush()

    assert threading.active_count() == before


def test_flush_is_false_when_time_runs_out(make_recorder: MakeRecorder) -> None:
    journal = Gate()
    recorder = make_recorder(journal)
    recorder.record(RUN, "step", {})

    in_time = recorder.flush(0.01)
    journal.open.set()

    assert not in_time
    assert recorder.flush()


def test_close_states_the_count_and_ends_the_thread(
    journal: MemoryJournal, make_recorder: MakeRecorder
) -> None:
    recorder = make_recorder(journal)
    recorder.record(RUN, "step", {})
    recorder.record("wf-2", "step", {})

    assert recorder.close()

    for run_id in (RUN, "wf-2"):
        assert [event.type for event in events_of(journal, run_id)] == ["step", "producer_closed"]
        assert str(verification_of(journal, run_id).answer) == "complete"
    assert recorder.close()


def test_recording_after_close_begins_again_with_a_new_producer(
    journal: MemoryJournal, make_recorder: MakeRecorder
) -> None:
    recorder = make_recorder(journal)
    recorder.record(RUN, "before", {})
    recorder.close()

    recorder.record(RUN, "after", {})
    recorder.close()

    events = events_of(journal, RUN)
    assert sorted(types_of(journal, RUN)) == ["after", "before"]  # perhaps in one millisecond
    assert len({event.producer for event in events}) == 2
    assert str(verification_of(journal, RUN).answer) == "complete"


def test_nothing_is_left_behind_by_recording_while_others_close(
    journal: MemoryJournal, make_recorder: MakeRecorder
) -> None:
    recorder = make_recorder(journal)

    def record(name: str) -> None:
        for n in range(200):
            recorder.record(name, "step", {"n": n})

    def close() -> None:
        for _ in range(50):
            assert recorder.close(PATIENCE_SECONDS)

    threads = [threading.Thread(target=record, args=(f"wf-{n}",)) for n in range(4)]
    threads += [threading.Thread(target=close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert recorder.close(PATIENCE_SECONDS)
    for n in range(4):
        events = events_of(journal, f"wf-{n}")
        steps = [event.payload["n"] for event in events if event.type == "step"]
        assert sorted(steps) == list(range(200))  # type: ignore[type-var]
        assert str(verification_of(journal, f"wf-{n}").answer) == "complete"


def test_eight_threads_lose_and_double_nothing(journal: MemoryJournal, make_recorder: MakeRecorder) -> None:
    recorder = make_recorder(journal)

    def record(thread: int) -> None:
        for n in range(300):
            recorder.record(RUN, "step", {"thread": thread, "n": n})

    threads = [threading.Thread(target=record, args=(each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()

    events = [event for event in events_of(journal, RUN) if event.type == "step"]
    by_number = sorted(events, key=lambda event: event.number or 0)
    for each in range(8):
        assert [e.payload["n"] for e in by_number if e.payload["thread"] == each] == list(range(300))
    assert str(verification_of(journal, RUN).answer) == "complete"


def test_one_bad_event_costs_none_of_those_beside_it(
    make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Gate()
    recorder = make_recorder(journal)
    recorder.record(RUN, "first", {})
    assert journal.arrived.acquire(timeout=PATIENCE_SECONDS)

    with caplog.at_level(logging.WARNING, "longwatch"):
        recorder.record(RUN, "good", {})
        recorder.record(RUN, "", {})
        recorder.record(RUN, "bad time", {}, occurred_at=-5)
        recorder.record(RUN, "odd time", {}, occurred_at=1.5)  # type: ignore[arg-type]
        recorder.record("", "no run", {})
        recorder.record(RUN, "bad agent", {}, agent_name=7)  # type: ignore[arg-type]
        recorder.record(RUN, "bad call", {}, call_id="\ud800")
        recorder.record(RUN, "last", {})
        journal.open.set()
        recorder.close()

    assert types_of(journal, RUN) == ["first", "good", "last"]
    assert str(verification_of(journal, RUN).answer) == "complete"
    assert recorder.stats().refused == 6
    assert recorder.stats().recorded == 3 + 1 + 6
    assert caplog.text.count("not recorded") == 1


def test_the_writer_outlives_whatever_a_journal_raises(
    settings: Settings, make_recorder: MakeRecorder
) -> None:
    faulty = FaultyJournal()
    recorder = make_recorder(faulty)
    faulty.fail(1, RuntimeError("a bug"))

    recorder.record(RUN, "one", {})
    assert recorder.flush()
    recorder.record(RUN, "two", {})
    assert recorder.flush()

    assert recorder.stats().in_outbox == 2
    assert recorder.stats().last_error == "a bug"


def test_an_invalid_journal_url_is_reported_and_the_events_wait(
    make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make_recorder("nowhere://at/all")

    with caplog.at_level(logging.WARNING, "longwatch"):
        recorder.record(RUN, "step", {})
        assert recorder.flush()

    assert recorder.stats().in_outbox == 1
    assert "Invalid journal URL" in caplog.text


@pytest.mark.parametrize(
    ("ttl_hours", "default", "ttl"),
    [
        (None, None, None),
        (None, 60, 1_060),
        (0, 60, None),
        (2, 60, 1_000 + 7_200),
        (0.00001, None, 1_001),
    ],
)
def test_events_live_as_long_as_the_settings_or_else_the_journal_require(
    make_recorder: MakeRecorder, ttl_hours: float | None, default: int | None, ttl: int | None
) -> None:
    clock = FakeClock(now_ms=999_000)
    journal = MemoryJournal(clock=clock)
    journal.default_ttl_seconds = default
    recorder = make_recorder(journal, ttl_hours=ttl_hours)

    recorder.record(RUN, "step", {}, occurred_at=1_000_000)
    recorder.flush()

    assert [event.ttl for event in events_of(journal, RUN)] == [ttl]


def test_when_no_thread_can_be_started_the_caller_stores(
    journal: MemoryJournal, make_recorder: MakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make_recorder(journal)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        recorder.record(RUN, "inline", {})
        stored = types_of(journal, RUN)
        flushed = recorder.flush()
    recorder.record(RUN, "threaded", {})
    recorder.close()

    assert stored == ["inline"]
    assert flushed
    assert types_of(journal, RUN) == ["inline", "threaded"]
    assert str(verification_of(journal, RUN).answer) == "complete"


def test_events_recorded_at_the_very_end_are_stored_at_once(
    journal: MemoryJournal, make_recorder: MakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make_recorder(journal)
    monkeypatch.setattr(first_use, "has_ended", True)

    recorder.record(RUN, "last words", {})
    stored = types_of(journal, RUN)
    closed = recorder.close()

    assert stored == ["last words"]
    assert closed
    assert str(verification_of(journal, RUN).answer) == "complete"


def test_configure_stores_what_was_recorded_before(settings: Settings) -> None:
    before, after = MemoryJournal(), MemoryJournal()
    configure(before, settings=settings).record(RUN, "before", {})

    configure(after, settings=settings)
    get_recorder().record(RUN, "after", {})
    get_recorder().flush()

    assert types_of(before, RUN) == ["before"]
    assert types_of(after, RUN) == ["after"]


def test_the_process_has_one_recorder_made_from_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGWATCH_JOURNAL", f"sqlite:///{tmp_path}/here.db")
    found: list[Recorder] = []
    threads = [threading.Thread(target=lambda: found.append(get_recorder())) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(map(id, found))) == 1
    assert found[0].journal_url == f"sqlite:///{tmp_path}/here.db"
    assert recorder_module._process_recorder is found[0]


def test_a_run_that_is_closed_is_forgotten(journal: MemoryJournal, make_recorder: MakeRecorder) -> None:
    recorder = make_recorder(journal)
    recorder.record(RUN, "step", {})
    recorder.flush()
    name = recorder.producer_of(RUN)

    recorder.close_run(RUN)
    recorder.close_run("wf-unknown")
    recorder.flush()

    assert name == events_of(journal, RUN)[0].producer
    assert recorder.producer_of(RUN) is None
    assert str(verification_of(journal, RUN).answer) == "complete"
