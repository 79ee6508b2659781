"""The line that distinguishes an event from its siblings. `tests/web/test_preview.py` compares the page's."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import from_wire
from longwatch.model.event import Event
from longwatch.model.preview import PREVIEW_CHARACTERS, event_preview, one_line
from tests.strategies import events

CASES = json.loads((Path(__file__).parents[2] / "web" / "previews.json").read_text())


@pytest.mark.parametrize(
    ("type", "payload", "shown"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_preview_shows_what_distinguishes_the_event(
    type: str, payload: dict[str, object], shown: str
) -> None:
    event = from_wire({"run_id": "r", "event_id": "e", "type": type, "occurred_at": 0, "payload": payload})

    assert event_preview(event) == shown


@given(events(), st.integers(10, 300))
def test_any_event_has_a_preview_of_one_line_within_its_limit(event: Event, limit: int) -> None:
    shown = event_preview(event, limit)

    assert len(shown) <= limit
    assert shown.isprintable() or not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in shown)


def test_long_prompts_that_begin_alike_have_different_previews() -> None:
    prompts = [f"{'You are an analyst. ' * 30}Summarise article {number}." for number in range(200)]

    shown = {
        event_preview(
            Event(
                run_id="r",
                event_id="e",
                type="tool_call",
                occurred_at=0,
                payload={
                    "status": "started",
                    "operation": "call_llm",
                    "input": {"prompt": prompt, "model": "m"},
                },
            )
        )
        for prompt in prompts
    }

    assert len(shown) == len(prompts)


def test_of_a_huge_value_only_the_beginning_is_copied() -> None:
    huge = {
        "text": "x " * 5_000_000,
        "rows": [{"a": 1}] * 1_000_000,
        "map": dict.fromkeys(map(str, range(100_000)), 1),
    }
    event = Event(run_id="r", event_id="e", type="note", occurred_at=0, payload=huge)

    tracemalloc.start()
    try:
        event_preview(event)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 50_000


def test_one_line_ends_with_an_ellipsis_where_the_text_continues() -> None:
    assert one_line("a\n b", 3) == "a b"
    assert one_line("word and more", 6) == "word…"
    assert one_line("x" * 5 * PREVIEW_CHARACTERS) == "x" * (PREVIEW_CHARACTERS - 1) + "…"
