"""One run: its log, timeline, calls and graph, while it happens and after."""

from __future__ import annotations

import re
from urllib.request import urlopen

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.server_process import Served
from tests.browser.stories import now_ms


def started(served: Served, run_id: str, name: str = "live work") -> None:
    served.post_events(run_id, {"type": "workflow_start", "payload": {"name": name}})


def notes(served: Served, run_id: str, *texts: str) -> None:
    at = now_ms()
    posted = [
        {"type": "note", "occurred_at": at + index, "payload": {"text": text}}
        for index, text in enumerate(texts)
    ]
    served.post_events(run_id, *posted)


def live(open_page: OpenPage, served: Served, run_id: str, query: str = "") -> Page:
    page = open_page(f"{served.url}/runs/{run_id}{query}")
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    return page


def test_events_appear_as_they_happen_and_the_head_follows(served: Served, open_page: OpenPage) -> None:
    started(served, "wf-live")
    page = live(open_page, served, "wf-live")

    notes(served, "wf-live", "first words")

    expect(page.locator(".log-row", has_text="first words")).to_be_visible()
    expect(page.locator(".fact-events")).to_have_text("2 events")
    expect(page.locator("lw-run-head")).to_contain_text("running")
    served.post_events(
        "wf-live", {"type": "workflow_error", "payload": {"status": "failed", "error_message": "it broke"}}
    )
    expect(page.locator("lw-run-head .badge")).to_have_text("failed")
    expect(page.locator(".fact-error")).to_have_text("it broke")


