"""Runs to render: numbered, chained and timed as a recorder would, but at times that never change."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.journal.codec import digest
from longwatch.model.event import Event

START_MS = 1_794_736_931_000  # 2026-11-15T10:02:11Z


class Story:
    """One producer's events, recorded one after the other."""

    def __init__(self, run_id: str = "wf-1a2b3c4d", *, at: int = START_MS, producer: str = "p1") -> None:
        self.run_id = run_id
        self.events: list[Event] = []
        self._at = at
        self._producer = producer

    def add(
        self,
        type: str,
        payload: Mapping[str, object] | None = None,
        *,
        after: int = 0,
        agent: str | None = None,
        call: str | None = None,
        parent: str | None = None,
        ttl: int | None = None,
    ) -> Event:
        """What happened `after` so many milliseconds."""
        self._at += after
        number = len(self.events) + 1
        event = Event(
            run_id=self.run_id,
            event_id=f"{self._at:012x}{self._producer}{number:08x}{self.run_id}",
            type=type,
            occurred_at=self._at,
            agent_name=agent,
            payload=dict(payload or {}),
            call_id=call,
            parent_call_id=parent,
            producer=self._producer,
            number=number,
            previous_digest=digest(self.events[-1]) if self.events else None,
            ttl=ttl,
        )
        self.events.append(event)
        return event

    def tool(
        self,
        name: str,
        *,
        agent: str,
        call: str,
        parent: str | None = None,
        takes: int,
        error: str | None = None,
        after: int = 0,
    ) -> None:
        """A tool call from its start to its end."""
        self.add(
            "tool_call",
            {"operation": name, "status": "started"},
            after=after,
            agent=agent,
            call=call,
            parent=parent,
        )
        ending: dict[str, object] = {
            "operation": name,
            "status": "failed" if error else "completed",
            "duration_ms": takes,
        }
        if error:
            ending["error_message"] = error
        self.add("tool_call", ending, after=takes, agent=agent, call=call, parent=parent)

    def close(self) -> None:
        self.add("producer_closed", {"count": len(self.events) + 1})


def killed(*, at: int = START_MS) -> list[Event]:
    """A run whose process was killed 207 ms after its start, which was noticed after 24 s."""
    story = Story("wf-d1ed", at=at)
    story.add("workflow_start", {"name": "nightly", "process": {"host": "vm", "pid": 7, "id": "7" * 16}})
    story.add("agent_start", agent="planner", call="c1", after=7)
    story.add("tool_call", {"operation": "dig", "status": "started"}, call="c2", parent="c1", after=200)
    death = {
        "status": "died",
        "written_for": True,
        "error_code": "process_died",
        "error_message": "Process 7 on vm exited without reporting an outcome.",
        "processes": ["7" * 16],
        "not_before": at + 207,
        "not_after": at + 24_000,
        "exit_observed": False,
    }
    end = Event(
        run_id="wf-d1ed", event_id="died-1", type="workflow_error", occurred_at=at + 208, payload=death
    )
    return [*story.events, end]


def again(*, at: int = START_MS) -> list[Event]:
    """A run id that was started three times: the first attempt failed, the second reported nothing."""
    story = Story("wf-again", at=at)
    story.add("workflow_start", {"name": "nightly", "attempt": "a" * 8})
    story.add("agent_start", agent="one", call="c1", after=100)
    story.add("agent_end", {"status": "failed"}, agent="one", call="c1", after=900)
    story.add("workflow_error", {"error_message": "no rows", "attempt": "a" * 8}, after=10)
    story.add("workflow_start", {"name": "nightly", "attempt": "b" * 8}, after=60_000)
    story.add("agent_start", agent="two", call="c2", after=100)
    story.add("workflow_start", {"name": "nightly", "attempt": "c" * 8}, after=60_000)
    story.add("agent_start", agent="three", call="c3", after=100)
    return story.events


def research(run_id: str = "wf-1a2b3c4d", *, at: int = START_MS) -> list[Event]:
    """A workflow of two agents; one tool fails and is tried again."""
    story = Story(run_id, at=at, producer=f"p-{run_id[-4:]}")
    story.add("workflow_start", {"name": "research report"})
    story.add("agent_start", after=20, agent="planner", call="a1")
    story.tool("outline", agent="planner", call="t1", parent="a1", takes=850, after=100)
    story.add(
        "agent_end", {"status": "completed", "duration_ms": 1200}, after=250, agent="planner", call="a1"
    )
    story.add("agent_start", after=5, agent="researcher", call="a2")
    story.tool(
        "web.search",
        agent="researcher",
        call="t2",
        parent="a2",
        takes=3000,
        error="TimeoutError: no answer in 3 s",
    )
    story.tool("web.search", agent="researcher", call="t3", parent="a2", takes=1250, after=500)
    story.tool("資料を読む", agent="researcher", call="t4", parent="a2", takes=4200, after=10)
    story.add("note", {"message": "three sources \x1b[31magree\x1b[0m"}, after=40, agent="researcher")
    story.add("agent_end", {"status": "completed", "duration_ms": 9000}, agent="researcher", call="a2")
    story.add("workflow_complete", {"status": "completed", "execution_time_ms": 10225}, after=15)
    story.close()
    return story.events


def failing(run_id: str = "wf-1b00ffee", *, at: int = START_MS + 60_000) -> list[Event]:
    """A workflow that ended with an error."""
    story = Story(run_id, at=at, producer=f"p-{run_id[-4:]}")
    story.add("workflow_start", {"name": "nightly import"})
    story.tool("load", agent="loader", call="t1", takes=90, error="ValueError: no rows")
    story.add("workflow_error", {"error_message": "ValueError: no rows", "status": "failed"}, after=5)
    story.close()
    return story.events


def session(
    run_id: str = "session-0123456789abcdef0123456789abcdef", *, at: int = START_MS + 120_000
) -> list[Event]:
    """A session that is still running, by a producer that numbers nothing."""
    kinds = ("SESSION_INITIATED", "AGENT_INVOCATION_STARTED", "AGENT_ENTRYPOINT_STARTED")
    return [
        Event(run_id=run_id, event_id=f"{run_id}-{number}", type=kind, occurred_at=at + number * 1000)
        for number, kind in enumerate(kinds)
    ]
