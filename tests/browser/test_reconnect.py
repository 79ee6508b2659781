"""A server that is killed and started again, and one that requires a token."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from longwatch.journal.factory import open_journal
from tests.browser.conftest import OpenPage, Serve
from tests.browser.stories import running


def test_a_page_resumes_after_the_server_was_killed_and_ends_equal_to_the_journal(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    story = running("wf-long")
    with open_journal(url) as journal:
        journal.append(story.events)
        served = serve(tmp_path / "runs.db")
        page = open_page(f"{served.url}/runs/wf-long", quiet=False)
        expect(page.locator(".fact-caught-up")).to_have_text("caught up")
        expect(page.locator("#connection")).to_have_attribute("data-state", "live")

        served.kill()
        expect(page.locator("#connection")).to_have_attribute("data-state", "offline")
        expect(page.locator("#offline")).to_contain_text("Check that longwatch serve is running.")
        expect(page.locator(".fact-caught-up")).to_have_text(re.compile(r"^as of \d\d:\d\d:\d\d$"))
        journal.append([story.add("note", {"text": f"while away {number}"}, after=1) for number in range(40)])
        served.start()
        # The page tries by itself too, and may have taken the button away by now.
        page.get_by_role("button", name="Try now").evaluate_all(
            "found => found.forEach((each) => each.click())"
        )
        expect(page.locator("#connection")).to_have_attribute("data-state", "live", timeout=60_000)
        expect(page.locator("#offline")).to_be_hidden()
        journal.append(
            [
                story.add("note", {"text": "back again"}, after=1),
                story.add("workflow_complete", {"status": "completed"}, after=1),
            ]
        )

        expect(page.locator("lw-run-head .badge")).to_have_text("succeeded")
        expect(page.locator(".fact-events")).to_have_text("46 events")
        assert shown_ids(page) == [event.event_id for event in journal.read("wf-long", limit=1000).events]


def test_the_list_of_runs_resumes_too(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    served = serve(tmp_path / "runs.db")
    page = open_page(f"{served.url}/runs", quiet=False)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    served.kill()
    with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        journal.append(running("wf-meanwhile").events)
    served.start()

    expect(page.locator("a.run-row", has_text="index the archive")).to_be_visible(timeout=60_000)


def test_a_server_with_a_token_admits_a_reader_and_prompts_again_when_the_cookie_is_gone(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        journal.append(running("wf-secret").events)
    served = serve(tmp_path / "runs.db", "--token")
    token = json.loads((tmp_path / "server-tokens.json").read_text())["write"]
    code = re.search(r"/login\?code=\S+", served.output)
    assert code is not None
    page = open_page(f"{served.url}{code[0]}", quiet=False)
    page.wait_for_url(lambda url: "/login" not in url)  # it resumes by itself once the reader is in
    page.goto(f"{served.url}/runs")
    expect(page.locator("a.run-row")).to_contain_text("index the archive")

    page.context.clear_cookies()
    page.get_by_role("link", name="Projects").click()

    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("No projects yet")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator("a.run-row")).to_contain_text("index the archive")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")


def shown_ids(page: Page) -> list[str]:
    """The ids of all events that the log has, found by walking through it."""
    return list(
        page.evaluate(
            """async () => {
                const list = document.querySelector('.log-rows');
                const found = new Map();
                for (let top = 0; top <= list.scrollHeight; top += 200) {
                    list.scrollTop = top;
                    await new Promise(requestAnimationFrame);
                    await new Promise(requestAnimationFrame);
                    for (const row of list.querySelectorAll('[data-index]')) {
                        found.set(Number(row.dataset.index), row.dataset.event);
                    }
                }
                return [...found].sort((one, other) => one[0] - other[0]).map(([, id]) => id);
            }"""
        )
    )
