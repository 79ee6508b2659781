"""A journal that was written before there was the status `died` reads as if there always had been."""

from __future__ import annotations

import json
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import SCHEMA
from longwatch.model.event import Event
from longwatch.model.run import Status, fold
from longwatch.model.run_query import RunQuery

INSERT_EVENT = """
    INSERT INTO events (position, run_id, event_id, type, occurred_at, payload) VALUES (?,?,?,?,?,?)"""
INSERT_RUN = """
    INSERT INTO runs (run_id, started_at, last_at, status, kind, search, summary) VALUES (?,?,?,?,?,?,?)"""
DEAD = "dead-0123456789abcdef0123456789abcdef"
START, DEATH, FAILURE = (
    ("{}-1", "workflow_start", 1_000, {"name": "nightly", "process": {"host": "vm", "pid": 7, "started": 9}}),
    (
        DEAD,
        "workflow_error",
        1_208,
        {
            "status": "failed",
            "error_message": "process 7 on vm is gone and did not say how the run ended",
            "error_code": "producer_dead",
            "written_for": True,
        },
    ),
    ("{}-2", "workflow_error", 1_300, {"status": "failed", "error_message": "no rows"}),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of the first version with a run that died and one that failed."""
    path = tmp_path / "old.db"
    first = files("longwatch.journal.sqlite") / "migrations" / "0001_events_and_runs.sql"
    connection = sqlite3.connect(path)
    connection.executescript(first.read_text())
    connection.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
    connection.execute("PRAGMA user_version = 1")
    position = 0
    for run_id, end in (("wf-dead", DEATH), ("wf-failed", FAILURE)):
        for event_id, type_, at, payload in (START, end):
            position += 1
            connection.execute(
                INSERT_EVENT,
                (position, run_id, event_id.format(run_id), type_, at, json.dumps(payload)),
            )
        end_id, _, ended_at, fields = end
        origin = [False, [1_000, "", 0, f"{run_id}-1"], "workflow", "nightly", None]
        order = [ended_at, "", 0, end_id.format(run_id)]
        ending = ["failed", order, not fields.get("written_for"), fields["error_message"], False]
        summary = [origin, 1_000, order, "workflow_error", 2, [], 0, ending, None]
        connection.execute(
            INSERT_RUN,
            (run_id, 1_000, ended_at, "failed", "workflow", f"{run_id}\nnightly", json.dumps(summary)),
        )
    connection.execute("UPDATE arrivals SET last_position = ?", (position,))
    connection.commit()
    connection.close()
    return path


def test_a_run_whose_producer_was_dead_is_listed_as_died_after_its_last_event(file: Path) -> None:
    with SqliteJournal(file) as journal:
        [died] = journal.find_runs(RunQuery(status=Status.DIED)).runs
        [failed] = journal.find_runs(RunQuery(status=Status.FAILED)).runs

    assert (died.run_id, failed.run_id) == ("wf-dead", "wf-failed")
    assert (died.status, died.ended_at, died.duration_ms(9_000)) == (Status.DIED, None, None)
    assert died.ended_between is not None
    assert died.ended_between[0] - 1_207 in (0, 1)
    assert died.ended_between[1] is None
    assert (failed.status, failed.ended_at) == (Status.FAILED, 1_300)


def test_events_of_an_old_journal_fold_to_the_same_run(file: Path) -> None:
    with SqliteJournal(file) as journal:
        run = fold(journal.read("wf-dead").events)

    assert run is not None
    assert (run.status, run.summary.ended_between) == (Status.DIED, (1_207, None))


def test_an_old_row_continues_when_something_is_appended(file: Path) -> None:
    late = Event(run_id="wf-dead", event_id="late", type="workflow_complete", occurred_at=1_250)

    with SqliteJournal(file) as journal:
        journal.append([late])
        found = journal.find_run("wf-dead")

    assert found is not None
    assert (found.status, found.ended_at) == (Status.SUCCEEDED, 1_250)
