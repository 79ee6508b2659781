"""The guide to a chat, from an empty folder: create an application, install, paste the code, run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, PHONE, Serve
from tests.browser.server_process import Served
from tests.browser.test_views import serious, sideways
from tests.docs.pages import all_pages
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "react-chat"
SERVER, PAGE = "http://127.0.0.1:8321", "http://localhost:5173"  # in the guide and in the example
NO_REGISTRY = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH")
NPM = {"npm_config_yes": "true", "npm_config_prefer_offline": "true", "npm_config_audit": "false"}
SECONDS = 400  # for npm, on a loaded machine


def block_of_the_guide(language: str, text: str) -> str:
    (page,) = (page for page in all_pages() if page.name == "docs/how-to/build-a-chat.md")
    return next(block.text for block in page.blocks() if block.language == language and text in block.text)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # for `longwatch`
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", **NPM}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the first commands of the guide make of an empty folder with a checkout in it."""
    if shutil.which("npm") is None:
        pytest.skip("there is no `npm` here; install Node and npm to follow the guide")
    folder = tmp_path_factory.mktemp("react")
    (folder / "longwatch").symlink_to(ROOT)
    done = run(["sh", "-ec", block_of_the_guide("sh", "npm create vite")], folder)
    if done.returncode and NO_REGISTRY.search(done.stderr):
        pytest.skip("the registry of npm cannot be reached; it has the packages of the guide")
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder / "chat"
    shutil.rmtree(folder)  # its packages are large


