"""Sign-in and unknown paths: pages that look and work the same with scripts and without."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser.conftest import PHONE, OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.stories import running
from tests.browser.test_views import serious, sideways


@pytest.fixture
def guarded(tmp_path: Path, serve: Serve) -> Served:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(running().events)
    return serve(tmp_path / "runs.db", "--token")


def is_styled(page: Page) -> bool:
    """Whether the style sheet applies: it is blocked by nothing and known to the page."""
    brand = "getComputedStyle(document.querySelector('.topbar')).display"
    return bool(page.evaluate(brand) == "flex")


@pytest.mark.parametrize("scripts", [True, False])
def test_the_form_signs_in_with_and_without_scripts(
    guarded: Served, browser: Browser, tmp_path: Path, scripts: bool
) -> None:
    token = json.loads((tmp_path / "server-tokens.json").read_text())["write"]
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()

    page.goto(f"{guarded.url}/login")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Unknown token")
    assert is_styled(page)
    page.keyboard.type(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{guarded.url}/")

    if scripts:
        expect(page.locator("a.run-row")).to_contain_text("index the archive")
    else:
        expect(page.get_by_role("link", name="Executions")).to_be_visible()
    context.close()


def test_a_websocket_sends_its_token_as_a_subprotocol(
    guarded: Served, browser: Browser, tmp_path: Path
) -> None:
    tokens = json.loads((tmp_path / "server-tokens.json").read_text())
    page = browser.new_page()
    page.goto(f"{guarded.url}/login")

    opened = """([url, protocols]) => new Promise((resolve) => {
        const socket = new WebSocket(url, protocols);
        socket.onopen = () => resolve(`open ${socket.protocol}`);
        socket.onerror = () => resolve("refused");
    })"""
    offers = {name: ["longwatch", f"longwatch.bearer.{base64url(token)}"] for name, token in tokens.items()}
    feed, notes = (
        f"{guarded.url.replace('http', 'ws')}/api/{path}" for path in ("socket", "projects/p/sync/n")
    )

    assert page.evaluate(opened, [feed, offers["read"]]) == "open longwatch"
    assert page.evaluate(opened, [notes, offers["write"]]) == "open longwatch"
    assert page.evaluate(opened, [notes, offers["read"]]) == "refused"
    assert page.evaluate(opened, [feed, ["longwatch", f"longwatch.bearer.{base64url('wrong')}"]]) == "refused"
    assert page.evaluate(opened, [feed, ["longwatch"]]) == "refused"
    page.close()


def base64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_the_field_of_the_page_is_focused_too(guarded: Served, open_page: OpenPage) -> None:
    page = open_page(f"{guarded.url}/runs", quiet=False)

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("path", ["/login", "/nowhere/at/all"])
def test_pages_without_scripts_are_accessible_and_fit_a_phone(
    guarded: Served, open_page: OpenPage, path: str
) -> None:
    page = open_page(f"{guarded.url}{path}", width=PHONE, quiet=False)

    assert is_styled(page)
    assert sideways(page) == 0
    assert serious(page) == []


def test_an_unknown_path_is_a_page_for_a_browser_and_json_for_a_program(
    served: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{served.url}/nowhere/at/all", quiet=False)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{served.url}/nowhere/at/all")

    with refused.value as response:
        assert response.code == 404
        assert json.loads(response.read())["error"]["code"] == "not_found"
