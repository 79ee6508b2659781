"""Recorded text is never markup: in every field, in every view, and in a report."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.model.run import fold
from longwatch.server.page.report import render_report
from tests.browser.conftest import OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.stories import assistant_message, feed, now_ms

ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>alert(3)",
    '"><svg onload=alert(4)>',
    "javascript:alert(5)",
    "{{constructor.constructor('alert(6)')()}}",
    "]]><b id=injected>7</b>",
    "\u2028alert(8)//",
)
ATTACK = " ".join(ATTACKS)
MESSAGES = [
    {"role": ATTACK, "content": ATTACK},
    {
        "role": "tool",
        "content": [
            {"type": "tool_call", "name": ATTACK, "arguments": {ATTACK: ATTACK}},
            {"type": "tool_result", "content": ATTACK},
            {"type": "image", "media_type": ATTACK, "size": 12},
            {"type": "reasoning", "text": ATTACK},
            {"type": ATTACK, "text": ATTACK},
        ],
    },
]
MODEL = {"provider": ATTACK, "response_model": ATTACK, "finish_reasons": [ATTACK], "input_tokens": 1}
ID = "a<b id=injected>'\"&%/..?#x"


@pytest.fixture(scope="module")
def attacked() -> list[Event]:
    """A run with such text in its id, names, types, keys and values."""
    at = now_ms()
    nodes = [{"id": ATTACK, "name": ATTACK, "role": ATTACK}, {"id": "b", "name": "b"}]

    def event(number: int, type: str, payload: dict[str, object], call: str | None = None) -> Event:
        return Event(
            run_id=ID,
            event_id=f"{number} {ATTACK}",
            type=type,
            occurred_at=at + number,
            payload=payload,
            agent_name=ATTACK if call else None,
            call_id=call,
            parent_call_id=ATTACK if call != ATTACK else None,
            trace_id=ATTACK,
        )

    tool: dict[str, object] = {"operation": ATTACK, "system": ATTACK}
    given = {ATTACK: [ATTACK, {ATTACK: ATTACK}]}
    edges = [{"from": ATTACK, "to": "b", "condition": ATTACK}]
    return [
        event(1, "workflow_start", {"name": ATTACK, "kind": ATTACK}),
        event(2, "graph_structure", {"nodes": nodes, "edges": edges}),
        event(3, "agent_start", {"role": ATTACK}, ATTACK),
        event(4, "tool_call", {**tool, "status": "started", "input": given}, f"t {ATTACK}"),
        event(5, "tool_call", {**tool, "status": "failed", "error_message": ATTACK}, f"t {ATTACK}"),
        event(6, ATTACK, {"text": ATTACK, "raw": {"$bytes": "PGI+"}}),
        event(7, "model_call", {"status": "started", "model": ATTACK, "input": MESSAGES}, f"m {ATTACK}"),
        event(8, "model_call", {"status": "completed", "output": MESSAGES, **MODEL}, f"m {ATTACK}"),
        event(9, "waiting_started", {"reason": ATTACK, "detail": ATTACK}, f"w {ATTACK}"),
        event(10, "workflow_error", {"status": "failed", "error_message": ATTACK}),
    ]


@pytest.fixture
def hostile(attacked: list[Event], tmp_path: Path, serve: Serve) -> Served:
    with SqliteJournal(tmp_path / "hostile.db") as journal:
        journal.append(attacked)
    return serve(tmp_path / "hostile.db")


def test_no_field_of_a_run_becomes_markup_in_any_view(
    hostile: Served, open_page: OpenPage, attacked: list[Event]
) -> None:
    page = open_page(f"{hostile.url}/runs", quiet=False)  # the server refuses a status that is none
    expect(page.locator("a.run-row")).to_contain_text(ATTACKS[0])
    unharmed(page)

    page.locator("a.run-row").click()

    expect(page.locator("h1")).to_contain_text(ATTACKS[0])
    expect(page.locator(".log-row")).to_have_count(len(attacked))
    for number in range(len(attacked)):
        page.locator(f"[aria-posinset='{number + 1}']").click()
        expect(page.locator("lw-detail")).to_contain_text(f"{number + 1} {ATTACKS[0]}")
        unharmed(page)
    for tab in ("timeline", "calls", "graph"):
        for call in ("t ", "m "):
            page.goto(f"{hostile.url}/runs/{quote(ID, safe='')}?tab={tab}#call={quote(call + ATTACK)}")
            expect(page.locator("lw-detail")).to_contain_text(ATTACKS[0])
            unharmed(page)
    page.goto(f"{hostile.url}/runs?q={quote(ATTACK)}&status={quote(ATTACK)}&kind={quote(ATTACK)}")
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    unharmed(page)


def test_no_field_of_a_session_becomes_markup(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    served = serve(tmp_path / "session.db")
    served.call("POST", "/api/projects", {"id": "p", "name": ATTACK})
    served.call("POST", "/api/projects/p/sessions", {"id": "s", "title": ATTACK})
    turn = served.call("POST", "/api/projects/p/sessions/s/turns", {"prompt": ATTACK})
    path = f"/api/projects/p/sessions/s/turns/{turn['id']}"
    use = {"type": "tool_use", "id": ATTACK, "name": ATTACK, "input": {ATTACK: ATTACK}}
    back = {"type": "tool_result", "tool_use_id": ATTACK, "content": ATTACK, "is_error": True}
    feed(
        served,
        path,
        assistant_message({"type": "thinking", "thinking": ATTACK}, {"type": "text", "text": ATTACK}, use),
        {"type": "user", "message": {"content": [back]}},
    )
    name = "<img src=x onerror=alert(9)>.md"
    served.put_file("p", quote(name), ATTACK)

    page = open_page(f"{served.url}/projects/p/sessions/s#file={quote(name)}")

    expect(page.locator(".block")).to_have_count(3)
    for summary in page.locator(".block summary").all():
        summary.click()
    expect(page.locator(".tool_use")).to_contain_text(ATTACKS[1])
    expect(page.locator(".file-lines")).to_contain_text(ATTACKS[1])
    unharmed(page)
    page.goto(f"{served.url}/projects")
    expect(page.locator(".project-row")).to_contain_text(ATTACKS[0])
    unharmed(page)


def test_no_field_breaks_out_of_a_report(attacked: list[Event], tmp_path: Path, open_page: OpenPage) -> None:
    run = fold(attacked)
    assert run is not None
    (tmp_path / "report.html").write_bytes(render_report(run, attacked, now_ms=now_ms()))

    page = open_page(f"file://{tmp_path}/report.html")

    expect(page.locator("h1")).to_contain_text(ATTACKS[1])
    expect(page.locator(".log-row")).to_have_count(len(attacked))
    assert page.locator("script").count() == 2
    unharmed(page)


def unharmed(page: Page) -> None:
    """No element came out of recorded text; dialogs and errors are noticed by the page fixture."""
    assert page.locator("#injected, img, [onerror], [onload]").count() == 0
    assert page.evaluate("document.querySelectorAll('main script').length") == 0
