"""How the demo is shown: a picture that is drawn anew while it plays, or plain lines where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from longwatch.cli.demo.workflow import STEPS
from longwatch.cli.lines import event_line
from longwatch.cli.styles import STATUS_LOOKS, Line, Segment, paint
from longwatch.cli.terminal import Terminal
from longwatch.cli.text import clean, columns_of
from longwatch.cli.times import duration_text
from longwatch.cli.waterfall import waterfall
from longwatch.clock import Clock
from longwatch.events import Event
from longwatch.runs import Run

LATEST_EVENTS = 6
BAR_COLUMNS = 28
WIDE_COLUMNS = 72


class Stage(Protocol):
    """Where the run is shown while it is read."""

    def show(self, run: Run, new: list[Event]) -> None:
        """Something may have happened, or only time passed."""


class Lines:
    """Each event on a line of its own, as it arrives."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def show(self, run: Run, new: list[Event]) -> None:
        self._terminal.show(event_line(event, width=self._terminal.columns) for event in new)
        sys.stdout.flush()


@contextmanager
def staged(terminal: Terminal, *, live: bool, clock: Clock) -> Iterator[Stage]:
    """A picture on a terminal, lines elsewhere."""
    if not live:
        yield Lines(terminal)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    latest: list[Event] = []
    console = Console(no_color=not terminal.colour, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as picture:

        class Picture:
            def show(self, run: Run, new: list[Event]) -> None:
                latest.extend(new)
                del latest[:-LATEST_EVENTS]
                lines = frame(run, latest, now_ms=clock.now_ms(), width=console.width)
                text = "\n".join(paint(line, colour=terminal.colour) for line in lines)
                picture.update(Text.from_ansi(text, no_wrap=True), refresh=True)

        yield Picture()


def frame(run: Run, latest: list[Event], *, now_ms: int, width: int) -> list[Line]:
    """One picture: how far it is, the tree with its bars, and the last few events."""
    tree, _ = waterfall(run, now_ms=now_ms, width=width)
    newest = [event_line(event, width=width) for event in latest]
    return [*headline(run, now_ms=now_ms, width=width), [Segment("")], *tree, [Segment("")], *newest]


def headline(run: Run, *, now_ms: int, width: int) -> list[Line]:
    """Name, status and a bar of the steps that have ended; a narrow one leaves out the run's id."""
    summary = run.summary
    symbol, style = STATUS_LOOKS[summary.status]
    done = min(STEPS, sum(call.end is not None for call in run.calls.values()))
    title = f"{symbol} {clean(summary.name or summary.run_id)}  "
    run_id = f"{summary.run_id}  " if width >= WIDE_COLUMNS else ""
    counts = f" {done}/{STEPS}  {duration_text(summary.duration_ms(now_ms))}"
    bar = max(0, min(BAR_COLUMNS, width - columns_of(title + run_id + counts)))
    filled = bar * done // STEPS
    return [
        [
            Segment(title, style),
            Segment(run_id, "dim"),
            Segment("━" * filled, style),
            Segment("┄" * (bar - filled), "dim"),
            Segment(counts, "dim"),
        ]
    ]
