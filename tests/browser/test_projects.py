"""Projects and sessions that another process creates appear by themselves, as runs do."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.turns import Conversations
from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served
from tests.browser.stories import PROJECT


def test_a_project_created_by_another_process_appears_in_the_list(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/projects")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    with SqliteJournal(served.path) as journal:
        Conversations(journal).create_project("made-elsewhere", "From another process")

    expect(page.get_by_text("From another process")).to_be_visible()


def test_a_session_created_by_another_process_appears_in_its_project(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/projects/{PROJECT}")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    with SqliteJournal(served.path) as journal:
        Conversations(journal).create_conversation(PROJECT, "s-elsewhere", "Begun in a terminal")

    expect(page.get_by_text("Begun in a terminal")).to_be_visible()


def test_a_session_that_is_reported_before_an_older_response_arrives_is_shown(
    served: Served, open_page: OpenPage
) -> None:
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page = open_page(f"{served.url}/projects")
    page.route(f"**/api/projects/{PROJECT}/sessions", hold_first)
    page.get_by_role("link", name="Atlas handbook").click()
    expect(page.get_by_text("README.md")).to_be_visible()  # files come over the feed, and so do sessions
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    held[0].fulfill(json={"sessions": []})

    expect(page.get_by_text("Draft a chapter")).to_be_visible()
