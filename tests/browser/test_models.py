"""Model calls and waits: on the timeline, in the head, in the list, and a conversation in the details."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser import stories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.test_views import sideways

PRICES = '[prices."large-1"]\ninput = 2\noutput = 8\ncache_read = 0.5\n'
LINES = "cell => Math.round(cell.clientHeight / parseFloat(getComputedStyle(cell).lineHeight))"
TOTALS = "1,300 tokens in 1 of 3 model calls; $0.0017 for 1 of 3 calls"


@pytest.fixture
def priced(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server with the price of one of two models."""
    (tmp_path / "longwatch.toml").write_text(PRICES)
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(stories.modelled().events)
    monkeypatch.chdir(tmp_path)
    return serve(tmp_path / "runs.db")


def opened(open_page: OpenPage, served: Served, query: str = "", **how: int) -> Page:
    page = open_page(f"{served.url}/runs/wf-models{query}", **how)
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    return page


def test_the_head_has_the_totals_with_their_coverage_and_the_waits(
    priced: Served, open_page: OpenPage
) -> None:
    page = opened(open_page, priced)

    expect(page.locator(".fact-usage")).to_have_text(TOTALS)
    expect(page.locator(".fact-waited")).to_contain_text("waiting for approval")
    expect(page.locator(".conditions")).to_contain_text("waiting for answer, for ")
    expect(page.locator(".conditions")).not_to_contain_text("silent")


def test_the_totals_follow_the_calls_of_an_open_run(priced: Served, open_page: OpenPage) -> None:
    page = opened(open_page, priced)
    expect(page.locator(".fact-usage")).to_have_text(TOTALS)

    ended = {"status": "completed", "provider": "openai", "model": "small-1", "operation": "chat"}
    payload = {**ended, "input_tokens": 90, "output_tokens": 10}
    priced.post_events("wf-models", {"type": "model_call", "call_id": "m3", "payload": payload})

    expect(page.locator(".fact-usage")).to_contain_text("1,400 tokens in 2 of 3 model calls")


def test_the_timeline_has_model_calls_and_waits_with_symbols_of_their_own(
    priced: Served, open_page: OpenPage
) -> None:
    page = opened(open_page, priced, "?tab=timeline")
    model = page.locator(".kind-model", has_text="large-1")

    expect(page.locator(".bar-row")).to_have_count(6)
    expect(model.locator(".kind.is-model svg")).to_be_visible()
    expect(model.locator(".bar-label")).to_contain_text("1,300 tokens · $0.0017 · first token 15.0 s")
    expect(page.locator(".kind-wait")).to_have_count(2)
    page.locator(".kind-wait", has_text="approval: publish the map").click()
    expect(page.locator("lw-detail")).to_contain_text("publish the map")
    expect(page.locator("lw-detail")).to_contain_text("5 min 00 s")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_details_of_a_model_call_are_a_conversation(
    priced: Served, open_page: OpenPage, width: int
) -> None:
    page = opened(open_page, priced, "?tab=timeline#call=m1", width=width)
    detail = page.locator("lw-detail")

    expect(detail.locator(".message h4")).to_have_text(["system", "user", "assistant", "tool", "assistant"])
    expect(detail.locator(".message").nth(1)).to_contain_text("What is on this map?")
    expect(detail.locator(".media")).to_have_text("image/png, 34.1 kB")
    detail.locator(".message summary", has_text="read_map").focus()
    page.keyboard.press("Enter")
    expect(detail.locator(".message").nth(2)).to_contain_text("sheet: NO2")
    expect(detail.locator(".message").nth(3)).to_contain_text("12 lines, 4 stations")
    facts = detail.locator(".facts")
    expect(facts).to_contain_text("1,204 tokens, 1,000 read from the cache")
    expect(facts).to_contain_text("96 tokens, 40 for reasoning")
    expect(facts).to_contain_text("after 15.0 s")
    expect(facts).to_contain_text("stop")
    expect(facts).to_contain_text("$0.0017")
    expect(detail).to_contain_text("temperature: 0.2")
    raw = detail.locator("section", has=page.get_by_role("heading", name="Input", exact=True))
    raw.locator("summary").first.click()
    expect(raw).to_contain_text("You write short reports.")
    assert not sideways(page)


def test_the_list_has_usage_and_the_wait_of_an_open_run(priced: Served, open_page: OpenPage) -> None:
    page = open_page(f"{priced.url}/runs")
    row = page.locator("a.run-row", has_text="map report")

    expect(row.locator(".run-tokens")).to_have_text("1,300+")
    expect(row.locator(".run-cost")).to_have_text("$0.0017+")
    assert row.locator(".run-cost").evaluate(LINES) == 1
    expect(row.locator(".run-tokens")).to_have_attribute("title", TOTALS)
    expect(row).to_contain_text("waiting for answer, for ")


def test_the_list_has_no_column_of_costs_without_a_price(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/runs")
    row = page.locator("a.run-row", has_text="map report")

    expect(row.locator(".run-tokens")).to_have_text("1,300+")
    expect(row.locator(".run-cost")).to_be_hidden()
    expect(page.get_by_role("button", name="Tokens")).to_be_visible()
    expect(page.get_by_role("button", name="Cost")).to_be_hidden()


def test_a_report_has_the_totals_and_the_cost_of_its_calls(
    priced: Served, open_page: OpenPage, tmp_path: Path
) -> None:
    page = opened(open_page, priced)
    with page.expect_download() as saved:
        page.get_by_role("link", name="HTML").click()
    saved.value.save_as(tmp_path / "report.html")

    report = open_page(f"file://{tmp_path}/report.html?tab=timeline#call=m1")

    expect(report.locator(".fact-usage")).to_have_text(TOTALS)
    expect(report.locator(".kind-model .bar-label").first).to_contain_text("$0.0017")
    expect(report.locator("lw-detail .message")).to_have_count(5)
    assert json.dumps("You write short reports.") in (tmp_path / "report.html").read_text()
