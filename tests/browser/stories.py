"""What the pages show in these tests: runs of every sort, and a project with turns and files."""

from __future__ import annotations

import json
import time
from typing import Any

from longwatch.model.attempts import lifecycle_of
from longwatch.model.event import Event
from longwatch.model.liveness import death_event
from tests.browser.server_process import Served
from tests.unit.cli.samples import Story

PROJECT, SESSION = "atlas", "draft"

GRAPH = {
    "nodes": [{"id": name, "name": name} for name in ("planner", "writer", "critic")],
    "edges": [
        {"from": "planner", "to": "writer"},
        {"from": "writer", "to": "critic"},
        {"from": "critic", "to": "writer", "condition": "again"},
    ],
    "entry_points": ["planner"],
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def finished(run_id: str = "wf-finished", *, at: int | None = None) -> Story:
    """A run of two agents, with a failed tool, a graph, and a good end."""
    story = Story(run_id, at=at if at is not None else now_ms() - 120_000)
    story.add("workflow_start", {"kind": "workflow", "name": "write the handbook"})
    story.add("graph_structure", GRAPH)
    story.add("agent_start", {"status": "started", "role": "plans"}, agent="planner", call="a1")
    started_call: dict[str, object] = {"operation": "search", "status": "started", "input": {"query": "maps"}}
    lost = {
        "operation": "search",
        "status": "failed",
        "error_message": "Timeout: no answer",
        "duration_ms": 800,
    }
    found = {"operation": "search", "status": "completed", "output": ["one", "two"], "duration_ms": 300}
    for call, ending, takes in (("t1", lost, 800), ("t2", found, 300)):
        story.add("tool_call", started_call, after=10, agent="planner", call=call, parent="a1")
        story.add("tool_call", ending, after=takes, agent="planner", call=call, parent="a1")
    story.add("agent_end", {"status": "completed", "output": "a plan"}, after=5, agent="planner", call="a1")
    story.add("agent_start", {"status": "started"}, agent="writer", call="a2")
    story.add("agent_end", {"status": "completed", "output": "a page"}, after=900, agent="writer", call="a2")
    story.add("workflow_complete", {"status": "completed", "execution_time_ms": 2025})
    return story


def running(run_id: str = "wf-running") -> Story:
    story = Story(run_id, at=now_ms() - 5_000)
    story.add("workflow_start", {"kind": "workflow", "name": "index the archive"})
    story.add("graph_structure", GRAPH)
    story.add("agent_start", {"status": "started"}, after=50, agent="planner", call="a1")
    story.add("tool_call", {"operation": "walk", "status": "started"}, after=50, agent="planner", call="t1")
    return story


QUESTION = [
    {"role": "system", "content": "You write short reports."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is on this map?"},
            {"type": "image", "media_type": "image/png", "size": 34_120},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "tool_call", "id": "k1", "name": "read_map", "arguments": {"sheet": "NO2"}}],
    },
    {"role": "tool", "content": [{"type": "tool_result", "id": "k1", "content": "12 lines, 4 stations"}]},
]
ANSWER = [{"role": "assistant", "content": "A grid with four stations."}]


def modelled(run_id: str = "wf-models") -> Story:
    """A run that has called two models and waited, and waits again."""
    story = Story(run_id, at=now_ms() - 1_200_000)
    chat = {"operation": "chat", "provider": "openai", "recorded_by": "openai"}
    story.add("workflow_start", {"kind": "workflow", "name": "map report"})
    story.add("agent_start", {"status": "started"}, after=100, agent="cartographer", call="a1")
    ask = {**chat, "status": "started", "model": "large-1", "parameters": {"temperature": 0.2}}
    story.add("model_call", {**ask, "input": QUESTION}, after=200, call="m1", parent="a1")
    counts = {"input_tokens": 1_204, "cache_read_tokens": 1_000, "output_tokens": 96, "reasoning_tokens": 40}
    ended = {"duration_ms": 60_000, "time_to_first_token_ms": 15_000, "finish_reasons": ["stop"]}
    large = {**chat, "status": "completed", "model": "large-1", "response_model": "large-1-2026", **counts}
    story.add("model_call", {**large, **ended, "output": ANSWER}, after=60_000, call="m1", parent="a1")
    wait = {"reason": "approval", "detail": "publish the map"}
    story.add("waiting_started", wait, after=1_000, call="w1", parent="a1")
    story.add("waiting_ended", {**wait, "duration_ms": 300_000}, after=300_000, call="w1", parent="a1")
    small = {**chat, "model": "small-1"}
    story.add("model_call", {**small, "status": "started", "input": "Shorten it."}, call="m2", parent="a1")
    failed = {"status": "failed", "error_message": "429 rate limit", "duration_ms": 30_000}
    story.add("model_call", {**small, **failed}, after=30_000, call="m2", parent="a1")
    story.add("model_call", {**small, "status": "started"}, after=1_000, call="m3", parent="a1")
    story.add("waiting_started", {"reason": "answer"}, after=100, call="w2", parent="a1")
    return story


