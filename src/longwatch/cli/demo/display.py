"""The demo in the terminal: a screen that is redrawn, or a line for each event where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from longwatch.cli.demo.model import PRICES
from longwatch.cli.demo.workflow import STEPS
from longwatch.cli.render.event_line import event_line
from longwatch.cli.render.run_views import MOST_LATEST, frame, screen
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.terminal import Terminal
from longwatch.cli.render.text import clean, columns_of
from longwatch.cli.render.times import run_duration_text
from longwatch.clock import Clock
from longwatch.model.event import Event
from longwatch.model.prices import Prices
from longwatch.model.run import Run

BAR_COLUMNS = 28
WIDE_COLUMNS = 72

Show = Callable[[Run, Sequence[Event]], None]
"""Shows the run with its new events, or only that time has passed."""


@contextmanager
def open_display(
    terminal: Terminal, clock: Clock, *, is_live: bool, drill_line: Callable[[int], StyledLine | None]
) -> Iterator[Show]:
    """The display of the run; `drill_line` fits the state of the drill into a number of columns."""

    def print_events(run: Run, new: Sequence[Event]) -> None:
        terminal.show(event_line(event, width=terminal.columns) for event in new)
        sys.stdout.flush()

    if not is_live:
        yield print_events
        return
    latest: list[tuple[Event, bool]] = []
    with screen(terminal) as opened:

        def redraw(run: Run, new: Sequence[Event]) -> None:
            latest.extend((event, False) for event in new)
            del latest[:-MOST_LATEST]
            now, width = clock.now_ms(), opened.width
            drill = drill_line(width)
            above = [headline(run, now_ms=now, width=width), *([drill] if drill is not None else [])]
            lines = frame(
                run, latest, above=above, now_ms=now, width=width, height=opened.height, prices=Prices(PRICES)
            )
            opened.draw(lines)

        yield redraw


def headline(run: Run, *, now_ms: int, width: int) -> StyledLine:
    """Name, status and a bar of the ended steps; a narrow line omits the run id."""
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
