"""The list of runs: live, filtered by its address, paged, and usable without a mouse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from longwatch.clock import SYSTEM_CLOCK
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.browser import stories
from tests.browser.conftest import OpenPage, Serve
from tests.browser.server_process import Served
from tests.contract.tables import client_of, new_table
from tests.engines.no_scan import without_scan


def test_a_new_run_appears_by_itself_and_its_end_too(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    served.post_events("wf-appears", {"type": "workflow_start", "payload": {"name": "fresh work"}})

    row = page.locator("a.run-row", has_text="fresh work")
    expect(row).to_contain_text("running")
    expect(page.locator(".runs li").first).to_contain_text("fresh work")
    served.post_events("wf-appears", {"type": "workflow_complete", "payload": {"status": "completed"}})
    expect(row).to_contain_text("succeeded")


def test_filters_are_in_the_url_and_survive_a_reload(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")

    page.get_by_role("button", name="Failed", exact=True).click()
    page.get_by_label("Kind").select_option("workflow")
    page.get_by_label("Time").select_option("24h")
    page.get_by_label("Search runs").fill("bills")

    expect(page).to_have_url(re.compile(r"status=failed.*kind=workflow.*since=24h.*q=bills"))
    expect(page.locator("a.run-row")).to_have_count(1)
    page.reload()
    expect(page.locator("a.run-row")).to_have_count(1)
    expect(page.locator("a.run-row")).to_contain_text("ValueError: no such column")
    expect(page.get_by_label("Search runs")).to_have_value("bills")
    expect(page.get_by_role("button", name="Failed", exact=True)).to_have_attribute("aria-pressed", "true")


def test_a_run_that_does_not_match_the_filter_is_not_listed(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs?q=match")
    expect(page.get_by_text("No run matches")).to_be_visible()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    served.post_events("wf-other", {"type": "workflow_start", "payload": {"name": "something else"}})
    served.post_events("wf-match", {"type": "workflow_start", "payload": {"name": "a match"}})

    expect(page.locator("a.run-row")).to_have_count(1)
    expect(page.locator("a.run-row")).to_contain_text("a match")


def test_keys_move_through_the_list_open_a_run_and_find_the_search(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/runs?kind=workflow&status=failed")
    expect(page.locator("a.run-row")).to_have_count(1)

    page.keyboard.press("/")
    expect(page.get_by_label("Search runs")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("a.run-row")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{served.url}/runs/wf-failed")
    expect(page.get_by_role("heading", name="export the bills")).to_be_visible()
    page.go_back()
    expect(page.locator("a.run-row")).to_have_count(1)


def test_a_long_list_comes_in_pages(tmp_path: Path, open_page: OpenPage, serve: Serve) -> None:
    with SqliteJournal(tmp_path / "many.db") as journal:
        for number in range(120):
            journal.append(stories.finished(f"wf-{number:04}", at=stories.now_ms() - number * 60_000).events)
    many = serve(tmp_path / "many.db")
    page = open_page(f"{many.url}/runs")
    rows = page.locator("a.run-row")
    expect(rows).to_have_count(50)

    page.get_by_role("button", name="Load more").click()
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Load more").click()

    expect(rows).to_have_count(120)
    expect(page.get_by_text("No more runs.")).to_be_visible()
    names = [href.rsplit("/", 1)[1] for href in rows.evaluate_all("rows => rows.map(row => row.href)")]
    assert names == [f"wf-{number:04}" for number in range(120)]


def test_an_empty_journal_shows_how_to_record_a_first_run(
    tmp_path: Path, open_page: OpenPage, serve: Serve
) -> None:
    empty = serve(tmp_path / "empty.db")

    page = open_page(f"{empty.url}/")

    expect(page.get_by_text("No runs yet")).to_be_visible()
    expect(page.locator(".command code")).to_contain_text("longwatch run")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy command").click()
    expect(page.get_by_text("Command copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("longwatch run")


def _prices(run_id: str, minutes_ago: int, error: str) -> list[Event]:
    at = stories.now_ms() - minutes_ago * 60_000
    failed = {"status": "failed", "error_message": error}

    def event(type: str, after: int, **payload: object) -> Event:
        return Event(
            run_id=run_id,
            event_id=f"{run_id}-{type}",
            type=type,
            occurred_at=at + after,
            agent_name="reader",
            payload=payload,
        )

    return [
        event("workflow_start", 0, name=f"prices {run_id}"),
        event("tool_call", 500, operation="fetch_prices", **failed),
        event("workflow_error", minutes_ago * 1_000, **failed),
    ]


def test_failures_state_error_call_and_agent_and_alike_ones_are_a_group(
    tmp_path: Path, open_page: OpenPage, serve: Serve
) -> None:
    with SqliteJournal(tmp_path / "failures.db") as journal:
        for number in (3, 1, 2):
            journal.append(_prices(f"wf-{number}", number, f"FeedTimeout: no response\nrequest {number}"))
        journal.append(_prices("wf-other", 5, "KeyError: 'ACME'"))
    failing = serve(tmp_path / "failures.db")
    page = open_page(f"{failing.url}/runs")
    rows = page.locator("a.run-row")
    expect(rows).to_have_count(4)

    failure = rows.first.locator(".run-failure")
    expect(failure).to_have_text("FeedTimeout: no response in fetch_prices of reader")
    group = page.locator(".failure-group")
    expect(group).to_have_text(re.compile(r"^3 runs failed with FeedTimeout in fetch_prices since \d\d"))
    group.click()
    expect(rows).to_have_count(3)
    expect(group).to_have_attribute("aria-pressed", "true")
    group.click()
    page.get_by_role("button", name="Duration").click()

    expect(page).to_have_url(re.compile("sort=duration"))
    expect(rows.first).to_contain_text("prices wf-other")
    names = rows.locator(".run-name").all_text_contents()
    assert names == [f"prices {run}" for run in ("wf-other", "wf-3", "wf-2", "wf-1")]


@pytest.mark.needs_ministack
def test_runs_of_other_producers_are_listed_and_a_missing_permission_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Serve,
    open_page: OpenPage,
    ministack_url: str,
) -> None:
    with new_table(ministack_url, "workflow") as at, without_scan(ministack_url) as no_scan:
        item = {"workflow_id": {"S": "theirs"}, "timestamp": {"N": str(SYSTEM_CLOCK.now_ms())}}
        client_of(ministack_url).put_item(
            TableName=at.table, Item={**item, "event_type": {"S": "workflow_complete"}}
        )
        monkeypatch.setenv("LONGWATCH_DOCUMENTS", f"sqlite:///{tmp_path / 'documents.db'}")
        journal = f"dynamodb://{at.table}?region={at.region}&endpoint="
        allowed = serve(tmp_path / "runs.db", "--journal", f"{journal}{ministack_url}")
        denied = serve(tmp_path / "runs.db", "--journal", f"{journal}{no_scan}")

        listed, refused = open_page(f"{allowed.url}/runs"), open_page(f"{denied.url}/runs")

        expect(listed.locator("a.run-row")).to_contain_text("theirs")
        expect(listed.locator(".runs-hint")).to_be_hidden()
        expect(refused.locator(".runs-hint")).to_contain_text("the right dynamodb:Scan is missing")
        expect(refused.get_by_text("No runs yet")).to_be_visible()
