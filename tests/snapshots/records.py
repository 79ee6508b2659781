"""What longwatch stores, shown by samples: events with their payload fields, items of tables, records.

Every field of a sample has a value, so that every attribute is in the snapshot. Runs and turns are recorded
as a program would; of their events only the names of the fields are shown, since ids and times differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from longwatch.documents.files import FileEntry, FileKind, ProjectFiles
from longwatch.documents.stores.base import Head
from longwatch.documents.stores.dynamodb import head_item, log_item, log_of, part_items, project_item
from longwatch.executions import transitions
from longwatch.executions.model import (
    OPERATOR_CLOSED,
    OPERATOR_STOPPED,
    Evidence,
    Execution,
    ItemState,
    Job,
    JobState,
    Stage,
    Step,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.executions.stores.records import to_record
from longwatch.journal.codec import to_line
from longwatch.journal.dynamodb.session_layout import SessionLayout
from longwatch.journal.dynamodb.workflow_layout import WorkflowLayout
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.model.summary import Status
from longwatch.testing import FakeClock
from longwatch.turns import Conversations

AT = 1_700_000_000_000
PROJECT, SESSION = "project-1", "session-1"

EVENT = Event(
    run_id="run-1",
    event_id="018bcfe5680000000000000100000001",
    type="tool_call",
    occurred_at=AT,
    agent_name="writer",
    payload={"operation": "search", "status": "started"},
    call_id="call-2",
    parent_call_id="call-1",
    producer="000000000001",
    number=2,
    previous_digest="0" * 32,
    trace_id="1" * 32,
    ttl=1_700_086_400,
)
SERVER = WorkItem(
    "s-1",
    ItemState.FAILED,
    "i-1",
    (Step("action-1", "action-run-1", StepState.FAILED, "a reason", AT, "a word"),),
    "LAUNCH_FAILED",
    "a reason",
    AT,
)
JOB = Job(
    "job-1",
    JobState.FINISHED,
    (SERVER,),
    "eu-west-1",
    "123456789012",
    AT,
    finished_polls=1,
    finished_for_ms=1000,
    created_at=AT,
    cancelled=True,
    source_status="COMPLETED",
    since=AT,
)
EVIDENCE = Evidence("drs:DescribeJobs", AT, {"status": "COMPLETED"})
VERDICT = Verdict(
    Status.FAILED, AT, (EVIDENCE,), "a message", True, ("a warning",), Status.SUCCEEDED, ("a fact",)
)
EXECUTION = Execution(
    execution_id="execution-1",
    plan_id="plan-1",
    started_at=AT,
    stages=(Stage("wave 1", (JOB,), ("s-1", "s-2")),),
    total_stages=1,
    verdict=VERDICT,
    closed=True,
    last_polled_at=AT,
    last_answer_at=AT,
    last_change_at=AT,
    failures=1,
    last_error="an error",
    next_poll_at=AT,
    recheck_at=AT,
    lease_holder="poller-1",
    lease_until=AT,
    version=2,
    name="a name",
)
FILE = FileEntry(
    path="docs/a.md",
    version=2,
    project_version=3,
    created_version=1,
    last_modified=AT,
    created_at=AT,
    size=4,
    sha256="0" * 64,
    kind=FileKind.TEXT,
)
HEAD = Head(entry=FILE, base=1, base_bytes=2, log_bytes=3, waits=False)
STORED_PROJECT = ProjectFiles(project=PROJECT, name="a name", created_at=AT, version=3)

LINES: tuple[dict[str, object], ...] = (
    {"type": "system", "subtype": "init"},
    {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "thinking", "thinking": "well"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "tool-1", "name": "Bash", "input": {"command": "ls"}},
            ]
        },
    },
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "tool-1", "content": "a.md"}]},
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "duration_ms": 5,
        "usage": {"input_tokens": 1},
        "total_cost_usd": 0.1,
    },
)

RUN = """
import json, longwatch
from longwatch.testing import MemoryJournal

@longwatch.tool(system="shop", capture="full")
def search(fail):
    if fail:
        raise ValueError("no luck")
    return "found"

@longwatch.agent(role="finds", capture="full")
def finder(fail):
    return search(fail)

