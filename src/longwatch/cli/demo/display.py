"""How the demo is shown: a picture that is drawn anew while it plays, or plain lines where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from longwatch.cli.demo.workflow import STEPS
from longwatch.cli.render.event_line import event_line
from longwatch.cli.render.run_views import MOST_LATEST, Screen, frame, screen
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.terminal import Terminal
from longwatch.cli.render.text import clean, columns_of
from longwatch.cli.render.times import run_duration_text
from longwatch.clock import Clock
from longwatch.model.event import Event
from longwatch.model.run import Run

BAR_COLUMNS = 28
WIDE_COLUMNS = 72


Below = Callable[[int], StyledLine | None]
"""What else goes on, as one line of so many columns."""


class DemoDisplay(Protocol):
    """Where the run is shown while it is read."""

    def show(self, run: Run, new: list[Event]) -> None:
        """Something may have happened, or only time passed."""


class DemoLines:
    """Each event on a line of its own, as it arrives."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def show(self, run: Run, new: list[Event]) -> None:
        self._terminal.show(event_line(event, width=self._terminal.columns) for event in new)
        sys.stdout.flush()


class DemoPicture:
    """The run as it stands, drawn anew each time."""

    def __init__(self, screen: Screen, clock: Clock, below: Below | None = None) -> None:
        self._screen = screen
        self._clock = clock
        self._below = below
        self._latest: list[tuple[Event, bool]] = []

    def show(self, run: Run, new: list[Event]) -> None:
        self._latest.extend((event, False) for event in new)
        del self._latest[:-MOST_LATEST]
        now, width = self._clock.now_ms(), self._screen.width
        above = [headline(run, now_ms=now, width=width)]
        more = self._below(width) if self._below is not None else None
        if more is not None:
            above.append(more)
        self._screen.draw(
            frame(run, self._latest, above=above, now_ms=now, width=width, height=self._screen.height)
        )


@contextmanager
def staged(
    terminal: Terminal, *, live: bool, clock: Clock, below: Below | None = None
) -> Iterator[DemoDisplay]:
    """A picture on a terminal, lines elsewhere."""
    if not live:
        yield DemoLines(terminal)
        return
    with screen(terminal) as opened:
        yield DemoPicture(opened, clock, below)


def headline(run: Run, *, now_ms: int, width: int) -> StyledLine:
    """Name, status and a bar of the steps that have ended; a narrow one leaves out the run's id."""
    summary = run.summary
    symbol, style = STATUS_LOOKS[summary.status]
    done = min(STEPS, sum(call.end is not None for call in run.calls.values()))
    title = f"{symbol} {clean(summary.name or summary.run_id)}  "
    run_id = f"{summary.run_id}  " if width >= WIDE_COLUMNS else ""
    counts = f" {done}/{STEPS}  {run_duration_text(summary, now_ms)}"
    bar = max(0, min(BAR_COLUMNS, width - columns_of(title + run_id + counts)))
    filled = bar * done // STEPS
    return [
        Segment(title, style),
        Segment(run_id, "dim"),
        Segment("━" * filled, style),
        Segment("┄" * (bar - filled), "dim"),
        Segment(counts, "dim"),
    ]
