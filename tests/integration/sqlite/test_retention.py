"""Old events go in small batches, and no reader is misled about what is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.retention import is_too_large
from longwatch.model.endings import Status
from longwatch.model.event import START, Event
from longwatch.model.retention import RetentionRule
from longwatch.testing import FakeClock


def event(run_id: str, at: int, type: str = "step", ttl: int | None = None) -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}-{at:06}", type=type, occurred_at=at, ttl=ttl)


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    return SqliteJournal(tmp_path / "journal.db", clock=FakeClock(now_ms=50_000))


def times(journal: SqliteJournal, run_id: str) -> list[int]:
    return [each.occurred_at for each in journal.read(run_id, limit=10_000).events]


def test_old_events_are_pruned_and_newer_ones_of_an_open_run_stay(journal: SqliteJournal) -> None:
    journal.append([event("wf-open", at) for at in range(100, 200)])

    gone = journal.prune(150, batch=7)

    run = journal.find_run("wf-open")
    assert gone == 50
    assert times(journal, "wf-open") == list(range(150, 200))
    assert run is not None
    assert run.expired_before == 150
    assert run.started_at == 100


def test_a_run_that_is_wholly_old_is_forgotten(journal: SqliteJournal) -> None:
    journal.append([event("wf-old", at) for at in range(100, 110)])
    journal.append([event("wf-new", 200)])

    journal.prune(150, batch=5)

    assert journal.find_run("wf-old") is None
    assert [run.run_id for run in journal.find_runs().runs] == ["wf-new"]
    assert times(journal, "wf-old") == []


def test_many_old_runs_are_all_found(journal: SqliteJournal) -> None:
    journal.append([event(f"wf-{n:04}", 100) for n in range(350)])

    assert journal.prune(150) == 350
    assert journal.find_runs().runs == []


@pytest.mark.parametrize("batch", [1, 3, 10, 1_000])
def test_the_size_of_batches_changes_nothing(journal: SqliteJournal, batch: int) -> None:
    journal.append([event("wf-1", at) for at in range(30)])

    assert journal.prune(20, batch=batch) == 20
    assert times(journal, "wf-1") == list(range(20, 30))


def test_others_may_write_between_two_batches(journal: SqliteJournal) -> None:
    journal.append([event("wf-1", at) for at in range(100)])
    statements: list[str] = []
    with journal._database.writing() as connection:
        connection.set_trace_callback(statements.append)

    journal.prune(90, batch=10)

    assert statements.count("COMMIT") >= 9


def test_expired_events_are_pruned_and_a_run_without_events_is_forgotten(journal: SqliteJournal) -> None:
    journal.append([event("wf-gone", at, ttl=49) for at in range(60_000, 60_020)])
    journal.append([event("wf-half", 60_000, ttl=50), event("wf-half", 60_001, ttl=51)])
    journal.append([event("wf-kept", 60_000)])

    gone = journal.prune(0, batch=6)

    assert gone == 21
    assert {run.run_id for run in journal.find_runs().runs} == {"wf-half", "wf-kept"}
    assert times(journal, "wf-half") == [60_001]


def test_expired_events_are_not_read_before_they_are_pruned(journal: SqliteJournal) -> None:
    journal.append([event("wf-1", 1, ttl=50), event("wf-1", 2, ttl=51), event("wf-1", 3)])

    assert times(journal, "wf-1") == [2, 3]


def test_positions_are_never_used_again(tmp_path: Path, journal: SqliteJournal) -> None:
    journal.append([event("wf-1", at) for at in range(10)])
    cursor = journal.read("wf-1").cursor
    journal.prune(1_000)
    journal.close()
    connection = sqlite3.connect(tmp_path / "journal.db")
    connection.execute("VACUUM")
    connection.close()

    journal.append([event("wf-1", 2_000)])

    assert [each.occurred_at for each in journal.read("wf-1", after=cursor).events] == [2_000]
    assert times(journal, "wf-1") == [2_000]
    assert journal.read("wf-1", after=START).cursor != cursor


def test_an_event_that_went_may_come_again_as_a_new_arrival(journal: SqliteJournal) -> None:
    journal.append([event("wf-1", 1), event("wf-1", 500)])
    cursor = journal.read("wf-1").cursor
    journal.prune(100)

    journal.append([event("wf-1", 1)])

    assert [each.occurred_at for each in journal.read("wf-1", after=cursor).events] == [1]


def test_pruning_an_empty_journal_does_nothing(journal: SqliteJournal) -> None:
    assert journal.prune(10**12) == 0


def ended(journal: SqliteJournal, run_id: str, at: int, type: str = "workflow_complete") -> None:
    journal.append([event(run_id, at, "workflow_start"), event(run_id, at + 1), event(run_id, at + 2, type)])


def left(journal: SqliteJournal) -> set[str]:
    return {run.run_id for run in journal.find_runs().runs}


def test_a_rule_removes_old_ended_runs_of_its_status_and_no_open_run(journal: SqliteJournal) -> None:
    ended(journal, "wf-old", 10)
    ended(journal, "wf-failed", 10, "workflow_error")
    ended(journal, "wf-new", 45_000)
    journal.append([event("wf-open", 10, "workflow_start")])

    removed = journal.expire([RetentionRule(status=Status.SUCCEEDED, after_ms=10_000)], batch=2)

    assert removed == 3
    assert left(journal) == {"wf-failed", "wf-new", "wf-open"}
    assert times(journal, "wf-old") == []


def test_a_rule_may_name_a_kind(journal: SqliteJournal) -> None:
    ended(journal, "wf-old", 10)

    assert journal.expire([RetentionRule(kind="turn", after_ms=1)]) == 0
    assert journal.expire([RetentionRule(kind="workflow", after_ms=1)]) == 3


def test_a_size_removes_the_oldest_ended_runs_until_the_file_fits(journal: SqliteJournal) -> None:
    for number in range(20):
        run_id = f"wf-{number:02}"
        journal.append([event(run_id, number * 10, "workflow_start")])
        text = Event(
            run_id=run_id,
            event_id=f"{run_id}-text",
            type="step",
            occurred_at=number * 10 + 1,
            payload={"text": "x" * 20_000},
        )
        journal.append([text, event(run_id, number * 10 + 2, "workflow_complete")])
    rule = RetentionRule(max_bytes=300_000)

    journal.expire([rule])

    assert not is_too_large(journal._database, rule)
    kept = left(journal)
    assert 5 < len(kept) < 15
    assert kept == {f"wf-{number:02}" for number in range(20 - len(kept), 20)}
    assert journal.expire([rule]) == 0
