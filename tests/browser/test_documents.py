"""A document of the React package in a real page that is left, and whose server is killed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, Serve
from tests.browser.server_process import Served
from tests.web.node import WEB, node, tool

BUILD = """
import { build } from "vite";

const entry = "tests/support/application.js";
await build({
  root: "react",
  configFile: false,
  logLevel: "error",
  build: { outDir: process.argv[1], lib: { entry, formats: ["es"], fileName: () => "bundle.js" } },
});
"""
HTML = '<!doctype html><title>Notes</title><script type="module" src="/bundle.js"></script>'
SECONDS = 120


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page's code, as a bundler makes it."""
    tool("vite")
    folder = tmp_path_factory.mktemp("bundle")
    for arguments in (
        ["react/scripts/take-core.js"],
        ["--input-type=module", "--eval", BUILD, str(folder)],
    ):
        command = [node(), *arguments]
        done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "bundle.js").read_text()


def opened(served: Served, open_page: OpenPage, bundle: str) -> Page:
    """The page, which comes from the server's own address."""
    served.call("POST", "/api/projects", {"id": "p"})
    page = open_page(served.url, quiet=False)
    page.route("**/notes.html", lambda route: route.fulfill(body=HTML, content_type="text/html"))
    page.route("**/bundle.js", lambda route: route.fulfill(body=bundle, content_type="text/javascript"))
    page.goto(f"{served.url}/notes.html")
    page.wait_for_function("window.sync !== undefined")
    return page


def stored_size(served: Served) -> int | None:
    """How long the file is on the server."""
    files = served.call("GET", "/api/projects/p/files")["files"]
    return files[0]["size"] if files else None


def until_stored(served: Served, size: int) -> None:
    until = time.monotonic() + 20.0
    while stored_size(served) != size:
        assert time.monotonic() < until, f"the server has {stored_size(served)} bytes, not {size}"
        time.sleep(0.02)  # another process stores it


def test_text_typed_right_before_a_page_is_closed_reaches_the_server(
    tmp_path: Path, serve: Serve, open_page: OpenPage, bundle: str
) -> None:
    served = serve(tmp_path / "runs.db")
    page = opened(served, open_page, bundle)

    served.freeze()  # the first word stays under way, so only leaving the page can send the second
    page.evaluate(
        """() => {
             words.insert(0, "first");
             setTimeout(() => {
               words.insert(5, " and last");
               location.href = "about:blank";
             });
           }"""
    )
    page.wait_for_url("about:blank")
    served.thaw()

    until_stored(served, len("first and last"))


def test_text_typed_while_the_server_is_gone_reaches_it_when_it_is_back(
    tmp_path: Path, serve: Serve, open_page: OpenPage, bundle: str
) -> None:
    served = serve(tmp_path / "runs.db")
    page = opened(served, open_page, bundle)
    served.kill()
    page.evaluate("() => words.insert(0, 'typed offline')")
    assert page.evaluate("() => sync.hasUnsavedChanges")

    served.start()
    page.evaluate("() => window.dispatchEvent(new Event('online'))")

    page.wait_for_function("() => !sync.hasUnsavedChanges")
    until_stored(served, len("typed offline"))
    expect(page).to_have_title("Notes")
