"""`longwatch demo`, as `make demo` runs it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

from longwatch.journal.opening import open_journal
from longwatch.journal.verify import Verifier
from longwatch.runs import RunSummary, Status, fold
from tests.acceptance.conftest import Longwatch, command, environment

WAIT_SECONDS = 60


def the_run(path: Path) -> RunSummary:
    with open_journal(f"sqlite:///{path}") as journal:
        [run] = journal.find_runs().runs
    return run


def test_the_demo_plays_once_and_leaves_a_whole_run_behind(longwatch: Longwatch, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"

    done = longwatch("demo", "--once", "--journal", f"sqlite:///{path}")

    assert done.returncode == 0, done.stderr
    summary = the_run(path)
    with open_journal(f"sqlite:///{path}") as journal:
        events = journal.read(summary.run_id, limit=1000).events
    run = fold(events)
    assert run is not None
    assert summary.status is Status.SUCCEEDED
    assert summary.agents == {"coordinator", "analyst", "reader", "engineer", "writer"}
    prices = [call.status for call in run.tool_calls if call.name == "fetch_prices"]
    assert prices == ["failed", "completed"]
    late = next(event for event in events if event.type == "feed_item")
    told_before = [event for event in events if event.producer == late.producer and event.order < late.order]
    assert max(event.number or 0 for event in told_before) < (late.number or 0) - 1
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    assert verifier.report(summary.last_event_at).answer == "complete"
    assert f"show {summary.run_id}" in done.stdout


def test_the_demo_keeps_to_sqlite_when_settings_name_a_table(longwatch: Longwatch, tmp_path: Path) -> None:
    done = longwatch(
        "demo", "--once", LONGWATCH_JOURNAL="dynamodb://runs?region=eu-west-1", LONGWATCH_DATA=str(tmp_path)
    )

    assert done.returncode == 0, done.stderr
    assert the_run(tmp_path / "demo.db").status is Status.SUCCEEDED
    assert "--journal sqlite:///" in done.stdout


def test_on_a_terminal_the_demo_draws_and_ctrl_c_ends_the_run_as_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("demo", "--journal", f"sqlite:///{path}"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment(COLUMNS="100", LINES="40", TERM="xterm"),
    )
    os.close(theirs)
    drawn = ""
    while "fetch_prices" not in drawn and select.select([ours], [], [], WAIT_SECONDS)[0]:
        drawn += os.read(ours, 65_536).decode(errors="replace")

    process.send_signal(signal.SIGINT)
    while process.poll() is None and select.select([ours], [], [], WAIT_SECONDS)[0]:
        try:
            drawn += os.read(ours, 65_536).decode(errors="replace")
        except OSError:  # Linux says so when the other side has gone
            break

    assert process.wait(WAIT_SECONDS) == 130
    os.close(ours)
    assert re.search(r"\d+/15", drawn)
    assert "Traceback" not in drawn
    assert the_run(path).status is Status.CANCELLED
