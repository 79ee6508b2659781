"""The page in Chromium: what an idle hour costs, how soon big things are there, and how smooth they are.

Bytes are counted by a proxy on loopback between Chromium and the server, so that headers and every chunk of a
stream are in. An hour is extrapolated from the measured seconds: what an idle page does repeats every 15 s.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from benchmarks.harness import Goal, Result, interleaved

from longwatch.journal.factory import open_journal
from longwatch.model.event import Event

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
HOUR = 3600
POLL_SECONDS = 2  # the interval of the turn and document polling requirements
TURN = "/api/projects/bench/sessions/s/turns"
HIDE = """() => {
    Object.defineProperty(document, 'visibilityState', {get: () => 'hidden', configurable: true});
    Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
WHEN_PAINTED = """async ([selector, text]) => {
    const there = () => document.querySelector(selector)?.textContent.includes(text);
    await new Promise((resolve) => {
        const check = () => there() && (watching.disconnect(), resolve());
        const watching = new MutationObserver(check);
        watching.observe(document, { subtree: true, childList: true, characterData: true });
        check();
    });
    await new Promise(requestAnimationFrame); // the picture that has it is the next one
    return performance.now();
}"""
POLL = """async ([path, polls]) => {
    for (let n = 0; n < polls; n += 1) await (await fetch(path, { cache: 'no-store' })).json();
}"""
FRAMES = 60  # of each movement
MOVE_TIMELINE = """async (frames) => {
    const timeline = document.querySelector('lw-timeline');
    const rows = timeline.querySelector('.bars');
    const move = async (step) => {
        for (let frame = 0; frame < frames; frame += 1) {
            step(frame);
            await new Promise(requestAnimationFrame);
        }
    };
    await move(() => rows.scrollBy(0, 50));
    timeline.zoom(0.5);
    await move((frame) => timeline.pan(frame % 2 ? 0.1 : -0.05));
    await move((frame) => timeline.zoom(frame % 2 ? 1 / 0.9 : 0.9));
}"""
RAW_RUNS = """async () => {
    await (await fetch('/api/runs?limit=50')).json();
    return performance.now();
}"""
RAW_EVENTS = """async (run) => {
    const start = performance.now();
    let after = '', more = true, limit = 500, count = 0;
    while (more) {
        const query = new URLSearchParams({ limit, after });
        const page = await (await fetch(`/api/runs/${run}/events?${query}`)).json();
        ({ cursor: after, more } = page);
        count += page.events.length;
        limit = 5000;
    }
    return [performance.now() - start, count];
}"""


def measure(*, quick: bool) -> Iterator[Result]:
    """Idle pages, then big ones."""
    missing = [
        name for name in ("playwright", "uvicorn", "fastapi") if importlib.util.find_spec(name) is None
    ]
    missing += [] if CHROMIUM.exists() else [str(CHROMIUM)]
    if missing:
        print(f"\n## The page\n\nLeft out: {', '.join(missing)} is not installed here.")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS.split())
        with tempfile.TemporaryDirectory() as folder:
            yield _idle(browser, Path(folder), seconds=45 if quick else 150)
            yield _big(browser, Path(folder), quick=quick)
            yield _timeline(browser, Path(folder), quick=quick)
        browser.close()