@longwatch.workflow(name="hunt", capture="full")
def hunt(fail):
    return finder(fail)

journal = MemoryJournal()
longwatch.configure(journal)
hunt(False)
try:
    hunt(True)
except ValueError:
    pass
assert longwatch.flush()
events = (event for run in journal.find_runs().runs for event in journal.read(run.run_id).events)
print(json.dumps([[event.type, sorted(event.payload)] for event in events]))
"""


def records() -> str:
    """All samples, one after the other."""
    return "\n\n".join(f"[{title}]\n{text}" for title, text in samples())


def samples() -> Iterator[tuple[str, str]]:
    """The title of each sample, and the sample as text."""
    yield "event as a line of JSON", to_line(EVENT)
    for layout in (WorkflowLayout(), SessionLayout()):
        item = layout.with_key(layout.encode_event(EVENT), EVENT, EVENT.occurred_at + 1)
        yield f"event as an item, layout {layout.name}", _lines(item)
    yield "execution", _lines(to_record(EXECUTION))
    yield "documents: project", _lines(project_item(STORED_PROJECT))
    yield "documents: file", _lines(head_item(PROJECT, HEAD))
    log = log_of(PROJECT, FILE.path)
    yield "documents: update", _lines(log_item(log, 2, b"update", "token", 0))
    yield "documents: update in parts", _lines(log_item(log, 2, b"", "token", 1))
    yield "documents: part", _lines(part_items(log, 2, "token", [b"part"])[0])
    yield "payload fields of runs", _fields(_recorded())
    yield "payload fields of turns", _fields((event.type, event.payload) for event in _turns())
    for event in _execution_events():
        yield f"{event.type} of an execution", _lines(event.payload)


def _lines(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {_text(value)}" for name, value in sorted(values.items()))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _fields(events: Iterable[tuple[str, Iterable[str]]]) -> str:
    found: dict[str, set[str]] = {}
    for kind, names in events:
        found.setdefault(kind, set()).update(names)
    return "\n".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in sorted(found.items()))


def _recorded() -> list[tuple[str, list[str]]]:
    """The events of a run that succeeds and one that fails, recorded by a process of their own."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("LONGWATCH_")}
    with tempfile.TemporaryDirectory() as folder:  # without the settings of this machine
        done = subprocess.run(
            [sys.executable, "-c", RUN], cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
        )
    events: list[tuple[str, list[str]]] = json.loads(done.stdout)
    return events


def _turns() -> Iterator[Event]:
    """The events of a turn that succeeds and one that is interrupted."""
    journal, clock = MemoryJournal(), FakeClock(AT)
    conversations = Conversations(journal, clock)
    conversations.create_project(PROJECT, "a name")
    conversations.create_conversation(PROJECT, SESSION, "a title")
    for number, lines in enumerate((LINES, ()), 1):
        turn_id = f"turn-{number}"
        conversations.create_turn(PROJECT, SESSION, "do it", turn_id)
        clock.advance(1)
        conversations.start(PROJECT, SESSION, turn_id, executor="executor-1", process={"pid": 1})
        conversations.feed(PROJECT, SESSION, turn_id, [json.dumps(line) for line in lines], 1)
    conversations.interrupt(PROJECT, SESSION, "turn-2", "enough")
    for run in journal.find_runs().runs:
        yield from journal.read(run.run_id).events


def _execution_events() -> Iterator[Event]:
    before = replace(EXECUTION, stages=(Stage("wave 1", (Job("job-1", since=AT),)),))
    by = {"operator": "a person", "reason": "a reason"}
    yield transitions.start_event(EXECUTION)
    yield from transitions.transition_events(before, EXECUTION, AT)
    yield transitions.deadline_event(EXECUTION, EVIDENCE, AT)
    yield transitions.end_event(EXECUTION, replace(VERDICT, corrects=None))
    yield transitions.end_event(EXECUTION, VERDICT)
    for call in (OPERATOR_CLOSED, OPERATOR_STOPPED):
        yield transitions.end_event(EXECUTION, replace(VERDICT, evidence=(Evidence(call, AT, by),)))
    yield transitions.stage_added_event(EXECUTION, EXECUTION.stages[0], by, AT)
    yield transitions.stage_count_event(EXECUTION, 2, by, AT)
