"""What is recorded of a decorated call, and what happens outside a run."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording import recorder as recorder_module
from longwatch.recording.recorder import Recorder
from tests.unit.recording.recorded import Refusal, events_of


def test_a_wrong_capture_policy_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="capture must be off, summary or full, not 'some'"):
        longwatch.tool(capture="some")(print)


@pytest.mark.parametrize(
    ("capture", "beginning"), [("off", None), ("summary", "x" * 1000), ("full", "x" * 3000)]
)
def test_a_policy_decides_how_much_of_arguments_and_results_is_recorded(
    journal: MemoryJournal, configured: Recorder, capture: str, beginning: str | None
) -> None:
    @longwatch.tool(capture=capture)
    def repeat(text: str) -> str:
        return text

    with longwatch.run() as run:
        repeat("x" * 3000)
    configured.flush()

    _, started, ended, *_ = events_of(journal, run.run_id)
    if beginning is None:
        assert "input" not in started.payload
        assert "output" not in ended.payload
    else:
        (text,) = started.payload["input"].values()  # type: ignore[attr-defined]
        assert text.startswith(beginning)
        assert (len(text) > len(beginning)) == (capture == "summary")
        assert ended.payload["output"] == text


def test_a_failure_is_recorded_although_capture_is_off(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool(capture="off")
    def refuse() -> None:
        raise Refusal("no")

    with longwatch.run() as run, pytest.raises(Refusal):
        refuse()
    configured.flush()

    assert events_of(journal, run.run_id)[2].payload["error_message"] == "Refusal: no"


def test_later_changes_do_not_reach_what_was_recorded(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def keep(basket: list[str], notes: dict[str, Any]) -> dict[str, Any]:
        basket.append("apple")
        notes["inner"]["n"] = 2
        return notes

    basket, notes = ["pear"], {"inner": {"n": 1}}
    with longwatch.run() as run:
        result = keep(basket, notes)
        result["inner"]["n"] = 3
        basket.clear()
    configured.flush()

    _, started, ended, *_ = events_of(journal, run.run_id)
    assert started.payload["input"] == {"basket": ["pear"], "notes": {"inner": {"n": 1}}}
    assert ended.payload["output"] == {"inner": {"n": 2}}


def test_an_argument_that_cannot_be_shown_does_not_break_the_call(
    journal: MemoryJournal, configured: Recorder
) -> None:
    class Sullen:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__

    @longwatch.tool
    def use(thing: Sullen) -> Sullen:
        return thing

    sullen = Sullen()
    with longwatch.run() as run:
        assert use(sullen) is sullen
    configured.flush()

    shown = "<Sullen that cannot be shown: RuntimeError>"
    assert events_of(journal, run.run_id)[1].payload["input"] == {"thing": shown}


def test_a_wrong_call_fails_as_it_would_undecorated(configured: Recorder) -> None:
    @longwatch.tool
    def one(a: int) -> int:
        return a

    with longwatch.run(), pytest.raises(TypeError, match="missing 1 required positional argument"):
        one()  # type: ignore[call-arg]


def test_a_parameter_called_cls_is_recorded_where_it_is_not_a_class(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.tool
    def filter_by(kind: str, cls: str) -> None: ...

    with longwatch.run() as run:
        filter_by("a", cls="b")
    configured.flush()

    assert events_of(journal, run.run_id)[1].payload["input"] == {"kind": "a", "cls": "b"}


OUTSIDE = """
import sys, threading
import longwatch

@longwatch.tool
def tool(x): return x

@longwatch.agent
async def agent(): ...

before, modules = threading.active_count(), set(sys.modules)
assert tool(1) == 1
import asyncio; asyncio.run(agent())
from longwatch.recording import recorder
assert recorder._process_recorder is None
assert threading.active_count() == before
assert not {"sqlite3", "boto3"} & set(sys.modules), "a database was loaded"
"""


def test_outside_a_run_nothing_is_loaded_created_or_written(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", OUTSIDE], check=True, cwd=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_record_outside_a_run_warns_and_returns_false(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "longwatch"):
        is_recorded = longwatch.record("lost", n=1)

    assert is_recorded is False
    assert "record('lost') was called outside a run" in caplog.text
    assert recorder_module._process_recorder is None


def test_record_inside_a_run_belongs_to_the_call_around_it(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.agent
    def planner() -> bool:
        return longwatch.record("decision", type="go", self="me")

    with longwatch.run() as run:
        assert planner()
    configured.flush()

    start, decision = events_of(journal, run.run_id)[1:3]
    assert decision.agent_name == "planner"
    assert decision.parent_call_id == start.call_id
    assert decision.payload == {"type": "go", "self": "me"}
