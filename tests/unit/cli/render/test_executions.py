"""The picture of `executions watch`: every open execution, what it waits for, and what came last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from longwatch.cli.render.execution_lines import wave_lines
from longwatch.cli.render.executions import ExecutionsPicture, picture
from longwatch.cli.render.styles import StyledLine
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import Execution, Mode, Verdict
from longwatch.executions.poller import PollReport, Result
from longwatch.executions.views import ExecutionView
from longwatch.model.summary import Status
from longwatch.testing import FakeClock
from tests.unit.executions.samples import EVIDENCE, FAILED, IN_PROGRESS, LAUNCHED, START, drill

if TYPE_CHECKING:
    from longwatch.cli.render.run_views import Screen

NOW = START + 60_000
OPEN = drill(LAUNCHED, FAILED, IN_PROGRESS, name="east", last_polled_at=NOW - 10_000, last_answer_at=NOW)


def drawn(
    *executions: Execution, latest: tuple[str, ...] = (), width: int = 80, height: int = 24
) -> list[str]:
    lines = picture(executions, latest, now_ms=NOW, width=width, height=height)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def test_each_execution_shows_its_progress_what_it_waits_for_and_its_next_poll() -> None:
    assert drawn(OPEN, latest=("12:00:00.000 x-0 succeeded",)) == [
        "● x-1  east  1 of 3 done, 1 failed  1 min 00 s",
        "  waiting for s-3 (in progress) · next poll in 20 s",
        "",
        "12:00:00.000 x-0 succeeded",
    ]


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (120, 6)])
def test_the_picture_fits_the_screen_and_counts_what_does_not(width: int, height: int) -> None:
    many = [replace(OPEN, execution_id=f"x-{number}") for number in range(30)]

    lines = drawn(*many, latest=("a" * 200,), width=width, height=height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any(line.endswith("more open executions") for line in lines)


class Paper:
    """A screen that keeps what was drawn last."""

    width, height = 100, 24
    lines: Sequence[StyledLine] = ()

    def draw(self, lines: Sequence[StyledLine]) -> None:
        self.lines = lines

    @property
    def text(self) -> str:
        return "\n".join("".join(segment.text for segment in line) for line in self.lines)


def test_executions_that_end_or_are_closed_elsewhere_leave_the_picture_and_news_stay() -> None:
    paper = Paper()
    view = ExecutionsPicture(cast("Screen", paper), FakeClock(NOW))
    first, second = replace(OPEN, execution_id="x-first"), replace(OPEN, execution_id="x-second")
    news = replace(second, stages=drill(LAUNCHED, LAUNCHED).stages, version=5)

    view.begin([first, second])
    assert "x-first" in paper.text
    view.take(PollReport(execution=news, result=Result.POLLED, phase=ExecutionPhase.IN_PROGRESS, appended=1))
    view.tick([first, second])
    assert "all 2 items launched" in paper.text
    view.tick([second])  # another program has closed the first

    assert "x-first" not in paper.text
    over = replace(second, verdict=Verdict(Status.SUCCEEDED, NOW, EVIDENCE), closed=True)
    view.take(PollReport(execution=over, result=Result.ENDED, phase=ExecutionPhase.IN_PROGRESS))
    view.tick([second])  # as it was before that poll
    assert paper.text.startswith("No open executions.")
    assert "x-second succeeded" in paper.text


def test_without_executions_a_message_is_shown() -> None:
    assert drawn()[0] == "No open executions."


@pytest.mark.parametrize(("mode", "state"), [(Mode.DRILL, "launched"), (Mode.JOB, "done")])
def test_only_items_of_disaster_recovery_are_launched(mode: Mode, state: str) -> None:
    view = ExecutionView.of(replace(drill(LAUNCHED), mode=mode), now_ms=NOW)

    lines = ["".join(segment.text for segment in line) for line in wave_lines(view, now_ms=NOW)]

    assert [line.split()[1] for line in lines if line.lstrip().startswith("s-")] == [state]
    assert any("launched" in line for line in lines) is (mode is Mode.DRILL)
