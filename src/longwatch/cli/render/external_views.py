"""The views of `watch` for one execution: a line for each change, or a picture of its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from longwatch.cli.render.event_line import followed_line
from longwatch.cli.render.execution_lines import wave_lines
from longwatch.cli.render.run_views import MOST_LATEST, ROWS_PER_LATEST, Print, Screen
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import remark
from longwatch.cli.render.text import fit
from longwatch.cli.render.times import ago_text, duration_text
from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.due import next_poll_at
from longwatch.executions.explain import conditions
from longwatch.executions.model import Execution
from longwatch.executions.views import ExecutionView
from longwatch.model.event import Event

MOST_NOTES = 3


class SourceView(Protocol):
    """Shows an execution while it is watched."""

    def take(self, events: Sequence[Event]) -> None:
        """Show new events, each once."""

    def note(self, text: str) -> None:
        """Show a remark on the watch itself."""

    def tick(self, execution: Execution, *, now_ms: int) -> None:
        """Time has passed, or the execution has changed."""


class SourceLines:
    """Prints each event; remarks go to standard error."""

    def __init__(self, show: Print) -> None:
        self._show = show

    def take(self, events: Sequence[Event]) -> None:
        self._show([(event, False) for event in events])

    def note(self, text: str) -> None:
        remark(text)

    def tick(self, execution: Execution, *, now_ms: int) -> None:
        """Lines report events only."""


class SourcePicture:
    """Draws the steps of the execution, the latest changes and when it is polled next."""

    def __init__(self, screen: Screen, cadence: LearnedCadence | None = None) -> None:
        self._screen = screen
        self._cadence = cadence  # durations of its kind
        self._latest: list[Event] = []
        self._notes: list[str] = []

    def take(self, events: Sequence[Event]) -> None:
        self._latest = [*self._latest, *events][-MOST_LATEST:]

    def note(self, text: str) -> None:
        self._notes = [*self._notes, text][-MOST_NOTES:]

    def tick(self, execution: Execution, *, now_ms: int) -> None:
        self._screen.draw(
            picture(
                execution,
                self._latest,
                self._notes,
                now_ms=now_ms,
                width=self._screen.width,
                height=self._screen.height,
                cadence=self._cadence,
            )
        )


def picture(
    execution: Execution,
    latest: Sequence[Event],
    notes: Sequence[str],
    *,
    now_ms: int,
    width: int,
    height: int,
    cadence: LearnedCadence | None = None,
) -> list[StyledLine]:
    """One picture that fits the screen: the steps, the last changes, the state of the watch."""
    count = max(1, min(MOST_LATEST, height // ROWS_PER_LATEST))
    changes = [followed_line(event, late=False, width=width) for event in latest[-count:]]
    below: list[StyledLine] = [[Segment(fit(watch_text(execution, now_ms=now_ms), width), "dim")]]
    below += [[Segment(fit(text, width), "warn")] for text in notes]
    room = max(1, height - len(changes) - len(below) - 3)  # blank lines between, and the cursor's own
    view = ExecutionView.of(execution, now_ms=now_ms, cadence=cadence)
    steps = [_fit_line(line, width) for line in wave_lines(view, now_ms=now_ms)]
    if len(steps) > room:  # the end of a long list has the latest steps
        head = min(room, 1 + (view.eta is not None) + (view.waiting_for is not None))
        steps = [*steps[:head], *(steps[head - room :] if room > head else [])]
    blank: StyledLine = [Segment("")]
    return [*steps, blank, *changes, blank, *below]


def watch_text(execution: Execution, *, now_ms: int) -> str:
    """When it was polled, when it is polled next, and what is wrong."""
    facts = [f"running for {duration_text(max(0, now_ms - execution.started_at))}"]
    if execution.last_polled_at is not None:
        facts.append(f"polled {ago_text(execution.last_polled_at, now_ms=now_ms)}")
    if execution.is_open:
        wait = max(0, next_poll_at(execution) - now_ms)
        facts.append(f"next poll in {wait / 1000:.0f} s")
    facts += [each.name for each in conditions(execution, now_ms)]
    return " · ".join(facts)


def _fit_line(line: StyledLine, width: int) -> StyledLine:
    fitted: list[Segment] = []
    left = width
    for segment in line:
        if left <= 0:
            break
        text = fit(segment.text, left)
        fitted.append(Segment(text, segment.style))
        left -= len(text)
    return fitted
