"""Blocks of code that an adapter records as one call, and layers of model calls that expire."""

from __future__ import annotations

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.model_calls import MODEL_CALL_LAYER, begin_model_call
from longwatch.recording.open_call import CallBlock, is_recorded_as_tool
from longwatch.recording.recorder import Recorder
from tests.unit.recording.recorded import events_of


def test_a_block_is_a_call_and_the_scope_of_what_is_inside(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run() as run, CallBlock("tool", "search", input={"query": "x"}) as block:
        assert is_recorded_as_tool("search")
        assert not is_recorded_as_tool("fetch")
        longwatch.record("note")
        block.output = ["y"]
    configured.flush()

    start, note, end = [
        event for event in events_of(journal, run.run_id) if event.type in ("tool_call", "note")
    ]
    assert (start.payload["input"], end.payload["output"]) == ({"query": "x"}, ["y"])
    assert note.parent_call_id == start.call_id == end.call_id
    assert not is_recorded_as_tool("search")


def test_an_exception_or_a_stated_error_fails_the_call(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run() as run:
        with pytest.raises(ValueError, match="bad"), CallBlock("tool", "raising"):
            raise ValueError("bad")
        with CallBlock("tool", "reporting") as block:
            block.error = "not found"
    configured.flush()

    ends = [event.payload for event in events_of(journal, run.run_id) if "duration_ms" in event.payload]
    assert [(end["status"], end["error_message"]) for end in ends] == [
        ("failed", "ValueError: bad"),
        ("failed", "not found"),
    ]


def test_a_model_call_that_has_ended_is_no_layer(configured: Recorder) -> None:
    with longwatch.run():
        outer = begin_model_call("large", recorded_by="sdk")
        token = MODEL_CALL_LAYER.set(outer)
        try:
            inside = begin_model_call("large", recorded_by="client")
            assert outer is not None
            outer.succeed()
            later = begin_model_call("large", recorded_by="client")
        finally:
            MODEL_CALL_LAYER.reset(token)

    assert inside is None
    assert later is not None
