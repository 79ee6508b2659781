"""`longwatch show`, `tail` and `watch` read one run."""

from __future__ import annotations

import json

import pytest

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


def test_an_interrupted_watch_reports_that_the_run_continues(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longwatch.cli.commands.watch.follow_run", interrupted)

    done = invoke("watch", "wf-1a", "--journal", file)

    assert done.return_value == 130
    assert "watching stopped, run wf-1a" in done.stderr
