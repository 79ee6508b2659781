from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.commands.show import run_lines
from longwatch.cli.render.header import header, wrap_text
from longwatch.cli.render.styles import line_columns, paint
from longwatch.cli.render.text import columns_of
from longwatch.errors import InvalidInput
from longwatch.model.event import Event
from longwatch.model.run import Condition, Run, fold
from tests.unit.cli.samples import START_MS, Story, again, failing, killed, research, session


def run_of(events: list[Event]) -> Run:
    run = fold(events)
    assert run is not None
    return run


def shown(events: list[Event], *, now_ms: int, width: int | None = None) -> list[str]:
    return [
        paint(line, colour=False).replace("\u00a0", " ")
        for line in header(run_of(events), now_ms=now_ms, width=width, zone=UTC)
    ]


def test_the_header_shows_the_status_of_the_run() -> None:
    assert shown(research(), now_ms=START_MS + 200_000) == [
        "✓ succeeded  wf-1a2b3c4d  research report",
        "kind      workflow",
        "started   today 10:02:11 (3 min ago)",
        "ended     today 10:02:21",
        "duration  10.2 s",
        "events    16: tool_call 8, agent_end 2, agent_start 2, note 1, producer_closed 1, "
        "workflow_complete 1, workflow_start 1",
        "producers 1 (1 closed)",
    ]


def test_success_with_warnings_is_counted_in_the_header() -> None:
    events = [
        Event(run_id="p-1/x-1", event_id="a", type="execution_started", occurred_at=START_MS),
        Event(
            run_id="p-1/x-1",
            event_id="b",
            type="execution_ended",
            occurred_at=START_MS + 1,
            payload={"status": "succeeded", "warnings": ["s-1: install failed", "s-2: install failed"]},
        ),
    ]

    assert shown(events, now_ms=START_MS)[0] == "✓ succeeded with 2 warnings  p-1/x-1"


def test_an_error_is_shown_in_the_header() -> None:
    assert shown(failing(), now_ms=START_MS + 200_000)[-1] == "error     ValueError: no rows"


def test_each_line_of_an_error_is_a_line_of_the_header() -> None:
    story = Story()
    story.add("workflow_error", {"error_message": "ValueError: no rows\n  in \x1b[1mprices"})

    lines = shown(story.events, now_ms=START_MS)

    assert lines[-2:] == ["error     ValueError: no rows", "          in \\x1b[1mprices"]


@pytest.mark.parametrize("rows", [24, 30])
def test_the_header_leaves_most_of_a_screen_to_the_calls(rows: int) -> None:
    story = Story()
    story.add("workflow_start", {"name": "nightly", "tags": ["nightly"]})
    for number, agent in enumerate(("reader", "writer", "planner", "fetcher")):
        call = {"model": "m-1", "input_tokens": 100, "output_tokens": 20}
        story.add("model_call", {**call, "status": "started"}, agent=agent, call=f"m{number}")
        story.add("model_call", {**call, "status": "completed"}, after=9, agent=agent, call=f"m{number}")
    story.add("workflow_error", {"error_message": "ValueError: no rows"})

    lines = header(run_of(story.events), now_ms=START_MS, width=80, zone=UTC, rows=rows)

    text = "\n".join(paint(line, colour=False) for line in lines)
    assert len(lines) <= rows * 0.4
    assert [word for word in ("duration", "usage", "started", "error") if word not in text] == []
    assert "planner: " not in text


def test_a_run_that_died_shows_the_interval_and_no_end() -> None:
    assert shown(killed(), now_ms=START_MS + 200_000)[2:5] == [
        "started   today 10:02:11 (3 min ago)",
        "died      between 10:02:11 and 10:02:35",
        "ran       between 207 ms and 24.0 s",
    ]


def test_conditions_of_its_processes_are_shown_beside_silence() -> None:
    unattended = Condition("unattended", "process 7 (wrapper) is gone; process 8 on vm still runs")
    lines = header(run_of(session()), now_ms=START_MS + 500_000, width=None, zone=UTC, observed=[unattended])

    labels = [paint(line, colour=False).split(" ")[0] for line in lines]
    assert labels[-2:] == ["silent", "unattended"]


def test_one_of_several_attempts_is_shown_by_itself() -> None:
    run = run_of(again())

    def facts(number: int) -> list[str]:
        lines = header(
            run.at_attempt(number), now_ms=START_MS + 200_000, width=None, zone=UTC, attempt=(number, 3)
        )
        return [paint(line, colour=False) for line in lines if line[0].text.strip() != "events"]

    assert facts(1)[:6] == [
        "✗ failed  wf-again  nightly",
        "attempt   1 of 3; the last one is --attempt 3",
        "kind      workflow",
        "started   today 10:02:11 (3 min ago)",
        "ended     today 10:02:12",
        "duration  1.0 s",
    ]
    assert facts(2)[0] == "? unknown  wf-again  nightly"
    assert "ended     after 10:03:12" in facts(2)
    assert facts(3)[0] == "● running  wf-again  nightly"
    assert facts(3)[1] == "attempt   3 of 3"


@pytest.mark.parametrize("number", [0, 4, -1])
def test_an_attempt_that_is_not_there_is_refused_with_how_many_there_are(number: int) -> None:
    with pytest.raises(InvalidInput, match=r"has 3 attempts, not -?\d\. Use a number from 1 to 3\."):
        run_of(again()).at_attempt(number)


def test_missing_events_and_silence_are_named() -> None:
    incomplete = [event for event in research() if event.number not in (4, 5)]

    assert "missing   missing 4–5 of producer p-3c4d" in shown(incomplete, now_ms=START_MS + 200_000)
    assert any(line.startswith("silent ") for line in shown(session(), now_ms=START_MS + 500_000))


def test_a_run_without_calls_shows_its_last_events_instead() -> None:
    events = session()

    lines, _ = run_lines(run_of(events), events, now_ms=START_MS + 130_000, width=60, zone=UTC)

    assert paint(lines[-1], colour=False) == "10:04:13.000 AGENT_ENTRYPOINT_STARTED"


def test_no_line_is_too_wide_for_a_phone() -> None:
    for events in (research(), failing(), session()):
        lines = header(run_of(events), now_ms=START_MS + 86_400_000, width=40, zone=UTC)

        assert max(line_columns(line) for line in lines) <= 40


@given(st.text("ab 資", max_size=80), st.integers(2, 20))
def test_folded_text_keeps_its_words_and_the_width(text: str, columns: int) -> None:
    parts = list(wrap_text(text, columns))

    assert all(columns_of(part) <= columns for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
