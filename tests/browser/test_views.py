"""Every view: shows what it should, on a desk and on a phone, in both themes, accessible."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.browser.server_process import Served

VIEWS = {
    "runs": ("/runs", "write the handbook"),
    "runs, none": ("/runs?q=nothing-has-this-name", "No run matches"),
    "log": ("/runs/wf-finished", "workflow_complete"),
    "log with details": ("/runs/wf-finished#call=t1", "Timeout: no answer"),
    "timeline": ("/runs/wf-running?tab=timeline", "walk"),
    "calls": ("/runs/wf-finished?tab=calls", "2 calls, 1 failed"),
    "timeline with models and waits": ("/runs/wf-models?tab=timeline", "small-1"),
    "model call": ("/runs/wf-models?tab=timeline#call=m1", "What is on this map?"),
    "calls of models": ("/runs/wf-models?tab=calls", "3 calls, 1 failed"),
    "graph": ("/runs/wf-running?tab=graph", "critic"),
    "run, none": ("/runs/wf-nobody", "Run not found"),
    "projects": ("/projects", "Atlas handbook"),
    "project": ("/projects/atlas", "Draft a chapter"),
    "session": ("/projects/atlas/sessions/draft", "I look first."),
    "file": ("/projects/atlas/sessions/draft?pane=files#file=docs%2Fplan.md", "three"),
    "nowhere": ("/projects/atlas/nothing", "Page not found"),
}


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_what_it_should_and_axe_finds_nothing_serious(
    served: Served, open_page: OpenPage, view: str, width: int
) -> None:
    path, text = VIEWS[view]

    page = open_page(served.url + path, width=width, quiet=view != "run, none")

    expect(page.get_by_text(text).locator("visible=true").first).to_be_visible()
    assert sideways(page) == 0
    assert serious(page) == []
    turn_light(page)
    assert serious(page) == []


def test_the_keyboard_help_opens_lists_the_shortcuts_of_the_view_and_closes(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/runs/wf-finished")
    expect(page.locator("lw-log")).to_be_visible()

    page.keyboard.press("?")

    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Jump to the latest event")
    expect(dialog.get_by_role("link", name="GraphQL")).to_have_attribute("href", "/graphql/schema.graphql")
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_theme_button_goes_round_and_is_remembered(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs", theme="dark")
    button = page.get_by_role("button", name="Theme")

    button.click()

    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_skip_link_leads_to_the_content(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    expect(page.get_by_text("write the handbook")).to_be_visible()

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == ""


def test_times_are_local_and_have_utc_on_hover(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs/wf-finished")

    time = page.locator(".log-row time").first

    moment = datetime.fromisoformat(time.get_attribute("datetime") or "")
    expect(time).to_have_attribute("title", re.compile(rf"^{moment:%Y-%m-%d %H:%M:%S}\.\d{{3}} UTC$"))
    assert time.inner_text().startswith(f"{moment.astimezone(ZoneInfo('Europe/Oslo')):%H:%M:%S}")


def turn_light(page: Page) -> None:
    """As when the system changes its theme. Some colours follow only with the next frames."""
    page.emulate_media(color_scheme="light")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def sideways(page: Page) -> int:
    """How many pixels the page is wider than the window; a phone's innerWidth grows with the page."""
    size = page.viewport_size
    assert size is not None
    return max(0, int(page.evaluate("document.documentElement.scrollWidth")) - size["width"])


def serious(page: Page) -> list[str]:
    """What axe calls serious or critical, with the elements it means."""
    response = Axe().run(page).response
    assert len(response["passes"]) > 10, "axe has looked at hardly anything"
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for each in response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