def failed(run_id: str = "wf-failed") -> Story:
    story = Story(run_id, at=now_ms() - 300_000)
    story.add("workflow_start", {"kind": "workflow", "name": "export the bills"})
    story.add(
        "workflow_error", {"status": "failed", "error_message": "ValueError: no such column"}, after=4_000
    )
    return story


def restarted(run_id: str = "wf-again") -> list[Event]:
    """A run that died within 24 s of its last event, and was started again."""
    at = now_ms() - 300_000
    first, second = Story(run_id, at=at, producer="p1"), Story(run_id, at=at + 60_000, producer="p2")
    started = {"kind": "workflow", "name": "nightly report"}
    first.add("workflow_start", {**started, "attempt": "aaaaaaaa", "process": _process("P", 101)})
    first.add("graph_structure", GRAPH)
    first.add("agent_start", {"status": "started"}, after=7, agent="planner", call="a1")
    started_call: dict[str, object] = {"operation": "query", "status": "started"}
    first.add("tool_call", started_call, after=200, agent="planner", call="t1", parent="a1")
    second.add("workflow_start", {**started, "attempt": "bbbbbbbb", "process": _process("Q", 102)})
    second.add("tool_call", {"operation": "query", "status": "completed", "duration_ms": 40}, after=50)
    second.add("workflow_complete", {"status": "completed", "attempt": "bbbbbbbb"}, after=4_000)
    members = lifecycle_of(first.events).members
    interval = (at + 207, at + 24_000)
    death = death_event(run_id, "aaaaaaaa", members, first.events[-1].order, interval)
    return [*first.events, death, *second.events]


def _process(name: str, pid: int) -> dict[str, object]:
    return {"id": name, "host": "vm", "pid": pid, "boot": "another", "namespace": "pid:[1]"}


def assistant_message(*items: dict[str, Any]) -> dict[str, Any]:
    """A line of a coding agent with these items of content."""
    return {"type": "assistant", "message": {"content": list(items)}}


def result(tool_use_id: str, content: str, *, error: bool = False) -> dict[str, Any]:
    """A line that holds what a tool gave back."""
    item = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": error}
    return {"type": "user", "message": {"content": [item]}}


THOUGHT = {"type": "thinking", "thinking": "First look, then write."}
TOOL_USE = {"type": "tool_use", "id": "use-1", "name": "read_file", "input": {"path": "README.md"}}
DONE = {"type": "result", "is_error": False, "result": "done", "duration_ms": 1200}


def new_turn(served: Served, prompt: str, *lines: dict[str, Any]) -> str:
    """A running turn with these lines; returns its address under the API."""
    turns = f"/api/projects/{PROJECT}/sessions/{SESSION}/turns"
    turn = served.call("POST", turns, {"prompt": prompt})
    path = f"{turns}/{turn['id']}"
    served.call("POST", f"{path}/start", {})
    feed(served, path, *lines)
    return path


def feed(served: Served, turn: str, *lines: dict[str, Any]) -> None:
    if lines:
        body = "\n".join(json.dumps(line) for line in lines).encode()
        served.call("POST", f"{turn}/lines", body, kind="application/x-ndjson")


def project(served: Served) -> None:
    """A project with two files, and a session whose first turn is over."""
    served.call("POST", "/api/projects", {"id": PROJECT, "name": "Atlas handbook"})
    served.call("POST", f"/api/projects/{PROJECT}/sessions", {"id": SESSION, "title": "Draft a chapter"})
    served.put_file(PROJECT, "README.md", "# Atlas\n\nKeeps maps.\n")
    served.put_file(PROJECT, "docs/plan.md", "one\ntwo\nthree\n")
    spoken = assistant_message(THOUGHT, {"type": "text", "text": "I look first."}, TOOL_USE)
    new_turn(served, "Write a page.", spoken, result("use-1", "# Atlas"), DONE)
