"""Chromium, a server with something in it, and pages that complain about what should never happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

from longwatch.journal.sqlite import SqliteJournal
from tests.browser import stories
from tests.browser.server_process import Served

CHROMIUM = Path("/usr/bin/chromium")
# Without these Chromium checks for updates and the like, which a test should neither wait for nor depend on.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = 1280, 375

OpenPage = Callable[..., Page]
Serve = Callable[..., Served]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("needs_chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module: Playwright's loop must not outlive it, or asyncio tests could not run."""
    if not CHROMIUM.exists():
        pytest.skip(f"There is no {CHROMIUM}; install Debian's package chromium to run these tests.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        browser.new_page().close()  # starts its crash handlers, which live as long as it does
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """A server with runs of every sort and a project. Modules that change it use names of their own."""
    with SqliteJournal(folder / "runs.db") as journal:
        for story in (stories.finished(), stories.running(), stories.failed(), stories.modelled()):
            journal.append(story.events)
    served = Served(folder / "runs.db")
    served.start()
    try:
        stories.project(served)
        yield served
    finally:
        served.kill()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers of the test's own; they end after the pages are closed."""
    started: list[Served] = []

    def start(path: Path, *options: str) -> Served:
        served = Served(path, *options)
        started.append(served)
        served.start()
        return served

    yield start
    for served in started:
        served.kill()


@pytest.fixture
def open_page(browser: Browser, serve: Serve) -> Iterator[OpenPage]:
    """Opens pages. None of them may raise an error, open a dialog, break the policy or call another host."""
    troubles: list[str] = []
    pages: list[Page] = []

    def open_(url: str, *, width: int = DESKTOP, theme: str = "dark", quiet: bool = True) -> Page:
        phone = width <= PHONE
        context = browser.new_context(
            viewport={"width": width, "height": 740 if phone else 800},
            color_scheme="dark" if theme == "dark" else "light",
            is_mobile=phone,
            has_touch=phone,
            reduced_motion="reduce",
            timezone_id="Europe/Oslo",
        )
        page = context.new_page()
        page.set_default_timeout(15_000)
        origin = "/".join(url.split("/")[:3])

        def dismiss(dialog: Dialog) -> None:
            troubles.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        def on_console(message: ConsoleMessage) -> None:
            if quiet and message.type == "error":
                troubles.append(f"console: {message.text}")

        def on_request(request: Request) -> None:
            if not request.url.startswith(origin):
                troubles.append(f"request: {request.url}")

        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", dismiss)
        page.on("console", on_console)
        page.on("request", on_request)
        page.goto(url)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.context.close()
    assert troubles == []
