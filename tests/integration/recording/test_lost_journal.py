"""A recording process whose journal file is moved, deleted or replaced: every event is stored once."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.recording.outbox import Outbox
from tests.integration.recording.processes import Workspace, all_events, finished

RUN = "wf-1"

# Records as many events as each line of its input demands, and prints when they are flushed.
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

# Records all the time and prints when it is half through.
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


def steps_waiting(workspace: Workspace) -> list[int]:
    if not workspace.outbox.exists():
        return []
    connection = sqlite3.connect(workspace.outbox)
    rows = connection.execute("SELECT json_extract(line, '$.payload.n') FROM waiting").fetchall()
    connection.close()
    return [row[0] for row in rows if row[0] is not None]


def record_steps(process: subprocess.Popen[str], count: int) -> None:
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


def test_every_event_of_a_moved_journal_is_stored_once_and_ships_to_the_new_one(
    workspace: Workspace,
) -> None:
    process = workspace.start(IN_STEPS)
    record_steps(process, 20)
    move(workspace.path)
    record_steps(process, 30)
    _, stderr = finished(process)

    moved, waiting = steps_in(workspace.path.with_name("moved.db")), steps_waiting(workspace)
    shipped = workspace.run(SHIP)

    assert (moved, waiting) == (list(range(20)), list(range(20, 50)))
    assert "was deleted or moved while it was open" in stderr
    assert stderr.count("cannot deliver events") == 1
    assert shipped.returncode == 0, shipped.stderr
    assert steps_in(workspace.path) == list(range(20, 50))
    assert Outbox(workspace.outbox).pending() == []


def test_events_after_a_deletion_wait_in_the_outbox(workspace: Workspace) -> None:
    process = workspace.start(IN_STEPS)
    record_steps(process, 20)
    delete(workspace.path)
    record_steps(process, 30)
    _, stderr = finished(process)

    assert steps_waiting(workspace) == list(range(20, 50))
    assert not workspace.path.exists()
    assert "was deleted or moved while it was open" in stderr


def test_a_restored_backup_gets_everything_that_comes_after_it(workspace: Workspace) -> None:
    process = workspace.start(IN_STEPS)
    record_steps(process, 20)
    back_up(workspace.path)
    record_steps(process, 10)
    restore_backup(workspace.path)
    record_steps(process, 30)
    _, stderr = finished(process)

    waiting, restored = steps_waiting(workspace), steps_in(workspace.path)
    shipped = workspace.run(SHIP)

    assert sorted([*waiting, *restored]) == [*range(20), *range(30, 60)]
    assert "was replaced by another file while it was open" in stderr
    assert shipped.returncode == 0, shipped.stderr
    assert steps_in(workspace.path) == [*range(20), *range(30, 60)]


def test_commits_that_only_the_log_of_a_killed_process_has_are_saved_beside_the_new_file(
    workspace: Workspace,
) -> None:
    process = workspace.start(IN_STEPS)
    record_steps(process, 20)
    move(workspace.path)
    process.kill()
    process.communicate()

    done = workspace.run(
        "import longwatch\nwith longwatch.run(run_id='wf-2'): pass\nassert longwatch.flush()"
    )

    moved = workspace.path.with_name("moved.db")
    [saved] = workspace.folder.glob("journal.db.*-wal")
    saved.rename(moved.with_name("moved.db-wal"))
    assert "its write-ahead log is saved as" in done.stderr
    assert steps_in(moved) == list(range(20))
    assert workspace.run_ids() == ["wf-2"]


@pytest.mark.parametrize("change", [move, delete])
def test_nothing_is_lost_while_a_process_records_without_a_pause(
    workspace: Workspace, change: Callable[[Path], None]
) -> None:
    process = workspace.start(BUSY)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    old = workspace.path.with_name("link.db")
    old.hardlink_to(workspace.path)  # to see what a deleted file had
    change(workspace.path)
    finished(process)

    old_path = old if change is delete else workspace.path.with_name("moved.db")
    before = steps_in(old_path)
    workspace.run(SHIP)
    after = steps_in(workspace.path)

    assert sorted({*before, *after}) == list(range(3000))
    assert len(before) + len(after) - 3000 <= 100  # at most what one commit held when the file went away
    assert len(after) == len(set(after))
