"""A recording process that is killed: what each command reports before and after its ending is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import Longwatch
from tests.acceptance.writer import Writer

CLOCK = r"\d\d:\d\d:\d\d"
WHEN = rf"(between {CLOCK} and {CLOCK}|at {CLOCK})"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'died.db'}"


@pytest.fixture
def killed(url: str) -> Writer:
    """A run whose process is killed inside a tool of an agent."""
    writer = Writer(url, "wf-dig")
    writer.order("agent")
    writer.send("note digging")
    writer.process.kill()
    writer.end()
    return writer


def test_a_killed_run_has_died_in_every_list_and_nothing_is_written(
    longwatch: Longwatch, url: str, killed: Writer
) -> None:
    before = longwatch("export", "wf-dig", "--journal", url).stdout

    [listed] = json.loads(longwatch("runs", "--status", "died", "-o", "json", "--journal", url).stdout)
    running = json.loads(longwatch("runs", "--status", "running", "-o", "json", "--journal", url).stdout)
    text = longwatch("runs", "--journal", url).stdout

    assert (listed["run_id"], listed["status"], running) == ("wf-dig", "died", [])
    assert (listed["ended_at"], listed["duration_ms"]) == (None, None)
    low, high = listed["ended_between"]
    assert listed["last_event_at"] == low <= high
    assert listed["duration_between"] == [low - listed["started_at"], high - listed["started_at"]]
    assert "†  wf-dig  died" in text
    assert longwatch("export", "wf-dig", "--journal", url).stdout == before


def test_show_reports_the_interval_and_abandoned_calls(
    longwatch: Longwatch, url: str, killed: Writer
) -> None:
    shown = longwatch("show", "wf-dig", "--journal", url).stdout

    assert shown.startswith("† died  wf-dig  dig for it")
    assert re.search(rf"^died +{WHEN}$", shown, re.MULTILINE)
    assert re.search(r"^ran +between .* and .* m?s$", shown, re.MULTILINE)
    assert f"Process {killed.process.pid} on" in shown
    assert re.search(r"† Ada +abandoned ", shown)
    assert re.search(r"† dig +abandoned ", shown)


def test_a_report_is_created_for_a_run_that_died(longwatch: Longwatch, url: str, killed: Writer) -> None:
    page = longwatch("export", "wf-dig", "--html", "--journal", url).stdout

    assert '"status": "died"' in page


def test_a_watch_writes_the_ending_and_the_interval_stays_as_it_is(
    longwatch: Longwatch, url: str, killed: Writer
) -> None:
    watch = longwatch("watch", "wf-dig", "--journal", url)
    first = longwatch("runs", "-o", "json", "--journal", url).stdout
    second = longwatch("runs", "-o", "json", "--journal", url).stdout

    assert watch.returncode == 5
    assert re.match(rf"longwatch: run wf-dig died {WHEN}: Process ", watch.stderr)
    assert first == second
    assert json.loads(first)[0]["status"] == "died"


def test_a_timeout_before_the_grace_period_reports_the_same_ending(
    longwatch: Longwatch, url: str, killed: Writer
) -> None:
    watch = longwatch("watch", "wf-dig", "--timeout", "0s", "--journal", url)

    assert watch.returncode == 5
    assert "workflow_error" not in longwatch("tail", "wf-dig", "--journal", url).stdout


def test_the_last_attempt_is_shown_unless_another_is_requested(longwatch: Longwatch, url: str) -> None:
    for number in ("one", "two"):
        writer = Writer(url, "wf-dig")
        writer.send(f"note {number}")
        writer.order("agent" if number == "two" else "fail no shovel")
        writer.end()

    last = longwatch("show", "wf-dig", "--journal", url).stdout
    first = longwatch("show", "wf-dig", "--attempt", "1", "--journal", url).stdout
    wrong = longwatch("show", "wf-dig", "--attempt", "3", "--journal", url)

    assert last.startswith("✓ succeeded  wf-dig")
    assert "attempt   2 of 2" in last
    assert first.startswith("✗ failed  wf-dig")
    assert "attempt   1 of 2" in first
    assert "Ada" in last
    assert "workflow_error" not in last
    assert "workflow_complete" not in first
    assert "Ada" not in first.partition("\n\n")[2]
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "longwatch: Run 'wf-dig' has 2 attempts, not 3. Use a number from 1 to 2.\n",
    )
