"""Back and forward through tabs, filters and details, with the history of the browser."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served


def entries(page: Page) -> int:
    return int(page.evaluate("history.length"))


def test_back_and_forward_move_through_tabs_filters_and_details(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    page.locator("a.run-row", has_text="write the handbook").click()
    detail = page.locator("lw-detail")
    calls = page.get_by_role("tab", name="Calls")
    page.get_by_label("Agent").select_option("planner")
    calls.click()
    page.locator("lw-calls [data-index]", has_text="search").first.click()
    expect(detail).to_be_visible()

    page.go_back()
    expect(detail).to_be_hidden()
    expect(calls).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Log")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Agent")).to_have_value("planner")
    page.go_back()
    expect(page.get_by_label("Agent")).to_have_value("")
    page.go_back()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    for _ in range(4):
        page.go_forward()
    expect(detail).to_contain_text("search")


def test_a_row_after_row_and_a_typed_search_take_one_entry(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs/wf-finished")
    expect(page.locator(".log-row").first).to_be_visible()
    before = entries(page)

    for key in ("j", "j", "j"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("#event="))
    assert entries(page) == before + 1
    page.go_back()
    expect(page.locator("lw-detail")).to_be_hidden()
    search = page.get_by_label("Search events")
    for text in ("h", "han", "handbook"):
        search.fill(text)
        expect(page).to_have_url(re.compile(f"q={text}$"))
    assert entries(page) == before + 1


def test_closing_the_details_can_be_undone(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs/wf-finished")
    page.locator(".log-row", has_text="workflow_start").click()
    page.keyboard.press("Escape")
    expect(page.locator("lw-detail")).to_be_hidden()

    page.go_back()

    expect(page.locator("lw-detail")).to_contain_text("write the handbook")


def test_the_filters_of_a_list_follow_the_history(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    rows = page.locator("a.run-row")
    expect(rows.filter(has_text="write the handbook")).to_be_visible()
    failed = page.get_by_role("group", name="Status").get_by_role("button", name="Failed")
    failed.click()
    expect(rows.filter(has_text="write the handbook")).to_have_count(0)
    page.get_by_label("Kind").select_option("workflow")

    page.go_back()
    expect(page.get_by_label("Kind")).to_have_value("")
    expect(failed).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(failed).to_have_attribute("aria-pressed", "false")
    expect(rows.filter(has_text="write the handbook")).to_be_visible()


def test_the_parts_of_a_project_follow_the_history(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/projects/atlas/sessions/draft", width=375)
    files = page.get_by_role("button", name="Files", exact=True)
    files.click()
    expect(files).to_have_attribute("aria-pressed", "true")

    page.go_back()

    expect(page.get_by_role("button", name="Turns", exact=True)).to_have_attribute("aria-pressed", "true")


def test_a_report_has_the_same_history(served: Served, tmp_path: Path, open_page: OpenPage) -> None:
    report = tmp_path / "report.html"
    page = open_page(f"{served.url}/runs/wf-finished")
    with page.expect_download() as download:
        page.get_by_role("link", name="HTML").click()
    download.value.save_as(report)
    page = open_page(report.as_uri())
    page.locator(".log-row").first.click()
    expect(page.locator("lw-detail")).to_be_visible()

    page.go_back()

    expect(page.locator("lw-detail")).to_be_hidden()
