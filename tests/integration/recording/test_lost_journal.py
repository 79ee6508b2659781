"""A recording process whose journal file is moved, deleted or replaced: every event stays in one place."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.recording.outbox import Outbox
from tests.integration.recording.processes import Place, all_events, finished

RUN = "wf-1"

# Records as many events as each line of its input says, and prints when they are flushed.
IN_STEPS = """
import sys
import longwatch
n = 0
with longwatch.run(run_id="wf-1"):
    for line in sys.stdin:
        for _ in range(int(line)):
            longwatch.record("step", n=n)
            n += 1
        print("flushed", longwatch.flush(), flush=True)
"""

# Records all the time and says when it is half through.
BUSY = """
import longwatch
with longwatch.run(run_id="wf-1"):
    for n in range(3000):
        longwatch.record("step", n=n)
        if n % 10 == 0:
            longwatch.flush()
        if n == 1000:
            print("go", flush=True)
longwatch.flush()
"""

SHIP = "import sys\nfrom longwatch.cli.main import main\nsys.argv[1:] = ['ship', '--once']\nmain()"


def steps_in(path: Path) -> list[int]:
    with open_journal(f"sqlite:///{path}") as journal:
        return [int(str(event.payload["n"])) for event in all_events(journal, RUN) if event.type == "step"]


def steps_waiting(place: Place) -> list[int]:
    if not place.outbox.exists():
        return []
    connection = sqlite3.connect(place.outbox)
    rows = connection.execute("SELECT json_extract(line, '$.payload.n') FROM waiting").fetchall()
    connection.close()
    return [row[0] for row in rows if row[0] is not None]


def ask(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "flushed True\n"


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()


def restore_backup(path: Path) -> None:
    path.with_name("backup.db").replace(path)


def back_up(path: Path) -> None:
    source, target = sqlite3.connect(path), sqlite3.connect(path.with_name("backup.db"))
    source.backup(target)
    source.close()
    target.close()


def test_every_event_of_a_moved_journal_is_in_one_place_and_ships_to_the_new_one(place: Place) -> None:
    process = place.start(IN_STEPS)
    ask(process, 20)
    move(place.path)
    ask(process, 30)
    _, stderr = finished(process)

    moved, waiting = steps_in(place.path.with_name("moved.db")), steps_waiting(place)
    shipped = place.run(SHIP)

    assert (moved, waiting) == (list(range(20)), list(range(20, 50)))
    assert "was deleted or moved while it was open" in stderr
    assert stderr.count("cannot deliver events") == 1
    assert shipped.returncode == 0, shipped.stderr
    assert steps_in(place.path) == list(range(20, 50))
    assert Outbox(place.outbox).pending() == []


def test_events_after_a_deletion_wait_in_the_outbox(place: Place) -> None:
    process = place.start(IN_STEPS)
    ask(process, 20)
    delete(place.path)
    ask(process, 30)
    _, stderr = finished(process)

    assert steps_waiting(place) == list(range(20, 50))
    assert not place.path.exists()
    assert "was deleted or moved while it was open" in stderr


def test_a_restored_backup_gets_everything_that_comes_after_it(place: Place) -> None:
    process = place.start(IN_STEPS)
    ask(process, 20)
    back_up(place.path)
    ask(process, 10)
    restore_backup(place.path)
    ask(process, 30)
    _, stderr = finished(process)

    waiting, restored = steps_waiting(place), steps_in(place.path)
    shipped = place.run(SHIP)

    assert sorted([*waiting, *restored]) == [*range(20), *range(30, 60)]
    assert "was replaced by another file while it was open" in stderr
    assert shipped.returncode == 0, shipped.stderr
    assert steps_in(place.path) == [*range(20), *range(30, 60)]


def test_commits_that_only_the_log_of_a_killed_process_has_are_kept_beside_the_new_file(place: Place) -> None:
    process = place.start(IN_STEPS)
    ask(process, 20)
    move(place.path)
    process.kill()
    process.communicate()

    done = place.run("import longwatch\nwith longwatch.run(run_id='wf-2'): pass\nassert longwatch.flush()")

    moved = place.path.with_name("moved.db")
    [kept] = place.folder.glob("journal.db.*-wal")
    kept.rename(moved.with_name("moved.db-wal"))
    assert "its write-ahead log is saved as" in done.stderr
    assert steps_in(moved) == list(range(20))
    assert place.run_ids() == ["wf-2"]


@pytest.mark.parametrize("change", [move, delete])
def test_nothing_is_lost_while_a_process_records_without_a_pause(
    place: Place, change: Callable[[Path], None]
) -> None:
    process = place.start(BUSY)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    old = place.path.with_name("link.db")
    old.hardlink_to(place.path)  # to see what a deleted file had
    change(place.path)
    finished(process)

    old_path = old if change is delete else place.path.with_name("moved.db")
    before = steps_in(old_path)
    place.run(SHIP)
    after = steps_in(place.path)

    assert sorted({*before, *after}) == list(range(3000))
    assert len(before) + len(after) - 3000 <= 100  # at most what one commit held when the file went away
    assert len(after) == len(set(after))
