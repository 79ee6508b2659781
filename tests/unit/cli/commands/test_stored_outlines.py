"""`longwatch show` prints of a large run that has ended the same with and without what is stored of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite import snapshots as module
from longwatch.journal.sqlite.side_files import delete_file, snapshots_path
from longwatch.model.event import Event
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import Story, again, failing, killed, research

OPTIONS = [
    [],
    ["--errors"],
    ["--last", "3"],
    ["--depth", "1"],
    ["--agent", "planner"],
    ["--full", "--log-scale"],
    ["--since", "10m"],
]


def lines_only() -> list[Event]:
    """A run without calls, with a gap in its numbers."""
    story = Story("wf-lines", producer="p-lines")
    story.add("workflow_start", {"name": "noisy"})
    for number in range(30):
        story.add("output", {"line": f"line {number}", "line_number": number + 1}, after=10)
    story.add("workflow_complete", after=10)
    story.close()
    return [event for event in story.events if event.number != 7]


def restarted() -> list[Event]:
    """A run whose third attempt has ended, with calls of models."""
    story = Story("wf-again", producer="p2", at=again()[-1].occurred_at + 10)
    for number in range(6):
        usage = {"model": "m", "provider": "p", "input_tokens": 10 * number, "output_tokens": 2}
        for status in ("started", "completed"):
            facts = {**usage, "status": status, "finish_reasons": ["stop"], "time_to_first_token_ms": 1.5}
            story.add("model_call", facts, agent="three", call=f"m{number}", parent="c3", after=20)
    story.add("workflow_complete", {"attempt": "c" * 8}, after=10)
    return [*again(), *story.events]


RUNS = {
    "wf-1a": research(),
    "wf-lines": lines_only(),
    "wf-d1ed": killed(),
    "wf-again": restarted(),
    failing()[0].run_id: failing(),
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "runs.db"
    monkeypatch.setattr(module, "LARGE_EVENTS", 3)
    with SqliteJournal(path) as journal:
        for events in RUNS.values():
            journal.append(events)
        yield path


def shown(path: Path, run: str, options: list[str]) -> tuple[str, str]:
    result = invoke("show", run, "--journal", f"sqlite:///{path}", *options)
    return result.stdout, result.stderr


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("run", RUNS)
def test_a_stored_outline_is_printed_like_a_new_one(path: Path, run: str, options: list[str]) -> None:
    first = shown(path, run, options)

    assert [shown(path, run, options) for _ in range(2)] == [first, first]
    delete_file(snapshots_path(path))
    assert shown(path, run, options) == first


@pytest.mark.parametrize("run", ["wf-1a", "wf-lines", "wf-again"])
def test_the_events_are_not_read_again(path: Path, run: str) -> None:
    first = shown(path, run, [])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET type = 'note', payload = '{}'")
    connection.close()

    assert shown(path, run, []) == first


def test_other_options_and_other_attempts_are_read(path: Path) -> None:
    last = shown(path, "wf-again", [])

    assert shown(path, "wf-again", ["--depth", "1"]) != last
    assert "1 of 3" in shown(path, "wf-again", ["--attempt", "1"])[0]
    assert shown(path, "wf-again", []) == last


def test_an_open_run_is_not_stored(path: Path) -> None:
    story = Story("wf-open", producer="p-open")
    story.add("workflow_start", {"name": "open"})
    story.tool("dig", agent="a", call="c1", takes=5)
    with SqliteJournal(path) as journal:
        journal.append(story.events)

    assert "running" in shown(path, "wf-open", [])[0]
    assert not snapshots_path(path).exists()
