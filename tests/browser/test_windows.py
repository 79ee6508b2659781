"""More windows of one browser than HTTP/1.1 has connections to one server."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser.conftest import OpenPage, Serve
from tests.browser.stories import running

WINDOWS, STREAMS = 7, 4


def test_the_seventh_window_loads_and_follows_and_a_closed_one_passes_its_stream_on(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(running().events)
    served = serve(tmp_path / "runs.db")
    url = f"{served.url}/runs/wf-running"
    pages = [open_page(url)]

    for _ in range(WINDOWS - 1):
        page = pages[0].context.new_page()  # of the same profile: its windows share the connections
        page.goto(url)
        pages.append(page)
    for page in pages:
        expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    served.post_events("wf-running", {"type": "note", "payload": {"text": "for all windows"}})

    for page in pages:
        expect(page.locator(".log-row", has_text="for all windows")).to_be_visible(timeout=30_000)
    states = {page: page.locator("#connection").get_attribute("data-state") for page in pages}
    streaming = [page for page, state in states.items() if state == "live"]
    polling = [page for page, state in states.items() if state == "polling"]
    assert (len(streaming), len(polling)) == (STREAMS, WINDOWS - STREAMS)
    for page in streaming[: len(polling)]:
        page.close()
    for page in polling:
        expect(page.locator("#connection")).to_have_attribute("data-state", "live", timeout=60_000)
