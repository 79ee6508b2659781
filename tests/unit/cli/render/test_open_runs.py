from __future__ import annotations

import pytest

from longwatch.cli.render.open_runs import OpenRun, eta_text, open_run_lines
from longwatch.cli.render.styles import line_columns, paint
from longwatch.model.run import RunSummary, summarise
from longwatch.model.run_durations import usual_duration_ms
from tests.unit.cli.samples import START_MS, Story

NOW = START_MS + 60_000


def open_run(name: str, *, waits: bool = False, usual_ms: float | None = None) -> OpenRun:
    story = Story(f"wf-{name}")
    story.add("workflow_start", {"name": name})
    call = {"operation": "search", "status": "started", "input": {"query": "tides"}}
    last = story.add("tool_call", call, agent="reader", call="t1")
    if waits:
        story.add("waiting_started", {"reason": "approval"}, call="w1")
    return OpenRun(summarise(story.events)[story.run_id], (), last, usual_ms)


def ended(name: str, takes: int, number: int) -> RunSummary:
    story = Story(f"wf-{number}")
    story.add("workflow_start", {"name": name})
    story.add("workflow_complete", after=takes)
    return summarise(story.events)[story.run_id]


def drawn(
    runs: list[OpenRun], *, width: int = 120, height: int = 24, selected: str | None = None
) -> list[str]:
    lines = open_run_lines(runs, selected=selected, now_ms=NOW, width=width, height=height)
    assert max(map(line_columns, lines)) <= width
    assert len(lines) < height
    return [paint(line, colour=False) for line in lines]


def test_each_open_run_is_a_line_with_its_last_call_its_wait_and_its_eta() -> None:
    runs = [open_run("nightly", usual_ms=90_000), open_run("deploy", waits=True)]

    heading, titles, first, second, *_ = (
        " ".join(line.split()) for line in drawn(runs, width=140, selected="wf-deploy")
    )

    assert heading == "2 open runs"
    assert titles == "RUN ID AGE AGENT LAST CALL CONDITION LAST EVENT ETA"
    assert first == "● nightly wf-nightly 1 min 00 s reader search … tides 60 s ago ~30.0 s left"
    assert second.startswith("› ● deploy")
    assert "waiting for approval, for 1 min 00 s" in second


@pytest.mark.parametrize(("width", "height"), [(40, 12), (80, 24), (30, 7)])
def test_the_selected_run_is_in_view_on_any_screen(width: int, height: int) -> None:
    runs = [open_run(f"run-{number}") for number in range(30)]

    lines = drawn(runs, width=width, height=height, selected="wf-run-29")

    assert any(line.startswith("›") and "run-29" in line for line in lines)


def test_without_open_runs_the_list_says_that_they_will_appear() -> None:
    assert drawn([], width=40, height=12)[1] == "Runs appear here as soon as they start."


def test_the_eta_is_what_earlier_runs_of_the_name_took_less_the_age() -> None:
    run = open_run("nightly").run
    earlier = [ended("nightly", takes, number) for number, takes in enumerate((80_000, 100_000, 90_000))]

    assert usual_duration_ms(run, [*earlier, ended("other", 5, 9)]) == 90_000
    assert usual_duration_ms(run, earlier[:2]) is None
    assert eta_text(60_000, 90_000) == "~30.0 s left"
    assert eta_text(95_000, 90_000) == "usually 1 min 30 s"
    assert eta_text(60_000, None) == ""
