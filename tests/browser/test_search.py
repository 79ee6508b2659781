"""Queries in the list, the search in events, and the comparison of two runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.browser import stories
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.server_process import Served
from tests.browser.test_views import serious, sideways


def nightly(
    run_id: str, hours_ago: int, *, error: str | None = None, tags: tuple[str, ...] = ()
) -> list[Event]:
    """A run that fetches prices, and stores them unless that failed."""
    at = stories.now_ms() - hours_ago * 3_600_000
    events: list[Event] = []

    def add(type: str, after: int, call_id: str | None = None, **payload: object) -> None:
        number = len(events)
        events.append(
            Event(
                run_id=run_id,
                event_id=f"{run_id}-{number}",
                type=type,
                occurred_at=at + after,
                agent_name="reader",
                call_id=call_id,
                payload=payload,
            )
        )

    add("workflow_start", 0, name="nightly prices", tags=["nightly", *tags], user="ann")
    add("tool_call", 10, "c1", operation="fetch_prices", status="started", input={"symbol": run_id})
    if error is not None:
        add("tool_call", 900, "c1", operation="fetch_prices", status="failed", error_message=error)
        add("workflow_error", 1000, error_message=error)
        return events
    add("tool_call", 700, "c1", operation="fetch_prices", status="completed", output={"quotes": 212})
    add("tool_call", 800, "c2", operation="store", status="started", input={"quotes": 212})
    add("tool_call", 990, "c2", operation="store", status="completed", output="stored in the warehouse")
    add("workflow_complete", 1000)
    return events


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with five nights: one failed, and one has another tag."""
    path: Path = tmp_path_factory.mktemp("nights") / "runs.db"
    with SqliteJournal(path) as journal:
        journal.append(nightly("wf-1", 5))
        journal.append(nightly("wf-2", 4, tags=("team a",)))
        journal.append(nightly("wf-3", 3, error="FeedTimeout: the feed <b>did not</b> respond"))
        journal.append(nightly("wf-4", 2))
    served = Served(path)
    served.start()
    yield served
    served.kill()


