"""Journals for the visual review: one run, and all that is large, long, broken or right to left."""

from __future__ import annotations

from pathlib import Path

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.browser import stories
from tests.browser.boards import Board
from tests.browser.server_process import Served
from tests.browser.test_big import many_events
from tests.browser.test_timeline import long_run
from tests.unit.cli.samples import Story

MANY_RUNS, MANY_FAILURES = 70, 12
BIG_EVENTS = 100_000
LONG_NAME = "reconcile-" + "the-quarterly-ledger-of-every-subsidiary-" * 4 + "once"
LONG_SENTENCE = "Compare every invoice of the northern region with its delivery note and its payment " * 3
RTL_NAME = "تقرير المبيعات الشهري"
RTL_TEXT = "שלום עולם: הדוח נכשל (timeout after 30 s) בשלב 3"
ERROR_BYTES = 3_000
LONG_ERROR = (
    "FeedTimeout: no response from https://prices.example.org/v2/quotes?"
    + "symbol=NO0010063308&" * (ERROR_BYTES // 20)
)
TRACEBACK = "\n".join(
    f'  File "/srv/agents/prices/fetching_module_{n}.py", line {n * 7}' for n in range(1, 30)
)


def fill_many(path: Path) -> None:
    """Runs of every sort, executions of every sort."""
    with SqliteJournal(path) as journal:
        for story in (stories.finished(), stories.failed(), stories.modelled(), stories.running()):
            journal.append(story.events)
        journal.append(stories.restarted())
        for story in (long_names(), failed_at_length(), right_to_left()):
            journal.append(story.events)
        for story in (
            long_run("wf-repeats", at=stories.now_ms() - 400_000),
            long_run("wf-live", at=stories.now_ms() - 92_000, ends=False),
            stories.finished("wf-unwanted"),
        ):
            journal.append(story.events)
        for number in range(MANY_RUNS):
            journal.append(_small(number).events)
        _append(journal, many_events("wf-big", BIG_EVENTS, at=stories.now_ms() - BIG_EVENTS))
    board = Board(path)
    board.everything()
    board.watched("x-" + LONG_NAME, LONG_NAME, RTL_NAME, name=LONG_SENTENCE)
    board.close()


def fill_one(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append(stories.finished().events)
    board = Board(path)
    board.running()
    board.close()


def projects(served: Served) -> None:
    """A project with a session, and one whose names are long."""
    stories.project(served)
    served.call("POST", "/api/projects", {"id": "long", "name": LONG_SENTENCE})
    served.call("POST", "/api/projects/long/sessions", {"id": "s", "title": RTL_TEXT})
    served.put_file("long", f"docs/{LONG_NAME}.md", RTL_TEXT)


def delete_unwanted(served: Served) -> None:
    served.call("DELETE", "/api/runs/wf-unwanted")


def long_names() -> Story:
    """Names, tags and arguments that no column is wide enough for."""
    story = Story("wf-" + LONG_NAME, at=stories.now_ms() - 90_000)
    labels = {"tags": [LONG_NAME[:60], "nightly"], "user": "someone.with.a.long.address@example.org"}
    story.add("workflow_start", {"kind": "workflow", "name": LONG_SENTENCE, **labels})
    graph = {
        "nodes": [{"id": LONG_NAME}, {"id": "b", "name": LONG_SENTENCE}, {"id": "c", "name": RTL_NAME}],
        "edges": [{"source": LONG_NAME, "target": "b"}, {"source": "b", "target": "c"}],
    }
    story.add("graph_structure", graph)
    story.add("agent_start", {"status": "started"}, agent=LONG_NAME, call="a1")
    for number in range(6):
        call: dict[str, object] = {"operation": f"{LONG_NAME}_{number}", "status": "started"}
        story.add(
            "tool_call",
            {**call, "input": {"question": LONG_SENTENCE, "page": number}},
            after=20,
            agent=LONG_NAME,
            call=f"t{number}",
            parent="a1",
        )
        story.add(
            "tool_call",
            {**call, "status": "completed", "output": LONG_SENTENCE},
            after=1_500 * (number + 1),
            agent=LONG_NAME,
            call=f"t{number}",
            parent="a1",
        )
    story.add("waiting_started", {"reason": "approval", "detail": LONG_SENTENCE}, call="w1", parent="a1")
    return story


def failed_at_length() -> Story:
    """An error of 3 KB with a traceback, in a call below an agent."""
    story = Story("wf-error", at=stories.now_ms() - 200_000)
    story.add("workflow_start", {"kind": "workflow", "name": "morning prices", "tags": ["nightly"]})
    story.add("agent_start", {"status": "started"}, after=10, agent="reader", call="a1")
    start: dict[str, object] = {"operation": "fetch_prices", "status": "started", "input": {"day": "monday"}}
    error = {"status": "failed", "error_message": LONG_ERROR, "traceback": TRACEBACK}
    story.add("tool_call", start, after=10, agent="reader", call="t1", parent="a1")
    story.add("tool_call", {**start, **error}, after=30_000, agent="reader", call="t1", parent="a1")
    story.add("agent_end", error, after=5, agent="reader", call="a1")
    story.add("workflow_error", error, after=5)
    return story


def right_to_left() -> Story:
    """Arabic and Hebrew in every place that takes text, mixed with what reads left to right."""
    story = Story("wf-rtl", at=stories.now_ms() - 80_000)
    story.add("workflow_start", {"kind": "workflow", "name": RTL_NAME, "tags": [RTL_NAME], "user": RTL_NAME})
    story.add("agent_start", {"status": "started"}, agent=RTL_NAME, call="a1")
    call: dict[str, object] = {"operation": RTL_NAME, "status": "started", "input": {RTL_NAME: RTL_TEXT}}
    story.add("tool_call", call, after=10, agent=RTL_NAME, call="t1", parent="a1")
    failed = {**call, "status": "failed", "error_message": RTL_TEXT}
    story.add("tool_call", failed, after=900, agent=RTL_NAME, call="t1", parent="a1")
    story.add("note", {"text": RTL_TEXT}, after=10, agent=RTL_NAME)
    story.add("workflow_error", {"status": "failed", "error_message": RTL_TEXT}, after=5)
    return story


def _small(number: int) -> Story:
    """One of many: every sixth failed as others did."""
    tags = ["nightly"] if number % 5 else ["nightly", "backfill"]
    story = Story(f"wf-{number:04}", at=stories.now_ms() - (number + 6) * 600_000)
    story.add("workflow_start", {"kind": "workflow", "name": f"nightly import {number}", "tags": tags})
    call: dict[str, object] = {"operation": "fetch_prices", "status": "started"}
    story.add("tool_call", call, after=100, agent="reader", call="t1")
    if number % (MANY_RUNS // MANY_FAILURES):
        story.add("tool_call", {**call, "status": "completed"}, after=number * 900, agent="reader", call="t1")
        story.add("workflow_complete", {"status": "completed"}, after=20)
    else:
        error = {"status": "failed", "error_message": "FeedTimeout: no response within 30 s"}
        story.add("tool_call", {**call, **error}, after=30_000, agent="reader", call="t1")
        story.add("workflow_error", error, after=5)
    return story


def _append(journal: SqliteJournal, events: list[Event], at_once: int = 5_000) -> None:
    for start in range(0, len(events), at_once):
        journal.append(events[start : start + at_once])
