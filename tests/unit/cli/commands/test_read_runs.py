"""`longwatch show`, `tail` and `watch` read one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS


def test_a_shown_run_is_one_json_object(file: str) -> None:
    shown = json.loads(invoke("show", "wf-1a", "--journal", file, "-o", "json").stdout)

    assert (shown["status"], shown["duration_ms"], len(shown["calls"])) == ("succeeded", 10240, 6)
    assert shown["producers"] == {"p-3c4d": {"events": 16, "stated": 16, "missing": []}}


def test_a_tail_can_be_narrowed(file: str) -> None:
    def types(*arguments: str) -> list[str]:
        shown = invoke("tail", "wf-1a", "--journal", file, "-o", "jsonl", *arguments)
        return [json.loads(line)["type"] for line in shown.stdout.splitlines()]

    assert len(types()) == 16
    assert types("-n", "2") == ["workflow_complete", "producer_closed"]
    assert types("--agent", "planner", "--type", "agent_start", "--type", "agent_end") == [
        "agent_start",
        "agent_end",
    ]
    assert types("--errors") == ["tool_call"]
    assert types("--since", str(START_MS + 10_240)) == ["workflow_complete", "producer_closed"]
    assert types("-n", "0") == []


def test_the_last_matching_events_are_found_far_from_the_end(tmp_path: Path) -> None:
    events = [
        Event(
            run_id="wf-1",
            event_id=f"e{index:05}",
            type="rare" if index in (3, 700) else "usual",
            occurred_at=START_MS + index,
        )
        for index in range(1_200)
    ]
    path = tmp_path / "long.db"
    with SqliteJournal(path) as journal:
        journal.append(events)

    def ids(*arguments: str) -> list[str]:
        shown = invoke("tail", "wf-1", "--journal", f"sqlite:///{path}", "-o", "jsonl", *arguments)
        return [json.loads(line)["event_id"] for line in shown.stdout.splitlines()]

    assert ids("-n", "2") == ["e01198", "e01199"]
    assert ids("-n", "2", "--type", "rare") == ["e00003", "e00700"]
    assert ids("-n", "1", "--type", "rare") == ["e00700"]
    assert len(ids("-n", "900")) == 900


def test_an_interrupted_watch_reports_that_the_run_continues(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longwatch.cli.commands.watch.follow_run", interrupted)

    done = invoke("watch", "wf-1a", "--journal", file)

    assert done.return_value == 130
    assert "watching stopped, run wf-1a" in done.stderr
