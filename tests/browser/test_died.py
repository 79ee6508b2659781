"""A run whose process was killed: how the page, the list and the report show that it died, and when."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import fold
from longwatch.server.page.report import render_report
from tests.browser import stories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.browser.server_process import Served
from tests.browser.test_views import serious, sideways, turn_light

CLOCK = r"(?:\d+ \w+, )?\d\d:\d\d:\d\d"
KILLED = """
import os, signal, sys
import longwatch

longwatch.configure(journal=sys.argv[1])

@longwatch.tool
def fetch() -> None:
    longwatch.flush()
    os.kill(os.getpid(), signal.SIGKILL)

with longwatch.run("read the archive", run_id="wf-killed"):
    fetch()
"""


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """A server with a run that was started twice."""
    with SqliteJournal(folder / "runs.db") as journal:
        journal.append(stories.restarted())
    served = Served(folder / "runs.db")
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def killed(served: Served) -> str:
    """The address of a run whose process ended by SIGKILL."""
    done = subprocess.run([sys.executable, "-c", KILLED, f"sqlite:///{served.path}"], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return f"{served.url}/runs/wf-killed"


def test_a_run_whose_process_was_killed_is_shown_as_died_with_an_interval(
    killed: str, open_page: OpenPage
) -> None:
    page = open_page(killed)

    expect(page.locator("lw-run-head .badge")).to_have_text("died")
    expect(page.locator(".fact-ended")).to_have_text(
        re.compile(rf"^died (at {CLOCK}|between {CLOCK} and {CLOCK})$")
    )
    length = page.locator(".fact-length")
    expect(length).to_have_text(re.compile(r"^ran (between .+ and .+|[\d.]+ m?s)$"))
    expect(page.locator(".fact-error")).to_contain_text("exited without reporting an outcome")
    death = page.locator(".log-row.died")
    expect(death).to_contain_text("died ")
    expect(death.locator("time")).to_have_count(0)
    counted = length.inner_text()
    page.clock.install()
    page.clock.fast_forward(60_000)
    expect(length).to_have_text(counted)


def test_a_call_without_an_end_is_abandoned_in_every_view(killed: str, open_page: OpenPage) -> None:
    page = open_page(f"{killed}?tab=timeline")
    expect(page.locator(".bar-row", has_text="fetch")).to_contain_text("abandoned")
    expect(page.locator(".bar.is-abandoned")).to_have_count(1)
    expect(page.locator(".now")).to_be_hidden()

    page.get_by_role("tab", name="Calls").click()
    page.get_by_role("button", name="Without an end").click()

    expect(page.locator(".call-rows .call-row")).to_contain_text("abandoned")
    expect(page.locator("lw-calls [role=status]")).to_have_text("1 call, 1 abandoned")
    page.locator(".call-rows .call-row").click()
    expect(page.locator("lw-detail")).to_contain_text("no end recorded")


def test_the_list_has_a_filter_for_runs_that_died_and_shows_their_interval(
    served: Served, killed: str, open_page: OpenPage
) -> None:
    expect(open_page(killed).locator("lw-run-head .badge")).to_have_text("died")
    page = open_page(f"{served.url}/runs")

    page.get_by_role("button", name="Died", exact=True).click()

    expect(page).to_have_url(re.compile(r"status=died"))
    row = page.locator("a.run-row")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("read the archive")
    expect(row.locator(".run-why")).to_have_text(re.compile(rf"^died (at|between) {CLOCK}"))
    expect(row.locator(".run-last")).to_contain_text("tool_call")


def test_a_run_that_was_started_again_shows_one_attempt_and_offers_the_others(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/runs/wf-again")
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    expect(page.locator("lw-run-head .badge")).to_have_text("succeeded")
    expect(page.locator(".fact-length")).to_have_text("4.1 s")
    expect(page.locator(".log-row")).to_have_count(3)

    page.get_by_label("Attempt").select_option(index=0)

    expect(page).to_have_url(re.compile(r"attempt=1"))
    expect(page.locator("lw-run-head .badge")).to_have_text("died")
    expect(page.locator(".fact-length")).to_have_text("ran between 207 ms and 24.0 s")
    expect(page.locator(".log-row")).to_have_count(5)
    page.reload()
    expect(page.locator("lw-run-head .badge")).to_have_text("died")
    page.get_by_role("tab", name="Graph").click()
    expect(page.get_by_role("button", name="planner, abandoned")).to_be_visible()
    page.get_by_label("Attempt").select_option(index=1)
    expect(page).not_to_have_url(re.compile(r"attempt="))
    expect(page.locator("lw-run-head .badge")).to_have_text("succeeded")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize(
    "path", ["/runs", "/runs/wf-again?attempt=1&tab=timeline", "/runs/wf-again?attempt=1"]
)
def test_axe_finds_nothing_serious_where_a_run_died(
    served: Served, open_page: OpenPage, path: str, width: int
) -> None:
    page = open_page(served.url + path, width=width)

    expect(page.get_by_text("nightly report").first).to_be_visible()
    assert sideways(page) == 0
    assert serious(page) == []
    turn_light(page)
    assert serious(page) == []


def test_a_report_shows_when_a_run_died_and_its_other_attempts(tmp_path: Path, open_page: OpenPage) -> None:
    events = stories.restarted()
    run = fold(events)
    assert run is not None
    (tmp_path / "again.html").write_bytes(render_report(run, events, now_ms=stories.now_ms()))

    page = open_page(f"file://{tmp_path}/again.html?attempt=1")

    expect(page.locator("lw-run-head .badge")).to_have_text("died")
    expect(page.locator(".fact-ended")).to_have_text(re.compile(rf"^died between {CLOCK} and {CLOCK}$"))
    expect(page.locator(".fact-length")).to_have_text("ran between 207 ms and 24.0 s")
    page.get_by_role("tab", name="Timeline").click()
    expect(page.locator(".bar.is-abandoned")).to_have_count(2)
    page.get_by_label("Attempt").select_option(index=1)
    expect(page.locator("lw-run-head .badge")).to_have_text("succeeded")


def test_the_servers_view_of_the_processes_is_a_condition_in_the_list_and_in_the_head(
    served: Served, open_page: OpenPage
) -> None:
    served.post_events("wf-alone", {"type": "workflow_start", "payload": {"name": "left alone"}})
    page = open_page(f"{served.url}/executions")

    def observe(route: Route) -> None:
        headers = route.request.headers
        response = route.fetch(headers={name: headers[name] for name in headers if name != "if-none-match"})
        body = response.json()
        for run in body["runs"]:
            if run["run_id"] == "wf-alone":
                run["conditions"] = [{"name": "unattended", "message": "process 7 is gone; process 8 runs"}]
        route.fulfill(response=response, json=body)

    page.clock.install()
    page.goto(f"{served.url}/runs")
    row = page.locator("a.run-row", has_text="left alone")
    expect(row).to_contain_text("running")
    page.route("**/api/runs?*", observe)

    page.clock.run_for(16_000)

    expect(row).to_contain_text("unattended: process 7 is gone")
    row.click()
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    expect(page.locator(".conditions .banner")).to_have_text("unattended: process 7 is gone; process 8 runs")
