"""The page while its server is unreachable: nothing counts, and the age of the data is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser.boards import Board
from tests.browser.conftest import OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.stories import modelled, project, running
from tests.integration.server.execution_stories import GOING, wave_job

VIEWS = {
    "list": ("/runs", "index the archive"),
    "run": ("/runs/wf-running", "caught up"),
    "timeline": ("/runs/wf-models?tab=timeline", "caught up"),
    "session": ("/projects/atlas/sessions/draft", "1 turn"),
    "project": ("/projects/atlas", "Draft a chapter"),
    "projects": ("/projects", "atlas"),
    "executions": ("/executions", "x-live"),
    "execution": ("/executions/x-live", "one"),
}


@pytest.fixture
def served(tmp_path: Path, serve: Serve) -> Served:
    path = tmp_path / "runs.db"
    with SqliteJournal(path) as journal:
        journal.append(running().events)
        journal.append(modelled().events)
    board = Board(path)
    board.watched("x-live", "one").receive(wave_job(0, GOING))
    board.close()
    served = serve(path)
    project(served)
    return served


def opened(open_page: OpenPage, served: Served, path: str, text: str) -> Page:
    """A page whose clock the test can move."""
    page = open_page(f"{served.url}/login", quiet=False)
    page.clock.install()
    page.goto(f"{served.url}{path}")
    expect(page.locator("main")).to_contain_text(text)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_counts_while_offline_and_the_age_of_the_data_is_shown(
    served: Served, open_page: OpenPage, view: str
) -> None:
    page = opened(open_page, served, *VIEWS[view])

    served.kill()
    banner = page.locator("#offline")
    expect(banner).to_contain_text("Server not reachable")
    main = page.locator("main").inner_text()
    page.clock.fast_forward("05:00")

    expect(banner).to_contain_text(re.compile(r"Data as of \d\d:\d\d:\d\d, 5 min ago"))
    assert page.locator("main").inner_text() == main
    served.start()
    page.clock.fast_forward("01:00")
    expect(banner).to_be_hidden(timeout=60_000)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")


def test_counters_resume_with_the_connection(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, *VIEWS["run"])
    length = page.locator(".fact-length")
    served.kill()
    expect(page.locator(".fact-caught-up")).to_have_text(re.compile(r"^as of \d\d:\d\d:\d\d$"))
    page.clock.fast_forward("05:00")
    expect(length).to_have_text(re.compile(r"^\d+ s$"))

    served.start()
    page.clock.fast_forward("01:00")

    expect(length).to_have_text(re.compile(r"^\d min \d\d s$"), timeout=60_000)
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")


@pytest.mark.parametrize(
    ("link", "text"),
    [("Executions", "x-live"), ("Projects", "atlas"), ("index the archive", "caught up")],
)
def test_a_view_opened_while_offline_loads_when_the_server_is_back(
    served: Served, open_page: OpenPage, link: str, text: str
) -> None:
    page = opened(open_page, served, *VIEWS["list"])
    served.kill()
    expect(page.locator("#offline")).to_be_visible()
    page.locator("a", has_text=link).first.click()
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.locator("#offline")).to_be_visible()

    served.start()
    page.clock.fast_forward("01:00")

    expect(page.locator("main")).to_contain_text(text, timeout=60_000)
    expect(page.locator("#offline")).to_be_hidden()