def test_a_query_is_completed_applied_and_kept_in_the_url(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs", quiet=False)  # `status:fa` is a mistake
    rows = page.locator("a.run-row")
    expect(rows).to_have_count(4)
    field = page.get_by_role("combobox", name="Search runs")

    field.press_sequentially("sta")
    options = page.locator(".completions li")
    expect(options).to_have_text([re.compile(r"^status:")])
    field.press("ArrowDown")
    field.press("Enter")
    expect(options.first).to_have_text("status:running")
    field.press_sequentially("fa")
    field.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", re.compile("query-"))
    field.press("Tab")

    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=status%3Afailed"))
    expect(page.get_by_role("listbox")).to_be_hidden()
    page.reload()
    expect(rows).to_have_count(1)
    expect(field).to_have_value("status:failed")


def test_values_are_completed_after_a_half_typed_field_has_emptied_the_list(
    nights: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{nights.url}/runs")
    expect(page.locator("a.run-row")).to_have_count(4)
    field = page.get_by_role("combobox", name="Search runs")

    field.press_sequentially("to")
    expect(page).to_have_url(re.compile("q=to$"))
    expect(page.get_by_text("No run matches")).to_be_visible()
    field.press("ArrowDown")
    field.press("Enter")

    expect(page.locator(".completions li").first).to_contain_text("tool:fetch_prices")


def test_tags_are_counted_and_filter_the_list(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs")
    rows = page.locator("a.run-row")
    expect(page.get_by_role("button", name="nightly (4)")).to_be_visible()

    page.get_by_role("button", name="team a (1)").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("button", name="team a (1)")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="team a (1)").click()
    expect(rows).to_have_count(4)
    rows.first.locator(".tag", has_text="nightly").click()

    expect(page).to_have_url(re.compile(r"/runs\?q=tag%3Anightly$"))
    expect(rows).to_have_count(4)


def test_a_mistake_in_a_query_is_marked_with_a_suggestion(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs?q=prices+statsu:failed", quiet=False)

    expect(page.get_by_text("This query has a mistake")).to_be_visible()
    expect(page.locator(".state")).to_contain_text("Did you mean 'status'?")
    expect(page.locator(".query-mistake mark")).to_have_text("statsu:failed")
    page.get_by_role("combobox", name="Search runs").fill("prices status:failed")

    expect(page.locator("a.run-row")).to_have_count(1)


def test_live_changes_respect_the_query(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs?q=tag:live status:running")
    expect(page.get_by_text("No run matches")).to_be_visible()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    served.post_events("wf-q-other", {"type": "workflow_start", "payload": {"name": "other"}})
    served.post_events("wf-q-live", {"type": "workflow_start", "payload": {"name": "mine", "tags": ["live"]}})

    expect(page.locator("a.run-row")).to_have_count(1)
    expect(page.locator("a.run-row")).to_contain_text("mine")
    served.post_events("wf-q-live", {"type": "workflow_complete", "payload": {}})
    expect(page.locator("a.run-row")).to_have_count(0)


def test_events_are_found_and_open_their_run(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs?q=feed")
    page.locator(".filters").get_by_role("link", name="Search in events").click()

    expect(page).to_have_url(f"{nights.url}/search?q=feed")
    expect(page.get_by_text("2 events in 1 run")).to_be_visible()
    hit = page.locator("a.hit").first
    expect(hit.locator("mark").first).to_have_text(re.compile("feed", re.I))
    expect(hit).to_contain_text("<b>did not</b>")
    hit.click()

    expect(page).to_have_url(f"{nights.url}/runs/wf-3#event=wf-3-3")
    expect(page.locator("lw-detail")).to_be_visible()
    page.go_back()
    expect(page.locator("a.hit")).to_have_count(2)


def test_a_search_without_a_match_or_with_a_mistake_says_so(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/search", quiet=False)
    expect(page.get_by_text("Search the text of all events")).to_be_visible()
    field = page.get_by_role("combobox", name="Search in events")
    expect(field).to_be_focused()

    field.fill("absent")
    expect(page.get_by_text("No event matches")).to_be_visible()
    field.fill("feed statsu:failed")
    expect(page.locator(".query-mistake mark")).to_have_text("statsu:failed")
    field.fill("status:failed")
    expect(page.get_by_text("A search needs at least one word.")).to_be_visible()


def test_a_long_result_comes_in_pages(tmp_path: Path, open_page: OpenPage) -> None:
    with SqliteJournal(tmp_path / "many.db") as journal:
        for number in range(60):
            journal.append(nightly(f"wf-{number:02}", number))
    many = Served(tmp_path / "many.db")
    many.start()
    try:
        page = open_page(f"{many.url}/search?q=warehouse")
        hits = page.locator("a.hit")
        expect(hits).to_have_count(50)
        expect(page.get_by_text("50 events in 50 runs so far")).to_be_visible()

        page.get_by_role("button", name="Load more").click()

        expect(hits).to_have_count(60)
        expect(page.get_by_text("No more events.")).to_be_visible()
    finally:
        many.kill()


def test_events_that_are_not_indexed_yet_are_counted(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs")
    body = '{"hits": [], "cursor": null, "unindexed": 12000}'
    page.route("**/api/search?*", lambda route: route.fulfill(body=body, content_type="application/json"))

    page.goto(f"{nights.url}/search?q=feed")
    expect(page.get_by_text("12,000 events not indexed yet")).to_be_visible()
    page.unroute("**/api/search?*")
    page.get_by_role("button", name="Search again").click()

    expect(page.locator("a.hit")).to_have_count(2)
    expect(page.locator(".search-notice")).to_be_hidden()


def test_a_journal_without_an_index_offers_the_last_day(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs", quiet=False)
    body = '{"error": {"code": "search_too_wide", "message": "This journal has no full-text index."}}'
    page.route(
        re.compile(r"/api/search\?q=feed&"),
        lambda route: route.fulfill(status=400, body=body, content_type="application/json"),
    )

    page.goto(f"{nights.url}/search?q=feed")
    page.get_by_role("button", name="Search the last day").click()

    expect(page).to_have_url(re.compile(r"q=feed\+since%3A1d"))
    expect(page.locator("a.hit")).to_have_count(2)


def test_a_run_is_compared_with_the_one_before(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/runs/wf-3")
    page.get_by_role("link", name="Compare").click()

    expect(page).to_have_url(f"{nights.url}/compare?b=wf-3&a=wf-2")
    expect(page.get_by_role("status").filter(has_text="calls differ")).to_have_text("2 of 2 calls differ.")
    first = page.locator("tr.is-first")
    expect(first).to_contain_text("fetch_prices")
    expect(first.locator(".differences")).to_contain_text("completed → failed, error: – → FeedTimeout")
    expect(page.locator("tr.is-missing")).to_contain_text("store")
    page.get_by_role("button", name="First difference").click()
    expect(first.get_by_role("link")).to_be_focused()
    page.get_by_label("Choose run A").select_option("wf-1")
    expect(page).to_have_url(f"{nights.url}/compare?b=wf-3&a=wf-1")
    page.get_by_role("button", name="Swap A and B").click()
    expect(page).to_have_url(f"{nights.url}/compare?b=wf-1&a=wf-3")
    expect(page.locator("tr.is-added")).to_contain_text("store")
    page.locator("tr.is-added").get_by_role("link").click()

    expect(page).to_have_url(f"{nights.url}/runs/wf-1#call=c2")


def test_only_the_calls_that_differ_are_shown_on_request(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/compare?a=wf-1&b=wf-4")
    expect(page.locator("tbody tr")).to_have_count(2)

    page.get_by_role("button", name="Only differences").click()

    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("arguments: wf-1 → wf-4")


def test_a_comparison_with_an_unknown_run_is_not_found(nights: Served, open_page: OpenPage) -> None:
    page = open_page(f"{nights.url}/compare?a=wf-1&b=wf-unknown", quiet=False)

    expect(page.get_by_text("Run not found")).to_be_visible()


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("path", ["/runs?q=tag:nightly", "/search?q=feed", "/compare?a=wf-2&b=wf-3"])
def test_the_views_are_accessible_and_fit_the_width(
    nights: Served, open_page: OpenPage, path: str, width: int, theme: str
) -> None:
    page = open_page(f"{nights.url}{path}", width=width, theme=theme)
    expect(page.locator("a.run-row, a.hit, .compare-table tbody tr").first).to_be_visible()

    assert serious(page) == []
    assert sideways(page) == 0
