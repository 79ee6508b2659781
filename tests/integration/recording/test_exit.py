"""A process that ends leaves every event in the journal or in the outbox, in time, and counts them."""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Completeness
from longwatch.recording.outbox import Outbox
from tests.contract.tables import REGION, new_table
from tests.engines.distant import distant
from tests.integration.recording.processes import Workspace, all_events, finished, verification_of

EVENTS = 3_000
RECORDS = f"""
import longwatch
with longwatch.run(run_id="wf-1"):
    for n in range({EVENTS}):
        longwatch.record("step", n=n)
"""
WHOLE_RUN = EVENTS + 3  # its start, its end, and the count that its producer states
COUNTS = re.compile(r"(\d+) recorded: (\d+) stored, (\d+) in the outbox, (\d+) lost")
SLACK_SECONDS = 10  # for starting Python on a busy machine


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A SQLite file that another connection keeps locked."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


@pytest.fixture
def locked_journal(workspace: Workspace) -> Iterator[None]:
    with workspace.open() as journal:
        journal.find_runs()
    with locked(workspace.path):
        yield


@pytest.fixture
def distant_table(workspace: Workspace, dynamodb_local_url: str) -> Iterator[str]:
    """The URL of a table that the workspace records to; there every response takes 100 ms."""
    with new_table(dynamodb_local_url, "workflow") as table, distant(dynamodb_local_url, seconds=0.1) as url:
        workspace.url = f"dynamodb://{table.table}?region={REGION}&endpoint={url}"
        yield f"dynamodb://{table.table}?region={REGION}&endpoint={dynamodb_local_url}"


def waiting(workspace: Workspace) -> int:
    return sum(batch.events for batch in Outbox(workspace.outbox).pending())


def counts_in(text: str) -> tuple[int, ...]:
    found = COUNTS.search(text)
    assert found, text
    return tuple(map(int, found.groups()))


def steps_of(workspace: Workspace, url: str, run_id: str = "wf-1") -> list[object]:
    """The steps of the run once the outbox was shipped; fails if events are missing or twice."""
    Outbox(workspace.outbox).ship(lambda waiting_for: open_journal(url))
    with open_journal(url) as journal:
        events = all_events(journal, run_id)
    assert verification_of(events).answer is Completeness.COMPLETE
    return [event.payload["n"] for event in events if event.type == "step"]


def test_with_a_locked_journal_everything_waits_in_the_outbox(
    workspace: Workspace, locked_journal: None
) -> None:
    began = time.monotonic()

    done = workspace.run(RECORDS, LONGWATCH_EXIT_TIMEOUT_SECONDS="0.5")

    assert (done.returncode, done.stdout) == (0, "")
    assert time.monotonic() - began < 0.5 + SLACK_SECONDS
    assert counts_in(done.stderr) == (WHOLE_RUN, 0, WHOLE_RUN, 0)
    assert waiting(workspace) == WHOLE_RUN


def test_events_that_a_locked_journal_refused_are_shipped_later_completely(workspace: Workspace) -> None:
    with workspace.open() as journal:
        journal.find_runs()
    with locked(workspace.path):
        workspace.run(RECORDS, LONGWATCH_EXIT_TIMEOUT_SECONDS="0.5")

    assert steps_of(workspace, workspace.url) == list(range(EVENTS))


def test_with_a_distant_table_every_event_is_in_the_journal_or_in_the_outbox(
    workspace: Workspace, distant_table: str
) -> None:
    done = workspace.run(RECORDS, LONGWATCH_EXIT_TIMEOUT_SECONDS="1")

    recorded, stored, in_outbox, lost = counts_in(done.stderr)
    assert (done.returncode, recorded, lost) == (0, WHOLE_RUN, 0)
    assert stored + in_outbox == WHOLE_RUN
    assert waiting(workspace) == in_outbox
    assert steps_of(workspace, distant_table) == list(range(EVENTS))


def test_two_recorders_share_the_time_and_leave_everything(
    workspace: Workspace, locked_journal: None, distant_table: str
) -> None:
    began = time.monotonic()

    done = workspace.run(
        f"""
import boto3  # as a program that has run for a while
from longwatch.recording.recorder import Recorder
near, far = Recorder({f"sqlite:///{workspace.path}"!r}), Recorder({workspace.url!r})
for n in range(1500):
    near.record("wf-near", "step", {{"n": n}})
    far.record("wf-far", "step", {{"n": n}})
""",
        LONGWATCH_EXIT_TIMEOUT_SECONDS="2",
    )

    reports = [tuple(map(int, each)) for each in COUNTS.findall(done.stderr)]
    assert time.monotonic() - began < 2 + SLACK_SECONDS
    assert [(report[0], report[3]) for report in reports] == [(1502, 0), (1502, 0)]
    assert waiting(workspace) == sum(report[2] for report in reports)
    assert {batch.events for batch in Outbox(workspace.outbox).pending()} == {report[2] for report in reports}


def test_with_the_outbox_locked_too_the_exit_is_bounded_and_the_loss_is_counted(
    workspace: Workspace, locked_journal: None
) -> None:
    Outbox(workspace.outbox).put("memory://", [])
    began = time.monotonic()

    with locked(workspace.outbox):
        done = workspace.run(RECORDS, LONGWATCH_EXIT_TIMEOUT_SECONDS="0.5")

    recorded, stored, in_outbox, lost = counts_in(done.stderr)
    assert time.monotonic() - began < 0.5 + 2 + SLACK_SECONDS
    assert done.returncode == 0
    assert f"{lost} events could not be stored before the process ended" in done.stderr
    assert (stored, in_outbox) == (0, 0)
    assert recorded == lost == EVENTS + 3


def test_sigterm_during_the_wait_takes_effect_when_the_outbox_has_the_rest(
    workspace: Workspace, locked_journal: None
) -> None:
    process = workspace.start(
        RECORDS + "import atexit; atexit.register(print, 'ending', flush=True)",
        LONGWATCH_EXIT_TIMEOUT_SECONDS="2",
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    _, stderr = finished(process)

    assert process.returncode == -signal.SIGTERM
    assert counts_in(stderr) == (WHOLE_RUN, 0, WHOLE_RUN, 0)
    assert waiting(workspace) == WHOLE_RUN


def test_ctrl_c_during_the_wait_ends_it_and_loses_nothing(workspace: Workspace, locked_journal: None) -> None:
    process = workspace.start(
        RECORDS + "import atexit; atexit.register(print, 'ending', flush=True)",
        LONGWATCH_EXIT_TIMEOUT_SECONDS="3600",
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGINT)
    finished(process)

    assert waiting(workspace) == WHOLE_RUN
