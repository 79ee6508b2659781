from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.event_line import event_line, event_text, need_dates, reports_failure
from longwatch.cli.render.styles import line_columns, paint
from longwatch.model.event import Event
from tests.strategies import events
from tests.unit.cli.samples import START_MS, Story, failing, killed, research


def shown(event: Event, width: int | None = None) -> str:
    return paint(event_line(event, width=width, zone=UTC), colour=False)


def test_a_line_shows_time_agent_event_and_outcome() -> None:
    lines = [shown(event) for event in research()]

    assert lines[3] == "10:02:11.970  planner         tool_call           outline ✓ 850 ms"
    assert lines[7].endswith("web.search ✗ 3.0 s TimeoutError: no answer in 3 s")


def test_the_line_of_a_death_has_an_interval_and_no_time() -> None:
    assert shown(killed()[-1]) == (
        "–                             workflow_error      died between 10:02:11.207 and 10:02:35.000: "
        "Process 7 on vm exited without reporting an outcome."
    )
    assert reports_failure(killed()[-1])


def test_a_process_is_shown_by_its_id_and_host() -> None:
    assert shown(killed()[0]).endswith("nightly process=7@vm")


def test_a_colour_in_a_payload_is_left_out() -> None:
    note = next(event for event in research() if event.type == "note")

    assert shown(note).endswith("three sources agree")


def test_a_narrow_line_leaves_out_the_agent() -> None:
    assert shown(research()[3], 40) == "10:02:11.970 tool_call outline ✓ 850 ms"


@given(events(), st.integers(30, 120))
def test_any_event_fits_any_width_and_steers_no_terminal(event: Event, width: int) -> None:
    line = event_line(event, width=width, dated=True, zone=UTC)

    text = paint(line, colour=False)

    assert line_columns(line) <= width
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


@pytest.mark.parametrize(
    ("type", "payload", "words"),
    [
        ("workflow_complete", {"status": "completed", "execution_time_ms": 10225}, "completed 10.2 s"),
        ("workflow_error", {"error_message": "ValueError: no rows"}, "ValueError: no rows"),
        ("note", {"message": "hello"}, "hello"),
        ("metric", {"count": 3, "unit": "rows", "why": "two words"}, 'count=3 unit=rows why="two words"'),
        ("node_stop", {"node_id": "n1", "status": "skipped"}, "n1 –"),
        ("empty", {}, ""),
    ],
)
def test_an_event_is_described_in_a_few_words(type: str, payload: dict[str, object], words: str) -> None:
    event = Event(run_id="r", event_id="e", type=type, occurred_at=1, payload=payload)

    assert event_text(event) == words


def test_failures_are_distinguished_from_the_rest() -> None:
    failed = [event.type for event in failing() if reports_failure(event)]

    assert failed == ["tool_call", "workflow_error"]
    assert not any(reports_failure(event) for event in research() if event.call_id != "t2")


def test_dates_are_shown_when_an_event_is_not_of_today() -> None:
    story = Story()
    story.add("note")

    assert not need_dates(story.events, now_ms=START_MS + 1000, zone=UTC)
    assert need_dates(story.events, now_ms=START_MS + 86_400_000, zone=UTC)
    assert not need_dates([], now_ms=START_MS)


@pytest.mark.parametrize(
    ("type", "payload", "words"),
    [
        ("block", {"kind": "content", "text": "All is well."}, "content: All is well."),
        ("block", {"kind": "thinking", "text": "hm\n"}, "thinking: hm"),
        ("block", {"kind": "tool_use", "tool_name": "Bash", "parameters": {"a": 1}}, "Bash … a=1"),
        ("block", {"kind": "tool_result", "result": "two files", "error": None}, "✓ two files"),
        ("block", {"kind": "tool_result", "result": [1], "error": None}, "✓ 1"),
        ("block", {"kind": "tool_result", "result": "x", "error": "no such file"}, "✗ no such file"),
        ("turn_line", {"line": {"type": "system"}, "line_number": 1}, "system"),
    ],
)
def test_a_block_of_a_turn_is_described_by_its_content(
    type: str, payload: dict[str, object], words: str
) -> None:
    event = Event(run_id="turn-1", event_id="e", type=type, occurred_at=0, payload=payload)

    assert event_text(event) == words


@pytest.mark.parametrize(
    ("payload", "text", "is_failure"),
    [
        ({}, "failed · sent by failures through web_push: 2 of 2 browsers", False),
        (
            {"count": 2},
            "failed with 1 other notice · sent by failures through web_push: 2 of 2 browsers",
            False,
        ),
        (
            {"trigger": "silent", "is_resolved": True, "response": None},
            "silent resolved · sent by failures through web_push",
            False,
        ),
        (
            {"delivered": False, "attempts": 12, "response": "HTTP 500"},
            "failed · given up after 12 attempts by failures through web_push: HTTP 500",
            True,
        ),
        (
            {"attempts": "x", "count": None, "rule": 5, "channel": None, "response": ""},
            "failed · sent by",
            False,
        ),
    ],
)
def test_a_notification_is_one_line(payload: dict[str, object], text: str, is_failure: bool) -> None:
    given = {
        "rule": "failures",
        "channel": "web_push",
        "trigger": "failed",
        "delivered": True,
        "response": "2 of 2 browsers",
        "attempts": 1,
    }
    event = Event(run_id="wf-1", event_id="n", type="notified", occurred_at=START_MS, payload=given | payload)

    assert event_text(event).startswith(text)
    assert reports_failure(event) is is_failure
