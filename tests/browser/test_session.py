"""A session: turns with blocks as they arrive, what the reader can do, and the files of the project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.browser.server_process import Served
from tests.browser.stories import (
    DONE,
    PROJECT,
    SESSION,
    THOUGHT,
    TOOL_USE,
    assistant_message,
    feed,
    new_turn,
    result,
)
from tests.browser.test_views import sideways


def live(open_page: OpenPage, served: Served, *, hash: str = "", **how: int) -> Page:
    page = open_page(f"{served.url}/projects/{PROJECT}/sessions/{SESSION}{hash}", **how)
    expect(page.locator(".turn").first).to_be_visible()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    return page


def test_blocks_arrive_one_by_one_and_a_result_joins_its_tool(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served)
    turn = new_turn(served, "Look again.")
    card = page.locator(".turn", has_text="Look again.")
    expect(card).to_contain_text("Working …")

    feed(served, turn, assistant_message(THOUGHT, {"type": "text", "text": "Looking."}, TOOL_USE))
    expect(card.locator(".block")).to_have_count(3)
    expect(card.locator(".thinking details")).not_to_have_attribute("open", "")
    card.locator(".tool_use > details > summary").click()
    expect(card.locator(".tool_use")).to_contain_text("No result yet.")
    feed(served, turn, result("use-1", "# what it says"))

    expect(card.locator(".tool_use")).to_contain_text("# what it says")
    expect(card.locator(".block")).to_have_count(3)
    feed(served, turn, DONE)
    expect(card.locator(".turn-status")).to_have_text("completed")
    expect(card.get_by_role("button", name="Interrupt")).to_be_hidden()


def test_text_grows_while_it_streams_and_its_block_takes_its_place(
    served: Served, open_page: OpenPage
) -> None:
    page = live(open_page, served)
    turn = new_turn(served, "Tell me slowly.")
    card = page.locator(".turn", has_text="Tell me slowly.")
    growing = card.locator(".block.content[aria-busy=true]")

    feed(served, turn, streams("thinking"), streams("thinking", "Which one? "))
    expect(card.locator(".block.thinking[aria-busy=true] .preview")).to_have_text("Which one?")
    feed(
        served,
        turn,
        assistant_message({"type": "thinking", "thinking": "Which one? That one."}),
        streams("text"),
    )
    feed(served, turn, streams("text", "It "))
    expect(growing).to_have_text("It ")
    feed(served, turn, streams("text", "grows. "))
    expect(growing).to_have_text("It grows. ")
    growing.evaluate("item => { window.streamed = item; }")
    feed(served, turn, assistant_message({"type": "text", "text": "It grows. And ends."}))

    expect(card.locator(".block")).to_have_count(2)
    expect(card.locator(".block.content")).to_have_text("It grows. And ends.")
    expect(growing).to_have_count(0)
    assert card.locator(".block.content").evaluate("item => item === window.streamed")
    feed(served, turn, streams("text"), streams("text", "Unfinished "))
    served.call("POST", f"{turn}/interrupt", {})
    expect(card.locator(".turn-status")).to_have_text("failed")
    expect(card.locator(".block").last).to_have_text("Unfinished ")
    page.reload()
    expect(card.locator(".block")).to_have_count(3)
    expect(card.locator(".block").last).to_have_text("Unfinished ")


def test_a_turn_shows_what_it_waits_for_and_the_session_its_usage(
    served: Served, open_page: OpenPage
) -> None:
    page = live(open_page, served)
    turn = new_turn(served, "Ask before you write.")
    card = page.locator(".turn", has_text="Ask before you write.")

    served.call("POST", f"{turn}/waiting", {"reason": "approval", "detail": "write_file"})
    expect(card.locator(".turn-waiting")).to_have_text("Waiting for approval: write_file")
    served.call("DELETE", f"{turn}/waiting")
    expect(card.locator(".turn-waiting")).to_have_text("Working …")
    tokens = {"input_tokens": 90, "output_tokens": 10, "cache_read_input_tokens": 900}
    feed(served, turn, {**DONE, "usage": tokens, "total_cost_usd": 0.25})

    expect(card.locator(".turn-usage")).to_have_text("1,000 tokens, $0.25")
    expect(page.locator(".session-usage")).to_contain_text("1,000 tokens in 1 of ")
    expect(page.locator(".session-usage")).to_contain_text("$0.25 for 1 of ")


def streams(kind: str, words: str | None = None) -> dict[str, Any]:
    """A line of a message that streams: the start of a block, or a few more words of it."""
    if words is None:
        event = {"type": "content_block_start", "content_block": {"type": kind, kind: ""}}
    else:
        event = {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: words}}
    return {"type": "stream_event", "event": event}


def test_an_interrupt_shows_before_the_server_has_responded(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served)
    new_turn(served, "Go on for ever.", assistant_message(TOOL_USE))
    card = page.locator(".turn", has_text="Go on for ever.")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/interrupt", hold)

    card.get_by_role("button", name="Interrupt").click()

    expect(card.locator(".turn-error")).to_have_text("interrupting …")
    held[0].continue_()
    expect(card.locator(".turn-status")).to_have_text("failed")
    expect(card.locator(".turn-error")).to_contain_text("interrupted from the page")


def test_a_refused_interrupt_is_rolled_back(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/projects/{PROJECT}/sessions/{SESSION}", quiet=False)
    new_turn(served, "Keep going.", assistant_message(TOOL_USE))
    card = page.locator(".turn", has_text="Keep going.")
    response = '{"error": {"code": "forbidden", "message": "This token may only read."}}'
    page.route(
        "**/interrupt",
        lambda route: route.fulfill(status=403, body=response, content_type="application/json"),
    )

    card.get_by_role("button", name="Interrupt").click()

    expect(page.get_by_text("This token may only read.")).to_be_visible()
    expect(card.locator(".turn-status")).to_have_text("running")


def test_a_new_turn_cancels_the_one_that_runs(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served)
    new_turn(served, "The first.", assistant_message(TOOL_USE))
    first = page.locator(".turn", has_text="The first.")
    expect(first.locator(".turn-status")).to_have_text("running")

    page.get_by_label("Prompt of a new turn").fill("The second.")
    page.get_by_role("button", name="New turn").click()

    expect(page.locator(".turn", has_text="The second.")).to_contain_text("Waiting for an executor")
    expect(first.locator(".turn-status")).to_have_text("failed")


def test_files_appear_change_and_disappear_while_the_page_is_open(
    served: Served, open_page: OpenPage
) -> None:
    page = live(open_page, served, hash="#file=docs%2Fplan.md")
    lines = page.locator(".file-lines")
    expect(lines).to_contain_text("two")

    served.put_file(PROJECT, "docs/plan.md", "one\ntwo and a half\nthree\n")
    expect(lines.locator(".changed")).to_have_text("two and a half")
    served.put_file(PROJECT, "docs/new/idea.md", "light\n")
    file = page.get_by_role("button", name="idea.md")
    expect(file).to_contain_text("new")
    file.click()
    expect(lines).to_have_text("light")
    served.call("DELETE", f"/api/projects/{PROJECT}/content/docs/new/idea.md")

    expect(file).to_have_count(0)
    expect(page.locator(".file-reader")).to_contain_text("does not exist, or was deleted")


def test_an_unknown_project_leads_to_all_projects(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/projects/nowhere", quiet=False)

    expect(page.get_by_role("heading", name="Project not found")).to_be_visible()
    expect(page.get_by_role("link", name="All projects")).to_have_attribute("href", "/projects")


def test_on_a_phone_the_parts_of_a_project_take_turns(served: Served, open_page: OpenPage) -> None:
    page = live(open_page, served, width=PHONE)
    expect(page.locator(".pane-files")).to_be_hidden()

    page.get_by_role("button", name="Files").click()

    expect(page.get_by_role("button", name="plan.md")).to_be_visible()
    expect(page.locator(".pane-turns")).to_be_hidden()
    page.get_by_role("button", name="Sessions").click()
    expect(page.get_by_role("link", name="Draft a chapter")).to_be_visible()


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_run_of_a_turn_shows_a_gap_in_the_lines_of_its_agent(
    served: Served, open_page: OpenPage, width: int
) -> None:
    path = new_turn(served, "Count to ten.")
    for first_line, text in ((1, "one"), (5, "five"), (2, "two")):
        body = json.dumps(assistant_message({"type": "text", "text": text})).encode()
        served.call("POST", f"{path}/lines?first={first_line}", body, kind="application/x-ndjson")

    page = open_page(f"{served.url}/runs/{path.rsplit('/', 1)[1]}", width=width)

    expect(page.locator("lw-run-head .conditions li")).to_have_text("missing lines 3–4 of the agent's output")
    assert sideways(page) == 0


def test_a_turn_shows_a_gap_in_the_lines_of_its_agent_until_it_is_filled(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/projects/{PROJECT}/sessions/{SESSION}")
    path = new_turn(served, "Count to ten.")
    gaps = page.locator(".turn").last.locator(".turn-missing")

    for first_line, text in ((1, "one"), (5, "five")):
        body = json.dumps(assistant_message({"type": "text", "text": text})).encode()
        served.call("POST", f"{path}/lines?first={first_line}", body, kind="application/x-ndjson")
    expect(gaps).to_have_text("Missing lines 2–4 of the agent's output.")

    for first_line, text in ((2, "two"), (3, "three"), (4, "four")):
        body = json.dumps(assistant_message({"type": "text", "text": text})).encode()
        served.call("POST", f"{path}/lines?first={first_line}", body, kind="application/x-ndjson")
    expect(gaps).to_be_hidden()
