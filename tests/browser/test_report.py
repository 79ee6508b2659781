"""A run as one file: opens from a disk, makes no request, and shows what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import fold
from longwatch.server.page.report import render_report
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.stories import finished, running
from tests.browser.test_views import serious, sideways


@pytest.fixture
def report(tmp_path: Path) -> Path:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(finished().events)
    path = tmp_path / "report.html"
    export = ["export", "wf-finished", "--html", "-o", str(path)]
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    subprocess.run(
        [sys.executable, "-m", "longwatch", *export, "--journal", url], check=True, capture_output=True
    )
    return path


def test_a_report_opens_from_a_disk_and_makes_no_request(report: Path, open_page: OpenPage) -> None:
    page = open_page(f"file://{report}")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))

    page.reload()

    expect(page.locator("lw-run-head")).to_contain_text("write the handbook")
    expect(page.locator(".log-row")).to_have_count(11)
    for tab, row in (("Timeline", ".bar-row"), ("Calls", ".call-rows .call-row"), ("Graph", ".node")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(row).first).to_be_visible()
    assert requested == [f"file://{report}"]


def test_filters_and_selection_work_in_a_report_and_are_in_its_url(report: Path, open_page: OpenPage) -> None:
    page = open_page(f"file://{report}")

    page.get_by_role("button", name="Errors only").click()
    expect(page.locator(".log-row")).to_have_count(1)
    page.locator(".log-row").click()

    expect(page).to_have_url(re.compile(r"errors=1#event="))
    expect(page.locator("lw-detail")).to_contain_text("Timeout: no answer")
    page.reload()
    expect(page.locator(".log-row")).to_have_count(1)
    expect(page.locator("lw-detail")).to_contain_text("Timeout: no answer")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_report_is_accessible_and_fits_a_phone(report: Path, open_page: OpenPage, theme: str) -> None:
    page = open_page(f"file://{report}", width=PHONE, theme=theme)

    expect(page.locator(".log-row").first).to_be_visible()
    assert sideways(page) == 0
    assert serious(page) == []


def test_a_run_that_was_open_stands_still_in_its_report(tmp_path: Path, open_page: OpenPage) -> None:
    events = running().events
    run = fold(events)
    assert run is not None
    made_at = events[0].occurred_at + 42_000
    (tmp_path / "open.html").write_bytes(render_report(run, events, now_ms=made_at))

    page = open_page(f"file://{tmp_path}/open.html")

    expect(page.locator(".fact-length")).to_have_text("42 s")
    page.clock.install()
    page.clock.fast_forward(5_000)
    expect(page.locator(".fact-length")).to_have_text("42 s")
