"""A run of 300,000 events beside one of 1,000, and a list of 50,000 runs: what grows with them.

Of commands and requests the CPU time counts: they wait for nothing else, and the load of the machine matters
less.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.harness import Goal, Result, interleaved, percentile
from benchmarks.serving.processes import Running, longwatch

from longwatch.following.observation import Observer
from longwatch.journal.codec import digest
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.queries import READ
from longwatch.journal.sqlite.side_files import delete_file, snapshots_path
from longwatch.model.event import Cursor, Event, numbered_event_id
from longwatch.model.query_language import parse_query
from longwatch.model.run import Status
from longwatch.model.run_query import INDEX_KINDS, WORK, RunQuery

SMALL_EVENTS = 1_000
CALLS_OF_AN_AGENT = 12
PAGE_RUNS = 50
PAGES = 500
FIRST_MS = 1_700_000_000_000
PAUSE_SECONDS = 0.01  # between two health checks
PAYLOAD_COLUMN, POSITION_COLUMN = 5, -1

# A process started from a large one inherits its peak, so the command states its own as its last line.
COMMAND = """
import atexit, sys
from pathlib import Path
@atexit.register
def state_peak():
    print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0], file=sys.stderr)
from longwatch.cli.main import main
sys.exit(main())
"""


def measure(*, quick: bool) -> Iterator[Result]:
    """Commands, the server, and lists."""
    events, runs, rounds = (60_000, 50_000, 3) if quick else (300_000, 50_000, 5)
    with tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as folder:
        path = Path(folder) / "large.db"
        with SqliteJournal(path) as journal:
            for run_id, count in (("wf-small", SMALL_EVENTS), ("wf-large", events)):
                append(journal, run_events(run_id, count))
        yield _commands(path, events, rounds)
        yield _server(path, events, rounds)
        with SqliteJournal(Path(folder) / "runs.db") as journal:
            append(journal, (event for number in range(runs) for event in small_run(number)))
            yield _lists(journal, runs, rounds)


def append(journal: SqliteJournal, events: Iterable[Event]) -> None:
    """Store events, many at a time."""
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) == 5_000:
            journal.append(batch)
            batch = []
    journal.append(batch)


def run_events(run_id: str, count: int) -> Iterator[Event]:
    """A run of agents one after another, with calls of tools and models, of which a few fail."""
    previous, at, number = None, FIRST_MS, 0
    for type_, payload, agent, call, parent in _steps(count):
        at, number = at + 7, number + 1
        event = Event(
            run_id=run_id,
            event_id=numbered_event_id(at, run_id[-5:].rjust(12, "0"), number),
            type=type_,
            occurred_at=at,
            agent_name=agent,
            payload=payload,
            call_id=call,
            parent_call_id=parent,
            producer=run_id[-5:].rjust(12, "0"),
            number=number,
            previous_digest=previous,
        )
        previous = digest(event)
        yield event


Step = tuple[str, dict[str, object], str | None, str | None, str | None]


def _steps(count: int) -> Iterator[Step]:
    yield "workflow_start", {"name": "night"}, None, None, None
    left, number, text = count - 2, 0, "x" * 200
    while left >= 2 * CALLS_OF_AN_AGENT + 2:
        number += 1
        agent, span = f"reader{number % 4}", f"span{number:06}"
        yield "agent_start", {"role": "reader"}, agent, span, None
        for index in range(CALLS_OF_AN_AGENT):
            call = f"{span}-{index}"
            type_, start, end = _call(index, call, text, fails=(number * 12 + index) % 997 == 0)
            yield type_, {**start, "status": "started"}, agent, call, span
            yield type_, {**start, **end, "duration_ms": 7}, agent, call, span
        yield "agent_end", {"status": "completed", "output": text}, agent, span, None
        left -= 2 * CALLS_OF_AN_AGENT + 2
    for _ in range(left):
        yield "note", {"text": text}, None, None, None
    yield "workflow_complete", {"status": "completed"}, None, None, None


def _call(
    index: int, call: str, text: str, *, fails: bool
) -> tuple[str, dict[str, object], dict[str, object]]:
    start: dict[str, object]
    if index % 4 == 3:
        usage: dict[str, object] = {"input_tokens": 100 + index, "output_tokens": 20, "response_id": call}
        start = {"operation": "chat", "provider": "openai", "model": "m", "input": [{"content": text}]}
        return "model_call", start, {"status": "completed", "output": text, **usage}
    start = {"operation": ("search", "fetch", "parse")[index % 4], "input": {"query": text, "page": index}}
    if fails:
        return "tool_call", start, {"status": "failed", "error_message": "FeedTimeout: no response"}
    return "tool_call", start, {"status": "completed", "output": {"items": [text]}}


def _commands(path: Path, events: int, rounds: int) -> Result:
    peaks: dict[str, int] = {}

    def run(name: str, arguments: list[str]) -> float:
        before = os.times()
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments, "--journal", f"sqlite:///{path}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=True,
        )
        after = os.times()
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        peaks[name] = max(peaks.get(name, 0), int(done.stderr.split()[-1]))
        return seconds

    cases = {
        f"{name}, {count:,} events": functools.partial(
            run, f"{name}, {count:,} events", [*name.split(), f"wf-{size}"]
        )
        for name in ("tail -n 5", "tail -o jsonl", "show", "verify", "export")
        for size, count in (("small", SMALL_EVENTS), ("large", events))
    }
    first = f"show, {events:,} events, nothing stored"
    cost = {first: run(first, ["show", "wf-large"]), **interleaved(cases, rounds=rounds)}

    def growth(values: dict[str, float] | dict[str, int], name: str) -> float:
        return values[f"{name}, {events:,} events"] / values[f"{name}, {SMALL_EVENTS:,} events"]

    flat = ("tail -n 5", "tail -o jsonl", "show", "verify", "export")
    return Result(
        f"Commands on a run of {events:,} events",
        ("command", "CPU s", "peak MB"),
        [(name, seconds, peaks[name] / 1024) for name, seconds in cost.items()],
        [
            *(
                Goal(f"{name}: CPU time / that of {SMALL_EVENTS:,} events", growth(cost, name), 3)
                for name in ("tail -n 5", "show")
            ),
            *(
                Goal(f"{name}: memory / that of {SMALL_EVENTS:,} events", growth(peaks, name), 1.5)
                for name in flat
            ),
        ],
    )


def _server(path: Path, events: int, rounds: int) -> Result:
    raw: list[float] = []
    first: list[float] = []
    again: list[float] = []
    quiet: list[float] = []
    busy: list[float] = []
    peaks: dict[str, list[int]] = {"first": [], "again": []}
    for _ in range(max(1, rounds // 2)):
        delete_file(snapshots_path(path))
        raw.append(_cpu_seconds(lambda: _read_and_decode(path, events)))
        with longwatch(path) as server:
            quiet += _health_during(server, lambda: time.sleep(2))
            busy += _health_during(server, lambda: first.append(_get_run(server, events)))
            peaks["first"].append(_peak_kb(server))
        with longwatch(path) as server:
            again.append(_get_run(server, events))
            peaks["again"].append(_peak_kb(server))
    reading, folded, stored = map(statistics.median, (raw, first, again))
    during, before = (1_000 * percentile(times, 0.99) for times in (busy, quiet))
    megabytes = {name: statistics.median(found) / 1024 for name, found in peaks.items()}
    return Result(
        f"The first GET /api/runs/{{id}} of a run of {events:,} events",
        ("case", "CPU s", "× raw", "peak MB of the server"),
        [
            ("raw loop, 2,000 rows a query, payloads decoded", reading, 1.0, "–"),
            ("no snapshot: the server folds the run", folded, folded / reading, megabytes["first"]),
            ("a new server, with the snapshot of the first", stored, stored / reading, megabytes["again"]),
        ],
        [
            Goal("first GET of a new server / raw loop", stored / reading, 2),
            Goal("first GET without a snapshot / raw loop", folded / reading, 2),
            Goal("p99 of health checks while the run is folded, ms", during, 50),
        ],
        [f"p99 of health checks of the idle server: {before:.1f} ms"],
    )


def _cpu_seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def _read_and_decode(path: Path, events: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    position = count = 0
    try:
        while rows := connection.execute(READ, ("wf-large", position, 0, "wf-large", 2_000)).fetchall():
            count += sum(isinstance(json.loads(row[PAYLOAD_COLUMN]), dict) for row in rows)
            position = rows[-1][POSITION_COLUMN]
    finally:
        connection.close()
    if count != events:
        raise RuntimeError(f"{count} events")


def _get_run(server: Running, events: int) -> float:
    """The CPU time of the server, which waits for nothing else."""
    before = server.cpu_seconds()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("GET", "/api/runs/wf-large", headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.status != 200 or len(body) < events:
        raise RuntimeError(f"{response.status}, {len(body)} bytes")
    return server.cpu_seconds() - before


def _health_during(server: Running, work: Callable[[], object]) -> list[float]:
    """The time of each health check while the work is under way."""
    times: list[float] = []
    is_warm, is_over = threading.Event(), threading.Event()

    def check() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/api/health")  # the first one of a server is slower
        connection.getresponse().read()
        is_warm.set()
        while not is_over.wait(PAUSE_SECONDS):
            started = time.perf_counter()
            connection.request("GET", "/api/health")
            connection.getresponse().read()
            times.append(time.perf_counter() - started)
        connection.close()

    thread = threading.Thread(target=check)
    thread.start()
    is_warm.wait(timeout=60)
    work()
    is_over.set()
    thread.join()
    return times


def _peak_kb(server: Running) -> int:
    return int(Path(f"/proc/{server.pid}/status").read_text().split("VmHWM:")[1].split()[0])


def small_run(number: int) -> Iterator[Event]:
    """A run of two events; of a third of the runs one, which are open."""
    run_id, at = f"wf-{number:06}", FIRST_MS + number * 1_000
    tags = ["nightly"] if number % 5 == 0 else []
    kind = "session" if number % 10 == 0 else "workflow"
    start = {"name": f"job{number % 7}", "kind": kind, "tags": tags}
    yield Event(run_id=run_id, event_id=f"{run_id}-1", type="workflow_start", occurred_at=at, payload=start)
    if number % 3:
        end = "workflow_error" if number % 11 == 1 else "workflow_complete"
        payload = {"error_message": "FeedTimeout: no response"} if end == "workflow_error" else {}
        yield Event(run_id=run_id, event_id=f"{run_id}-2", type=end, occurred_at=at + 5, payload=payload)


def _lists(journal: SqliteJournal, runs: int, rounds: int) -> Result:
    observer = Observer(journal)
    late = FIRST_MS + runs * 1_000
    queries = {
        "all": (WORK, 1),
        "status failed": (RunQuery(status=Status.FAILED, except_kinds=INDEX_KINDS), 15),
        "kind session": (RunQuery(kind="session"), 10),
        "name job3": (RunQuery(text="job3", except_kinds=INDEX_KINDS), 7),
        "tag:nightly": (parse_query("tag:nightly", now_ms=late, within=WORK), 5),
    }
    cases: dict[str, Callable[[], float]] = {}
    for name, (query, one_of) in queries.items():
        deep = min(PAGES * PAGE_RUNS * one_of, runs - 2 * PAGE_RUNS * one_of)
        number = runs - deep
        after = Cursor(f"{FIRST_MS + number * 1_000}:wf-{number:06}")
        last = deep // PAGE_RUNS // one_of
        for title, cursor in ((f"{name}, page 1", None), (f"{name}, page {last}", after)):
            page = functools.partial(observer.find_runs, query, after=cursor, limit=PAGE_RUNS)
            if len(page().runs) != PAGE_RUNS:
                raise RuntimeError(f"{title}: not a full page")
            cases[title] = functools.partial(_page_ms, page)
    cost = interleaved(cases, rounds=rounds)
    times = list(cost.values())
    return Result(
        f"Pages of a list of {runs:,} runs",
        ("page", "CPU ms"),
        list(cost.items()),
        [
            Goal(f"{name}: last of these pages / page 1", times[2 * index + 1] / times[2 * index], 1.5)
            for index, name in enumerate(queries)
        ],
    )


def _page_ms(page: Callable[[], object]) -> float:
    return _cpu_seconds(lambda: [page() for _ in range(5)]) / 5 * 1_000
