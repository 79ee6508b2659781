"""Snapshots of large runs are found as long as the run is the one that they show, and never otherwise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longwatch.errors import RunDeleted
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite import snapshots as module
from longwatch.journal.sqlite.side_files import snapshots_path
from longwatch.journal.sqlite.snapshots import RunSnapshots
from longwatch.model.event import Event
from longwatch.model.run import Run, fold
from longwatch.testing.clock import FakeClock

NOW = 1_790_000_000_000
BODY = b"what a reader shows"


def event(number: int, type_: str = "note", ttl: int | None = None, run_id: str = "wf-1") -> Event:
    return Event(
        run_id=run_id,
        event_id=f"{run_id}-{number}",
        type=type_,
        occurred_at=NOW + number,
        ttl=ttl,
        payload={"text": "x"},
    )


ENDED = [event(1, "workflow_start"), event(2), event(3, "workflow_complete")]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteJournal]:
    monkeypatch.setattr(module, "LARGE_EVENTS", 3)
    with SqliteJournal(tmp_path / "runs.db", clock=FakeClock(NOW + 1000)) as opened:
        yield opened


@pytest.fixture
def snapshots(journal: SqliteJournal) -> Iterator[RunSnapshots]:
    opened = RunSnapshots(journal)
    yield opened
    opened.close()


def folded(events: list[Event]) -> Run:
    run = fold(events)
    assert run is not None
    return run


def find(journal: SqliteJournal, snapshots: RunSnapshots, depends_on: str = "prices") -> bytes | None:
    run = journal.find_run("wf-1")
    assert run is not None
    return snapshots.find(run, "details", depends_on)


def test_a_saved_view_is_found_also_by_another_process(
    journal: SqliteJournal, snapshots: RunSnapshots
) -> None:
    journal.append(ENDED)

    assert find(journal, snapshots) is None
    snapshots.save(folded(ENDED), "details", "prices", BODY)

    other = RunSnapshots(journal)
    assert find(journal, other) == find(journal, snapshots) == BODY
    assert find(journal, snapshots, "other prices") is None
    other.close()


def test_a_late_event_makes_a_snapshot_invalid(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)

    journal.append([event(0)])

    assert find(journal, snapshots) is None


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(ENDED[:2], id="open"),
        pytest.param([ENDED[0], ENDED[2]], id="small"),
        pytest.param([*ENDED, event(4, ttl=NOW // 1000 + 60)], id="expires"),
        pytest.param([*ENDED, event(5, ttl=NOW // 1000 + 60, run_id="wf-2")], id="another run expires"),
    ],
)
def test_runs_that_change_or_are_small_have_no_snapshot(
    journal: SqliteJournal, snapshots: RunSnapshots, events: list[Event]
) -> None:
    journal.append(events)

    snapshots.save(folded([each for each in events if each.run_id == "wf-1"]), "details", "prices", BODY)

    assert find(journal, snapshots) is None


def test_a_fold_that_lacks_events_is_not_stored(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append([*ENDED, event(4)])

    snapshots.save(folded(ENDED), "details", "prices", BODY)

    assert find(journal, snapshots) is None


def test_a_changed_snapshot_and_a_damaged_file_are_not_used(
    journal: SqliteJournal, snapshots: RunSnapshots
) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)
    change(snapshots.path, "UPDATE snapshots SET body = CAST('what a reader showz' AS BLOB)")

    assert find(journal, snapshots) is None

    snapshots.close()
    snapshots.path.write_bytes(b"not a database" * 400)
    again = RunSnapshots(journal)
    assert find(journal, again) is None
    again.save(folded(ENDED), "details", "prices", BODY)
    assert find(journal, again) == BODY
    again.close()


def test_a_lost_event_makes_a_snapshot_invalid(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)
    change(journal.path, "DELETE FROM events WHERE type = 'note'")

    assert find(journal, snapshots) is None


def test_a_body_of_another_view_is_not_used(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)
    snapshots.save(folded(ENDED), "outline", "prices", b"what another reader shows")
    change(
        snapshots.path,
        "UPDATE snapshots SET (body, digest) = (SELECT body, digest FROM snapshots WHERE view = 'outline')",
    )

    assert find(journal, snapshots) is None


def change(path: Path, statement: str) -> None:
    """Change a file as damage or another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_prune_deletes_the_snapshots(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)

    journal.prune(NOW + 2)

    assert not snapshots_path(journal.path).exists()
    assert find(journal, snapshots) is None


def test_deleting_a_run_deletes_the_snapshots(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append(ENDED)
    snapshots.save(folded(ENDED), "details", "prices", BODY)

    journal.delete_run("wf-1", by="test")

    assert not snapshots_path(journal.path).exists()
    with pytest.raises(RunDeleted):
        journal.read_last("wf-1", 5)


def test_a_view_of_a_run_that_is_deleted_while_it_is_saved_is_not_kept(journal: SqliteJournal) -> None:
    class Deleting(SqliteJournal):
        def has_expiring_events(self) -> bool:  # between the check of the run and the write
            journal.delete_run("wf-1", by="test")
            return super().has_expiring_events()

    journal.append(ENDED)
    with Deleting(journal.path, clock=FakeClock(NOW + 1000)) as other:
        snapshots = RunSnapshots(other)

        snapshots.save(folded(ENDED), "details", "prices", BODY)

        snapshots.close()
    assert not snapshots_path(journal.path).exists()


def test_only_the_latest_snapshots_are_kept(
    journal: SqliteJournal, snapshots: RunSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SNAPSHOTS", 2)
    journal.append(ENDED)
    for view in ("one", "two", "three"):
        snapshots.save(folded(ENDED), view, "", BODY)

    run = journal.find_run("wf-1")
    assert run is not None
    found = [snapshots.find(run, view, "") for view in ("one", "two", "three")]

    assert found == [None, BODY, BODY]


def test_no_file_is_created_without_a_large_run(journal: SqliteJournal, snapshots: RunSnapshots) -> None:
    journal.append([event(1, "workflow_start")])

    assert find(journal, snapshots) is None
    assert not snapshots.path.exists()
