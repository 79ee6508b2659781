from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.header import folded, header
from longwatch.cli.show import run_lines
from longwatch.cli.styles import line_columns, paint
from longwatch.cli.text import columns_of
from longwatch.events import Event
from longwatch.runs import Run, fold
from tests.unit.cli.samples import START_MS, failing, research, session


def run_of(events: list[Event]) -> Run:
    run = fold(events)
    assert run is not None
    return run


def shown(events: list[Event], *, now_ms: int, width: int | None = None) -> list[str]:
    return [
        paint(line, colour=False).replace("\u00a0", " ")
        for line in header(run_of(events), now_ms=now_ms, width=width, zone=UTC)
    ]


def test_the_header_tells_how_the_run_stands() -> None:
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


def test_an_error_stands_in_the_header() -> None:
    assert shown(failing(), now_ms=START_MS + 200_000)[-1] == "error     ValueError: no rows"


def test_missing_events_and_silence_are_named() -> None:
    incomplete = [event for event in research() if event.number not in (4, 5)]

    assert "missing   missing 4–5 of producer p-3c4d" in shown(incomplete, now_ms=START_MS + 200_000)
    assert any(line.startswith("silent ") for line in shown(session(), now_ms=START_MS + 500_000))


def test_a_run_without_calls_shows_its_last_events_instead() -> None:
    events = session()

    lines, _ = run_lines(run_of(events), events, now_ms=START_MS + 130_000, width=60, zone=UTC)

    assert paint(lines[-1], colour=False) == "10:04:13.000 AGENT_ENTRYPOINT_STARTED"


def test_a_phone_sees_no_line_that_is_too_wide() -> None:
    for events in (research(), failing(), session()):
        lines = header(run_of(events), now_ms=START_MS + 86_400_000, width=40, zone=UTC)

        assert max(line_columns(line) for line in lines) <= 40


@given(st.text("ab 資", max_size=80), st.integers(2, 20))
def test_folded_text_keeps_its_words_and_the_width(text: str, columns: int) -> None:
    parts = list(folded(text, columns))

    assert all(columns_of(part) <= columns for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