@contextmanager
def vite(application: Path, port: int, *command: str) -> Iterator[str]:
    """The development server, or with `preview` the built application; yields its URL."""
    script = application / "node_modules" / "vite" / "bin" / "vite.js"
    options = ["--port", str(port), "--strictPort"]
    process = subprocess.Popen(
        ["node", str(script), *command, *options],
        cwd=application,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        output = ""
        while "Local:" not in output:
            line = process.stdout.readline()
            assert line, f"vite has ended: {output}"
            output += line
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.communicate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def chat_page(browser: Browser) -> Iterator[Page]:
    """A page that must not report an error."""
    context = browser.new_context(viewport={"width": DESKTOP, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert troubles == []


def build(application: Path) -> None:
    done = run(["npm", "run", "build"], application)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_the_chat_of_the_guide_works_as_pasted(
    application: Path, serve: Serve, chat_page: Page, tmp_path: Path
) -> None:
    port = free_port()
    served = serve(tmp_path / "runs.db", "--allow-origin", PAGE.replace("5173", str(port)))
    code = block_of_the_guide("tsx", "export default function App")
    (application / "src" / "App.tsx").write_text(code.replace(SERVER, served.url), encoding="utf-8")
    build(application)
    page, prompt = chat_page, chat_page.get_by_label("Prompt")

    with vite(application, port) as url:
        page.goto(url)
        prompt.fill("Say hello")
        page.get_by_role("button", name="Send").click()
        waiting = page.get_by_text("Waiting for an agent to execute turn-")
        expect(waiting).to_be_visible()
        turn_id = waiting.inner_text().split()[-1]
        command = block_of_the_guide("sh", "--turn turn-…").replace("turn-…", turn_id)
        done = run(["sh", "-ec", command.replace(SERVER, served.url)], tmp_path)
        assert done.returncode == 0, done.stderr
        expect(page.get_by_text("Hello from a shell.")).to_be_visible()
        expect(waiting).to_be_hidden()

        other = page.context.new_page()
        other.goto(url)
        expect(other.get_by_text("Hello from a shell.")).to_be_visible()
        prompt.fill("Take your time")
        prompt.press("Enter")
        expect(other.get_by_role("heading", name="Take your time")).to_be_visible()
        other.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alert")).to_have_text("interrupted by the user")
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        other.close()
        page.goto("about:blank")  # before its servers end


class Agent:
    """The part of an agent in the turns of a chat."""

    def __init__(self, served: Served, page: Page) -> None:
        self._call = served.call
        self.session = f"/api/projects/demo/sessions/{page.url.partition('#')[2]}"

    def print(self, *lines: dict[str, Any]) -> None:
        """Print these lines in the last turn."""
        turn_id = self._call("GET", f"{self.session}/turns")["turns"][-1]["id"]
        text = "\n".join(map(json.dumps, lines)).encode()
        self._call("POST", f"{self.session}/turns/{turn_id}/lines", text, kind="application/x-ndjson")


def message(**item: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [item]}}


def result(of: str, content: str, *, is_error: bool) -> dict[str, Any]:
    item = {"type": "tool_result", "tool_use_id": of, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"content": [item]}}


def streamed(text: str) -> list[dict[str, Any]]:
    events = (
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
    )
    return [{"type": "stream_event", "event": event} for event in events]


@pytest.mark.timeout(600)
def test_the_example_is_a_chat_in_every_width_and_theme(
    application: Path, serve: Serve, chat_page: Page, tmp_path: Path
) -> None:
    port = free_port()
    served = serve(tmp_path / "runs.db", "--allow-origin", PAGE.replace("5173", str(port)))
    shutil.rmtree(application / "src")
    shutil.copytree(EXAMPLE / "src", application / "src")
    shutil.copy(EXAMPLE / "index.html", application)
    settings = (EXAMPLE / "src" / "server.ts").read_text(encoding="utf-8")
    (application / "src" / "server.ts").write_text(settings.replace(SERVER, served.url), encoding="utf-8")
    build(application)
    page, prompt = chat_page, chat_page.get_by_label("Prompt")

    with vite(application, port, "preview") as url:
        page.goto(url)
        expect(page.get_by_text("What should the agent do?")).to_be_visible()
        prompt.fill("Repair the roof")
        prompt.press("Enter")
        expect(page.get_by_text(f"longwatch turn --server {served.url}")).to_be_visible()
        expect(page.get_by_role("link", name="Repair the roof")).to_have_attribute("aria-current", "page")
        agent = Agent(served, page)

        agent.print(
            message(type="thinking", thinking="Where is the hammer?"),
            message(type="tool_use", id="c1", name="Hammer", input={"where": "the ridge"}),
        )
        tool = page.locator("details.tool")
        expect(tool).to_have_text(re.compile("Hammer the ridge running"))
        agent.print(result("c1", "a loose tile", is_error=True), *streamed("The ridge is "))
        expect(tool).to_have_text(re.compile("Hammer the ridge failed"))
        expect(page.locator(".streaming")).to_have_text("The ridge is")
        agent.print(message(type="text", text="The ridge is loose:\n\n```sh\nfix ridge\n```"))
        expect(page.locator(".turn > pre")).to_have_text("fix ridge")
        expect(page.locator(".streaming")).to_be_hidden()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("interrupted by the user")).to_be_visible()

        served.put_file("demo", "notes.md", "tiles")
        page.get_by_role("button", name="notes.md").click()
        notes = page.get_by_label("notes.md", exact=True)
        expect(notes).to_have_value("tiles")
        notes.press("End")
        notes.press_sequentially(" and nails")
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()

        for theme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            for width in (DESKTOP, PHONE):
                page.set_viewport_size({"width": width, "height": 740})
                assert sideways(page) == 0
                assert serious(page) == []
        page.get_by_role("button", name="Chats").click()
        page.get_by_role("button", name="New chat").click()
        expect(page.get_by_text("What should the agent do?")).to_be_visible()
        page.get_by_role("button", name="Chats").click()
        page.get_by_role("link", name="Repair the roof").click()
        expect(page.get_by_text("interrupted by the user")).to_be_visible()
        page.goto("about:blank")

    assert served.call("GET", "/api/projects/demo/files")["files"][0]["path"] == "notes.md"
