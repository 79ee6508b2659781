"""`longwatch diff` shows two runs side by side; its exit code is that of diff(1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longwatch.errors import RunNotFound
from longwatch.journal.comparison import MAX_ROWS
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.unit.cli.invocation import invoke

AT = 1_794_736_931_000


def run(run_id: str, *tools: tuple[str, str, object], end: str = "workflow_complete") -> list[Event]:
    """A run that calls tools: name, status and output."""

    def event(number: int, type: str, call_id: str | None = None, **payload: object) -> Event:
        return Event(
            run_id=run_id,
            event_id=f"{run_id}-{number}",
            type=type,
            occurred_at=AT + number * 100,
            call_id=call_id,
            payload=payload,
        )

    events = [event(0, "workflow_start", name="nightly")]
    for at, (name, status, output) in enumerate(tools, 1):
        called = {"operation": name}
        events.append(
            event(2 * at, "tool_call", f"{run_id}-c{at}", **called, status="started", input={"n": 1})
        )
        result = {"output": output} if status == "completed" else {"error_message": output}
        events.append(event(2 * at + 1, "tool_call", f"{run_id}-c{at}", **called, status=status, **result))
    return [*events, event(2 * len(tools) + 2, end)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "j.db") as journal:
        journal.append(run("wf-1", ("fetch", "completed", 1), ("rank", "completed", 2)))
        journal.append(run("wf-2", ("fetch", "completed", 7), ("rank", "completed", 2)))
        journal.append(
            run("wf-3", ("fetch", "failed", "Timed out"), ("store", "completed", 2), end="workflow_error")
        )
    return f"sqlite:///{tmp_path / 'j.db'}"


def test_runs_with_the_same_structure_exit_with_0(url: str) -> None:
    found = invoke("diff", "--journal", url, "wf-1", "wf-2")

    assert found.return_value == 0
    assert "~  fetch" in found.stdout
    assert "result: 1 → 7" in found.stdout
    assert "1 of 2 calls differ." in found.stdout
    assert "all alike" in invoke("diff", "--journal", url, "wf-1", "wf-1").stdout


def test_runs_with_another_structure_exit_with_1_and_the_first_difference_is_marked(url: str) -> None:
    found = invoke("diff", "--journal", url, "wf-1", "wf-3")

    lines = found.stdout.splitlines()
    assert found.return_value == 1
    assert [line[:4] for line in lines if "fetch" in line] == ["▸  ~"]
    assert any("completed → failed, error: – → Timed out" in line for line in lines)
    assert any(line.startswith("   -  rank") and "only in A" in line for line in lines)
    assert any(line.startswith("   +  store") and "only in B" in line for line in lines)


def test_json_has_both_runs_and_all_rows(url: str) -> None:
    body = json.loads(invoke("diff", "--journal", url, "wf-1", "wf-3", "-o", "json").stdout)
    rows = invoke("diff", "--journal", url, "wf-1", "wf-3", "-o", "jsonl").stdout.splitlines()

    assert (body["a"]["status"], body["b"]["status"]) == ("succeeded", "failed")
    assert (body["first_difference"], body["differing"], body["differs_in_structure"]) == (0, 3, True)
    assert [json.loads(row) for row in rows] == body["rows"]
    assert [row["differences"] for row in body["rows"]] == [
        ["status", "error", "result"],
        ["missing"],
        ["added"],
    ]


def test_an_unknown_run_is_an_error(url: str) -> None:
    with pytest.raises(RunNotFound, match="No run 'wf-9'"):
        invoke("diff", "--journal", url, "wf-1", "wf-9")


def test_large_runs_that_are_alike_say_so(tmp_path: Path) -> None:
    tools = [("fetch", "completed", number) for number in range(MAX_ROWS + 1)]
    with SqliteJournal(tmp_path / "large.db") as journal:
        journal.append([*run("wf-1", *tools), *run("wf-2", *tools)])

    found = invoke("diff", "--journal", f"sqlite:///{tmp_path / 'large.db'}", "wf-1", "wf-2")

    assert f"{MAX_ROWS + 1:,} calls, all alike except for their times." in found.stdout