def test_filters_search_and_selection_are_in_the_url(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-finished")

    page.get_by_label("Agent").select_option("planner")
    page.get_by_label("Event type").select_option("tool_call")
    page.get_by_role("button", name="Errors only").click()
    expect(page.locator(".log-row")).to_have_count(1)
    page.locator(".log-row").click()

    expect(page).to_have_url(re.compile(r"agent=planner&type=tool_call&errors=1#event=\w+"))
    page.reload()
    expect(page.locator(".log-row")).to_have_count(1)
    expect(page.locator("lw-detail")).to_contain_text("Timeout: no answer")
    page.get_by_label("Search events").fill("no such words")
    expect(page.get_by_text("No event matches")).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=no\+such\+words"))


def test_a_paused_log_holds_still_and_counts_what_waits(served: Served, open_page: OpenPage) -> None:
    started(served, "wf-paused")
    page = live(open_page, served, "wf-paused")

    page.get_by_role("button", name="Pause").click()
    notes(served, "wf-paused", "one", "two")

    expect(page.get_by_role("button", name="2 new")).to_be_visible()
    expect(page.locator(".log-row")).to_have_count(1)
    page.get_by_role("button", name="2 new").click()
    expect(page.locator(".log-row")).to_have_count(3)


def test_a_reader_who_scrolls_up_is_not_interrupted_and_can_jump_back(
    served: Served, open_page: OpenPage
) -> None:
    started(served, "wf-long")
    notes(served, "wf-long", *(f"line {number}" for number in range(300)))
    page = live(open_page, served, "wf-long")
    expect(page.locator(".log-row", has_text="line 299")).to_be_visible()

    page.locator(".log-rows").evaluate("list => { list.scrollTop = 0; }")
    expect(page.locator(".log-row", has_text="line 3").first).to_be_visible()
    notes(served, "wf-long", "the newest")
    expect(page.locator(".fact-events")).to_have_text("302 events")

    assert page.locator(".log-rows").evaluate("list => list.scrollTop") == 0
    page.get_by_role("button", name="Jump to latest").click()
    expect(page.locator(".log-row", has_text="the newest")).to_be_visible()


def test_a_late_event_is_inserted_in_order_and_marked_late(served: Served, open_page: OpenPage) -> None:
    at = int(served.call("GET", "/api/runs/wf-finished")["started_at"])
    served.post_events(
        "wf-late",
        {"type": "workflow_start", "occurred_at": at, "payload": {"name": "late"}},
        {"type": "note", "occurred_at": at + 60_000, "payload": {"text": "afterwards"}},
    )
    page = live(open_page, served, "wf-late")
    expect(page.locator(".log-row")).to_have_count(2)

    served.post_events(
        "wf-late", {"type": "note", "occurred_at": at + 30_000, "payload": {"text": "earlier"}}
    )

    expect(page.locator(".log-row", has_text="earlier")).to_contain_text("late")
    rows = page.locator(".log-row").all()
    words = {row.get_attribute("aria-posinset"): row.locator(".event-text").inner_text() for row in rows}
    assert [words[index].removeprefix("late").strip() for index in ("2", "3")] == ["earlier", "afterwards"]


def test_the_timeline_zooms_pans_folds_and_selects(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-finished", "?tab=timeline")
    expect(page.locator(".bar-row")).to_have_count(4)
    whole = page.locator("lw-timeline [role=status]").inner_text()

    page.get_by_role("button", name="Zoom in").click()
    expect(page.locator("lw-timeline [role=status]")).not_to_have_text(whole)
    expect(page.locator(".overview-window")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    expect(page.locator("lw-timeline [role=status]")).to_have_text(whole)
    page.locator(".bar-row", has_text="search").first.click()

    expect(page).to_have_url(re.compile(r"#call=t1$"))
    expect(page.locator("lw-detail")).to_contain_text("Timeout: no answer")
    page.locator(".bar-row", has_text="planner").locator(".twist").click()
    expect(page.locator(".bar-row")).to_have_count(2)


def test_the_traceback_of_a_failed_call_can_be_folded(served: Served, open_page: OpenPage) -> None:
    trace = 'Traceback (most recent call last):\n  File "feeds.py", line 12, in read\nTimeout: no answer'
    call = {"type": "tool_call", "call_id": "t1"}
    started(served, "wf-traceback")
    served.post_events(
        "wf-traceback",
        {**call, "payload": {"operation": "read", "status": "started"}},
        {**call, "payload": {"operation": "read", "status": "failed", "traceback": trace}},
    )

    page = live(open_page, served, "wf-traceback", "#call=t1")

    shown = page.get_by_role("group", name="Traceback")
    expect(shown).to_have_text(trace)
    page.locator("lw-detail summary", has_text="Traceback").focus()
    page.keyboard.press("Enter")
    expect(shown).to_be_hidden()
    expect(page.get_by_role("button", name="Copy traceback")).to_be_visible()
    expect(page.get_by_role("button", name="Copy JSON", exact=True)).to_be_visible()


def test_the_now_line_is_there_while_the_run_is_open(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-running", "?tab=timeline")

    expect(page.locator(".now")).to_be_visible()
    expect(page.locator(".bar-row", has_text="walk")).to_contain_text("running")


def test_tool_calls_are_paired(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-finished", "?tab=calls")
    expect(page.locator(".call-rows .call-row")).to_have_count(2)

    page.get_by_role("button", name="Failed only").click()

    expect(page.locator(".call-rows .call-row")).to_have_count(1)
    expect(page.locator(".call-rows .call-row")).to_contain_text("800 ms")
    page.locator(".call-rows .call-row").click()
    expect(page.locator("lw-detail")).to_contain_text("query: maps")


def test_nodes_of_the_graph_change_while_they_work(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-running", "?tab=graph")
    expect(page.get_by_role("button", name="planner, started")).to_be_visible()
    expect(page.get_by_role("button", name="writer, pending")).to_be_visible()

    served.post_events(
        "wf-running",
        {"type": "agent_start", "agent_name": "writer", "call_id": "w1", "payload": {"status": "started"}},
    )

    expect(page.get_by_role("button", name="writer, started")).to_be_visible()
    page.get_by_role("button", name="planner, started").click()
    expect(page.locator("lw-detail")).to_contain_text("planner")


def test_a_run_can_be_downloaded_as_lines_and_as_a_report(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, "wf-finished")

    with page.expect_download() as lines:
        page.get_by_role("link", name="JSONL").click()
    with page.expect_download() as report:
        page.get_by_role("link", name="HTML").click()

    assert lines.value.path().read_text().count("\n") == 11
    assert b'id="recorded"' in report.value.path().read_bytes()


def test_the_page_is_served_under_a_policy_without_inline_code(served: Served) -> None:
    with urlopen(f"{served.url}/runs/wf-finished") as response:
        policy = response.headers["Content-Security-Policy"]
        page = response.read().decode()

    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", page)