def _idle(browser: Browser, folder: Path, *, seconds: int) -> Result:
    with _served(folder / "idle.db") as url, Counter(url) as counter:
        turn = _session(url)
        page, requests = _open(browser, f"{counter.url}/projects/bench/sessions/s")
        page.locator(".block").nth(3).wait_for()
        page.locator("#connection[data-state=live]").wait_for()
        page.wait_for_timeout(3_000)  # what belongs to opening is over
        load_bytes, load_requests = counter.bytes, len(requests)
        visible = _renderer_seconds(browser, page, seconds)
        idle_bytes, idle_requests = counter.bytes - load_bytes, len(requests) - load_requests
        page.evaluate(HIDE)
        seen_bytes, seen_requests = counter.bytes, len(requests)
        hidden = _renderer_seconds(browser, page, seconds)
        hidden_bytes, hidden_requests = counter.bytes - seen_bytes, len(requests) - seen_requests
        before, polls = counter.bytes, 20
        page.evaluate(POLL, [turn, polls])
        each = (counter.bytes - before) / polls
        page.context.close()
    hour = HOUR / seconds
    ours, theirs = idle_bytes * hour, each * HOUR / POLL_SECONDS
    hourly_requests = idle_requests * hour + 1  # the stream itself is one
    return Result(
        "An idle hour of one open session page",
        ("case", "requests", "bytes", "renderer CPU, s per minute"),
        [
            ("this page, visible", round(hourly_requests), ours, visible / seconds * 60),
            ("this page, hidden", round(hidden_requests * hour), hidden_bytes * hour, hidden / seconds * 60),
            ("polling every 2 s without tags (as required)", HOUR // POLL_SECONDS, theirs, "–"),
            ("opening this page, once", load_requests, load_bytes, "–"),
        ],
        [
            Goal("bytes / plain polling", ours / theirs, 1 / 50),
            Goal("requests / plain polling", hourly_requests / (HOUR / POLL_SECONDS), 1 / 50),
        ],
        [
            f"Measured for {seconds} s each and extrapolated; a poll is {each:,.0f} bytes.",
            "Hidden is as the page sees it: the visibility is overridden, because a headless Chromium never "
            "hides a tab.",
        ],
    )


def _big(browser: Browser, folder: Path, *, quick: bool) -> Result:
    runs, events = (2_000, 20_000) if quick else (10_000, 100_000)
    _fill(folder / "big.db", runs=runs, events=events)
    with _served(folder / "big.db") as url:

        def timed(path: str, script: str, argument: object) -> float:
            page, _ = _open(browser, f"{url}{path}")
            found = page.evaluate(script, argument)
            page.context.close()
            return float(found[0] if isinstance(found, list) else found)

        cases: dict[str, Callable[[], float]] = {
            "raw JSON of the list": lambda: timed("/api/health", RAW_RUNS, None),
            "runs page, rows painted": lambda: timed("/runs", WHEN_PAINTED, ["a.run-row", ""]),
            "raw JSON of the run": lambda: timed("/api/health", RAW_EVENTS, "wf-big"),
            "run page, caught up": lambda: timed(
                "/runs/wf-big", WHEN_PAINTED, [".fact-caught-up", "caught up"]
            ),
        }
        for case in cases.values():
            case()  # once for nothing: the server's first answers are slower
        cost = interleaved(cases, rounds=3 if quick else 7)
    raw_list, list_page, raw_run, run_page = cost.values()
    return Result(
        f"Opening: {runs:,} runs, and a run of {events:,} events",
        ("case", "ms"),
        list(cost.items()),
        [
            Goal("runs page / raw JSON", list_page / raw_list, 3),
            Goal("run page / raw JSON", run_page / raw_run, 3),
        ],
        ["From the start of the navigation, in a browser context that has nothing cached."],
    )


def _timeline(browser: Browser, folder: Path, *, quick: bool) -> Result:
    small, large = 1_000, 20_000 if quick else 100_000
    with open_journal(f"sqlite:///{folder / 'timeline.db'}") as journal:
        for calls in (small, large):
            events = _calls(f"wf-{calls}", calls)
            for first in range(0, len(events), 5_000):
                journal.append(events[first : first + 5_000])
    with _served(folder / "timeline.db") as url:
        pages = {calls: _open(browser, f"{url}/runs/wf-{calls}?tab=timeline")[0] for calls in (small, large)}
        for page in pages.values():
            page.evaluate(WHEN_PAINTED, [".fact-caught-up", "caught up"])
            page.evaluate(WHEN_PAINTED, [".timeline-text", "in view"])
            page.keyboard.press("r")  # every call is a row
        cases: dict[str, Callable[[], float]] = {
            f"{calls:,} calls": partial(_script_ms, page) for calls, page in pages.items()
        }
        for case in cases.values():
            case()  # once for nothing: the code is not compiled yet
        cost = interleaved(cases, rounds=3 if quick else 7)
        for page in pages.values():
            page.context.close()
    of_small, of_large = cost.values()
    return Result(
        "A timeline that is scrolled, panned and zoomed",
        ("case", "script, CPU ms per frame"),
        list(cost.items()),
        [Goal(f"{large:,} calls / {small:,} calls", of_large / of_small, 1.5)],
        ["All calls are rows: folded, their number on the screen would not matter."],
    )


def _script_ms(page: Page) -> float:
    """The CPU time that scripts take for a frame, as the browser counts it; other processes do not matter."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "ScriptDuration"))

    page.bring_to_front()
    page.keyboard.press("0")
    before = spent()
    page.evaluate(MOVE_TIMELINE, FRAMES)
    return (spent() - before) * 1000 / (3 * FRAMES)


class Counter:
    """A proxy that counts the bytes of both directions."""

    def __init__(self, url: str) -> None:
        self._target = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes = 0

    def __enter__(self) -> Counter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(self._target)
            except OSError:
                return
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65_536):
                with self._lock:
                    self.bytes += len(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _open(browser: Browser, url: str) -> tuple[Page, list[str]]:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url, wait_until="commit")
    return page, requests


def _renderer_seconds(browser: Browser, page: Page, seconds: int) -> float:
    """CPU time of all renderers while the page is left alone."""
    session = browser.new_browser_cdp_session()

    def spent() -> float:
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return float(sum(each["cpuTime"] for each in processes if each["type"] == "renderer"))

    before = spent()
    page.wait_for_timeout(seconds * 1000)
    return spent() - before


@contextmanager
def _served(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "longwatch", "serve", "--port", "0", "--journal", f"sqlite:///{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1].rstrip("/")
        finally:
            process.kill()


def _session(url: str) -> str:
    """A running turn of twenty blocks; returns its address."""

    def post(path: str, body: Any, kind: str = "application/json") -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with urlopen(Request(f"{url}{path}", data=data, headers={"Content-Type": kind})) as answer:
            return json.load(answer)

    post("/api/projects", {"id": "bench"})
    post("/api/projects/bench/sessions", {"id": "s"})
    turn = f"{TURN}/{post(TURN, {'prompt': 'write'})['id']}"
    post(f"{turn}/start", {})
    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "what it says " * 20}]}}
    post(f"{turn}/lines", "\n".join([json.dumps(line)] * 20).encode(), "application/x-ndjson")
    return turn


def _fill(path: Path, *, runs: int, events: int) -> None:
    now = time.time_ns() // 1_000_000

    def event(run_id: str, number: int, type: str, at: int, **payload: object) -> Event:
        call, agent = (f"c{number // 2}", f"agent-{number // 2 % 5}") if type == "tool_call" else (None, None)
        return Event(
            run_id=run_id,
            event_id=f"{run_id}-{number:06}",
            type=type,
            occurred_at=at,
            payload=payload,
            call_id=call,
            agent_name=agent,
        )

    with open_journal(f"sqlite:///{path}") as journal:
        for first in range(0, runs, 500):
            batch: list[Event] = []
            for number in range(first, min(first + 500, runs)):
                run_id, at = f"wf-{number:012x}", now - 3_600_000 - number * 1000
                batch.append(event(run_id, 0, "workflow_start", at, name=f"job {number}"))
                batch.append(event(run_id, 1, "workflow_complete", at + 900, status="completed"))
            journal.append(batch)
        started = now - events - 10_000
        written = [event("wf-big", 0, "workflow_start", started, name="the long one")]
        for number in range(2, events):
            fields: dict[str, object] = {"status": "started", "input": {"page": number}}
            if number % 2:
                fields = {"status": "completed", "output": "a page of text", "duration_ms": 1.5}
            written.append(
                event("wf-big", number, "tool_call", started + number, operation="fetch", **fields)
            )
        written.append(event("wf-big", events, "workflow_complete", started + events, status="completed"))
        for first in range(0, len(written), 5_000):
            journal.append(written[first : first + 5_000])


def _calls(run_id: str, calls: int) -> list[Event]:
    """The events of a run of so many calls of tools, a hundred in each span of an agent; one in 500 fails."""
    at = time.time_ns() // 1_000_000 - calls * 2 - 10_000
    found: list[Event] = []

    def add(type: str, moment: int, call: str | None, span: str | None = None, **payload: object) -> None:
        found.append(
            Event(
                run_id=run_id,
                event_id=f"{run_id}-{len(found):07}",
                type=type,
                occurred_at=moment,
                payload=payload,
                call_id=call,
                parent_call_id=span,
                agent_name=call and "reader",
            )
        )

    for first in range(0, calls, 100):
        span = f"a{first}"
        add("agent_start", at, span, status="started")
        for number in range(first, first + 100):
            name, failed = ("fetch", "parse", "store")[number % 3], number % 500 == 499
            outcome = {"status": "failed", "error_message": "Timeout"} if failed else {"status": "completed"}
            add("tool_call", at, f"c{number}", span, operation=name, status="started", input={"page": number})
            add("tool_call", at + 2, f"c{number}", span, operation=name, duration_ms=2, **outcome)
            at += 2
        add("agent_end", at, span, status="completed")
    start, end = found[0].occurred_at, at + 1
    add("workflow_start", start, None, name=f"{calls:,} calls")
    add("workflow_complete", end, None, status="completed")
    return found
