"""Deleting a run on its page: two clicks, and every other window learns of it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served


def test_a_run_is_deleted_with_the_second_click_and_other_windows_learn_of_it(
    served: Served, open_page: OpenPage
) -> None:
    served.post_events(
        "wf-unwanted",
        {"type": "workflow_start", "payload": {"name": "unwanted work"}},
        {"type": "workflow_complete", "payload": {"status": "completed"}},
    )
    runs = open_page(f"{served.url}/runs")
    expect(runs.locator("a.run-row", has_text="unwanted work")).to_have_count(1)
    expect(runs.locator("#connection")).to_have_attribute("data-state", "live")
    page = open_page(f"{served.url}/runs/wf-unwanted")

    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.get_by_role("button", name="Really delete?")
    expect(confirm).to_be_visible()
    confirm.click()

    expect(page).to_have_url(f"{served.url}/runs")
    expect(runs.locator("a.run-row", has_text="unwanted work")).to_have_count(0)
    gone = open_page(f"{served.url}/runs/wf-unwanted", quiet=False)
    expect(gone.get_by_role("heading", name="Run deleted")).to_be_visible()
    expect(gone.get_by_text("was deleted at")).to_be_visible()


def test_an_open_page_of_a_deleted_run_says_so(served: Served, open_page: OpenPage) -> None:
    served.post_events("wf-live-gone", {"type": "workflow_start", "payload": {"name": "live work"}})
    page = open_page(f"{served.url}/runs/wf-live-gone", quiet=False)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    other = open_page(f"{served.url}/runs/wf-live-gone", quiet=False)

    other.get_by_role("button", name="Delete", exact=True).click()
    other.get_by_role("button", name="Still open. Delete anyway?").click()

    expect(page.get_by_role("heading", name="Run deleted")).to_be_visible()


def test_the_button_works_with_the_keyboard_in_a_narrow_window(served: Served, open_page: OpenPage) -> None:
    served.post_events("wf-narrow", {"type": "workflow_start"}, {"type": "workflow_complete"})
    page = open_page(f"{served.url}/runs/wf-narrow")
    page.set_viewport_size({"width": 375, "height": 667})
    page.get_by_role("button", name="Delete", exact=True).focus()

    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Really delete?")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{served.url}/runs")


def test_those_who_may_not_delete_see_no_button(served: Served, open_page: OpenPage) -> None:
    served.post_events("wf-kept", {"type": "workflow_start"}, {"type": "workflow_complete"})
    page = open_page(f"{served.url}/runs")
    page.route("**/api/access", lambda route: route.fulfill(json={"scope": "read", "deletes_runs": False}))

    with page.expect_response("**/api/access"):
        page.goto(f"{served.url}/runs/wf-kept")

    expect(page.get_by_role("link", name="Compare")).to_be_visible()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
