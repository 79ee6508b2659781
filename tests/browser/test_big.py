"""A run of 100,000 events opens and scrolls, and only what is in sight is drawn."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.browser.conftest import OpenPage, Serve
from tests.browser.stories import now_ms

EVENTS = 100_000
MOST_ROWS = 80


def many_events(run_id: str, count: int, *, at: int) -> list[Event]:
    """Tool calls of three agents, as a long run has them, with a start and an end."""

    def event(number: int, type: str, payload: dict[str, object]) -> Event:
        call = number // 2 if type == "tool_call" else None
        return Event(
            run_id=run_id,
            event_id=f"e{number:07}",
            type=type,
            occurred_at=at + number,
            payload=payload,
            agent_name=None if call is None else f"agent-{call % 3}",
            call_id=None if call is None else f"c{call}",
        )

    def tool(number: int) -> Event:
        if number % 2:
            return event(number, "tool_call", {"operation": "fetch", "status": "completed", "duration_ms": 1})
        return event(number, "tool_call", {"operation": "fetch", "status": "started", "page": number // 2})

    start = event(0, "workflow_start", {"name": "the long one"})
    end = event(count - 1, "workflow_complete", {"status": "completed"})
    return [start, *(tool(number) for number in range(1, count - 1)), end]


def test_a_hundred_thousand_events_open_and_scroll(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    with SqliteJournal(tmp_path / "big.db") as journal:
        events = many_events("wf-big", EVENTS, at=now_ms() - EVENTS)
        for start in range(0, EVENTS, 5_000):
            journal.append(events[start : start + 5_000])
    served = serve(tmp_path / "big.db")
    page = open_page(f"{served.url}/runs/wf-big")

    expect(page.locator(".fact-caught-up")).to_have_text("caught up", timeout=60_000)
    expect(page.locator(".fact-events")).to_have_text("100,000 events")
    rows = page.locator(".log-row")
    page.locator(".log-rows").focus()
    page.keyboard.press("End")
    expect(page.locator("[aria-posinset='100000']")).to_contain_text("workflow_complete")
    assert rows.count() < MOST_ROWS
    page.get_by_label("Search events").fill("c49998")
    expect(page.locator(".tally")).to_have_text("2 of 100,000 events", timeout=30_000)
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.locator(".bar-row").first).to_be_visible()
    assert page.locator(".bar-row").count() < MOST_ROWS
    page.keyboard.press("3")
    expect(page.locator(".call-rows .call-row").first).to_be_visible()

    most = page.evaluate(
        """async () => {
            const list = document.querySelector('.call-rows');
            let most = 0;
            for (let step = 1; step <= 60; step += 1) {
                list.scrollTop = (list.scrollHeight * step) / 60;
                await new Promise(requestAnimationFrame);
                await new Promise(requestAnimationFrame);
                most = Math.max(most, list.querySelectorAll('.call-row').length);
            }
            return most;
        }"""
    )
    assert most < MOST_ROWS
    expect(page.locator(".call-rows [aria-posinset='50000']")).to_be_visible()
