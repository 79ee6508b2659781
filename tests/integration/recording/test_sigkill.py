"""A recording process may be killed at any moment: what `flush()` acknowledged is there."""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
from pathlib import Path

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.verify import Completeness
from tests.integration.recording.processes import Workspace, all_events, finished, verification_of

KILLS = 100
LONGEST_LIFE_SECONDS = 0.05

# One process forks a child for each round: starting an interpreter a hundred times would take a minute.
RECORDING = """
import os, sys
import longwatch
from longwatch.recording.recorder import configure

for line in sys.stdin:
    run_id = line.strip()
    child = os.fork()
    if child == 0:
        recorder, n = configure(os.environ["LONGWATCH_JOURNAL"]), 0
        os.write(1, f"{os.getpid()}\\n".encode())
        while True:
            for _ in range(n % 7 + 1):
                n += 1
                recorder.record(run_id, "step", {"n": n, "text": "x" * (n % 500)})
            if recorder.flush():
                os.write(1, f"{n}\\n".encode())
    os.waitpid(child, 0)
    os.write(1, b"gone\\n")
"""


def test_nothing_that_was_acknowledged_is_lost_when_a_process_is_killed(workspace: Workspace) -> None:
    chance = random.Random(7)
    process = workspace.start(RECORDING)
    assert process.stdin is not None
    assert process.stdout is not None
    acknowledged: dict[str, int] = {}

    for number in range(KILLS):
        run_id = f"wf-{number}"
        process.stdin.write(f"{run_id}\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        first = process.stdout.readline()  # so that every round has something to lose
        select.select([], [], [], chance.random() * LONGEST_LIFE_SECONDS)
        os.kill(child, signal.SIGKILL)
        lines = [first]
        while lines[-1] != "gone\n":
            lines.append(process.stdout.readline())
        acknowledged[run_id] = max(int(line) for line in lines if line[0].isdigit())
    finished(process)

    with SqliteJournal(workspace.path) as journal:
        for run_id, count in acknowledged.items():
            events = all_events(journal, run_id)
            steps = [event.payload["n"] for event in events if event.type == "step"]
            assert steps[:count] == list(range(1, count + 1)), f"{run_id} lost acknowledged events"
            assert [event.number for event in events] == list(range(1, len(events) + 1))
            assert verification_of(events).answer is Completeness.OPEN  # no gap, and no count: it was killed
    assert sum(acknowledged.values()) > KILLS
    assert sound(workspace.path)


def sound(path: Path) -> bool:
    with sqlite3.connect(path) as connection:
        (response,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return bool(response == "ok")
