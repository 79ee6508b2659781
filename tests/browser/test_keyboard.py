"""The Tab key leads through every control in reading order, shows where it is, and leaves the page again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served

LONGEST = 80  # stops of Tab before it must have left the page
HEAD = [
    "Skip to content",
    "longwatch, all runs",
    "Runs",
    "Executions",
    "Projects",
    "Notifications",
    "Theme: system",
    "Keyboard help",
]
FOCUSED = """() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const marks = [element, element.parentElement]; // a field is marked by its frame
    const box = element.getBoundingClientRect();
    return {
        name: (element.getAttribute("aria-label") || element.textContent).trim(),
        marked: marks.some((each) => getComputedStyle(each).outlineStyle !== "none"),
        visible: box.width > 0 && box.height > 0,
    };
}"""

LIST = [*HEAD, "Notify me", "Search runs", "Search in events", "All", "Running", "Succeeded"]
RUN = [
    *HEAD,
    "Copy run ID",
    "Copy link to this view",
    "Compare",
    "JSONL",
    "HTML",
    "Notify me",
    "Delete",
    "Log11",
    "Search events",
    "Agent",
    "Event type",
    "Errors only",
    "Events",
]


def stops(page: Page) -> list[str]:
    """The names of the elements that Tab leads to, from the first until it leaves the page."""
    names: list[str] = []
    for _ in range(LONGEST):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None:
            return names
        assert focused["visible"], f"{focused['name']} has the focus and cannot be seen"
        assert focused["marked"], f"nothing shows that {focused['name']} has the focus"
        names.append(focused["name"])
    raise AssertionError(f"Tab does not leave the page: {names}")


@pytest.mark.parametrize(("path", "wanted"), [("/runs", LIST), ("/runs/wf-finished", RUN)])
def test_tab_leads_through_all_controls_in_reading_order(
    served: Served, open_page: OpenPage, path: str, wanted: list[str]
) -> None:
    page = open_page(f"{served.url}{path}")
    expect(page.get_by_text("write the handbook").first).to_be_visible()

    found = stops(page)

    assert found[: len(wanted)] == wanted


def test_escape_closes_the_details_and_keeps_the_place(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs/wf-finished")
    page.locator(".log-rows").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("lw-detail")).to_be_visible()

    page.keyboard.press("Escape")

    expect(page.locator("lw-detail")).to_be_hidden()
    expect(page.locator(".log-rows")).to_be_focused()


def test_the_help_has_the_command_that_connects_an_agent(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    page.get_by_role("button", name="Keyboard help").click()

    shown = page.get_by_role("dialog")

    command = f"claude mcp add --transport http longwatch {served.url}/mcp"
    expect(shown.get_by_text(command)).to_be_visible()
    expect(shown.get_by_role("button", name="Copy command")).to_be_visible()
