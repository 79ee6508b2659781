"""The duration of a run is the same wherever it is shown: in events, commands, API, page and report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from playwright.sync_api import expect

from longwatch.cli.main import cli
from longwatch.cli.render.times import ran_text, run_duration_text
from longwatch.journal.factory import open_journal
from longwatch.model.event import duration_of
from longwatch.model.run import RunSummary, fold
from tests.browser import stories
from tests.browser.boards import Board
from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served
from tests.contract.events import read_all
from tests.unit.cli.samples import Story

RECORDED = """
import sys, time
import longwatch

longwatch.configure(journal=sys.argv[1])
with longwatch.run("recorded", run_id="wf-recorded"):
    time.sleep(0.02)
"""
RUNS = {
    "workflow": "wf-recorded",
    "of another producer": "wf-finished",
    "session": "s-1",
    "restarted": "wf-again",
    "died": "wf-died",
    "half a unit": "wf-quarter",
    "execution": "plan-east/x-partial",
}


@pytest.fixture(scope="module")
def durations(folder: Path, served: Served) -> Path:
    """One run of each kind, in the journal of the server."""
    session = Story("s-1", at=stories.now_ms() - 900_000)
    session.add("workflow_start", {"kind": "session", "name": "a session"})
    session.add("workflow_complete", {"status": "completed"}, after=83_456)
    quarter = Story("wf-quarter", at=stories.now_ms() - 800_000)
    quarter.add("workflow_start", {"name": "half a unit"})
    quarter.add("workflow_complete", {"status": "completed"}, after=1_250)
    died = [event for event in stories.restarted("wf-died") if event.producer != "p2"]
    subprocess.run([sys.executable, "-c", RECORDED, f"sqlite:///{folder / 'runs.db'}"], check=True)
    with open_journal(f"sqlite:///{folder / 'runs.db'}") as journal:
        for events in (session.events, quarter.events, died, stories.restarted()):
            journal.append(events)
    board = Board(folder / "runs.db")
    board.partial()
    board.close()
    return folder / "runs.db"


def run_of(path: Path, run_id: str) -> RunSummary:
    with open_journal(f"sqlite:///{path}") as journal:
        run = fold(read_all(journal, run_id)[0])
    assert run is not None
    return run.summary


def command(path: Path, *arguments: str) -> str:
    wide = {"COLUMNS": "200"}  # no column is left out
    result = CliRunner().invoke(
        cli, [*arguments, "--journal", f"sqlite:///{path}"], env=wide, catch_exceptions=False
    )
    return result.stdout


def measures(row: dict[str, object]) -> tuple[object, object]:
    return row["duration_ms"], row["duration_between"]


@pytest.mark.parametrize("kind", RUNS)
def test_every_surface_shows_one_duration(
    durations: Path, served: Served, open_page: OpenPage, tmp_path: Path, kind: str
) -> None:
    run_id = RUNS[kind]
    name = quote(run_id, safe="")
    run = run_of(durations, run_id)
    between = run.duration_between
    expected = (run.duration_ms(0), None if between is None else list(between))
    short = run_duration_text(run, 0)
    phrase = f"ran {ran_text(*between)}" if between else short

    listed = json.loads(command(durations, "runs", "--all", "-o", "json"))
    (row,) = [each for each in listed if each["run_id"] == run_id]
    assert measures(row) == expected
    assert measures(json.loads(command(durations, "show", run_id, "-o", "json"))) == expected
    assert measures(served.call("GET", f"/api/runs/{name}")) == expected
    rows = served.call("GET", f"/api/runs?text={name}")["runs"]
    assert [measures(each) for each in rows] == [expected]
    assert short in command(durations, "runs", "--all")
    assert (ran_text(*between) if between else short) in command(durations, "show", run_id)

    page = open_page(f"{served.url}/runs?q={name}", quiet=False)
    expect(page.locator(".run-row .run-length")).to_have_text(short)
    page.goto(f"{served.url}/runs/{name}")
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    expect(page.locator(".fact-length")).to_have_text(phrase)
    report = tmp_path / "report.html"
    command(durations, "export", run_id, "--html", "-o", str(report))
    page = open_page(report.as_uri())
    expect(page.locator(".fact-length")).to_have_text(phrase)


@pytest.mark.parametrize("kind", ["workflow", "of another producer"])
def test_the_ending_states_the_duration_that_readers_compute(durations: Path, kind: str) -> None:
    with open_journal(f"sqlite:///{durations}") as journal:
        events = read_all(journal, RUNS[kind])[0]

    (ending,) = [event for event in events if event.type == "workflow_complete"]
    assert duration_of(ending.payload) == run_of(durations, RUNS[kind]).duration_ms(0)


def test_a_turn_and_its_run_have_one_duration(durations: Path, served: Served, open_page: OpenPage) -> None:
    turns = served.call("GET", f"/api/projects/{stories.PROJECT}/sessions/{stories.SESSION}/turns")["turns"]
    (turn,) = [each for each in turns if each["completed_at"]]
    run = run_of(durations, turn["id"])

    page = open_page(f"{served.url}/projects/{stories.PROJECT}/sessions/{stories.SESSION}")

    expect(page.locator(".turn time").first).to_contain_text(f" · {run_duration_text(run, 0)}")


def test_an_execution_and_its_run_have_one_duration(
    durations: Path, served: Served, open_page: OpenPage
) -> None:
    shown = run_duration_text(run_of(durations, "plan-east/x-partial"), 0)

    page = open_page(f"{served.url}/executions")
    expect(page.locator(".execution-row .took")).to_have_text(shown)
    page.goto(f"{served.url}/executions/plan-east/x-partial")
    expect(page.locator(".fact-length")).to_have_text(shown)
    assert shown in command(durations, "executions", "list")


def test_an_open_run_counts_from_the_start_of_its_last_attempt(durations: Path, served: Served) -> None:
    run = run_of(durations, "wf-running")
    began = stories.now_ms()

    (row,) = served.call("GET", "/api/runs?text=wf-running")["runs"]
    listed = json.loads(command(durations, "runs", "--all", "-o", "json"))

    for found in (row, *(each for each in listed if each["run_id"] == "wf-running")):
        assert found["ended_at"] is None
        assert began <= run.attempt_started_at + found["duration_ms"] <= stories.now_ms()
