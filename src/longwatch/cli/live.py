"""A picture of a run that is drawn anew while it goes on: the tree with its bars, and the last few events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longwatch.cli.lines import followed_line
from longwatch.cli.styles import Line, Segment, paint
from longwatch.cli.terminal import Terminal
from longwatch.cli.waterfall import live_waterfall
from longwatch.model.event import Event
from longwatch.model.run import Run

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

MOST_LATEST = 6  # events below the tree
ROWS_PER_LATEST = 6  # of the screen: a low one shows fewer events

Latest = Sequence[tuple[Event, bool]]  # events as they came, and whether each was late

_BLANK: Line = [Segment("")]


class Screen:
    """A terminal on which one picture takes the place of the one before."""

    def __init__(self, console: Console, live: Live, *, colour: bool) -> None:
        self._console = console
        self._live = live
        self._colour = colour

    @property
    def width(self) -> int:
        return self._console.width

    @property
    def height(self) -> int:
        return self._console.height

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines instead of those that are there."""
        from rich.text import Text

        text = "\n".join(paint(line, colour=self._colour) for line in lines)
        self._live.update(Text.from_ansi(text, no_wrap=True), refresh=True)

    def keep(self) -> None:
        """Let the last picture stay when the screen is left."""
        self._live.transient = False


@contextmanager
def screen(terminal: Terminal) -> Iterator[Screen]:
    """The terminal as a screen; what was drawn is gone afterwards."""
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=not terminal.colour, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        yield Screen(console, live, colour=terminal.colour)


def frame(
    run: Run | None,
    latest: Latest,
    *,
    above: Sequence[Line],
    below: Sequence[Line] = (),
    now_ms: int,
    width: int,
    height: int,
) -> list[Line]:
    """One picture that fits the screen: `above`, the tree, the last events, `below`."""
    count = max(1, min(MOST_LATEST, height // ROWS_PER_LATEST))
    newest = [followed_line(event, late=late, width=width) for event, late in latest[-count:]]
    rest = [*([_BLANK, *newest] if newest else []), *([_BLANK, *below] if below else [])]
    # The cursor stands below the picture, and a blank line between head and tree.
    room = height - len(above) - len(rest) - 2
    tree = live_waterfall(run, now_ms=now_ms, width=width, height=room) if run and room > 0 else []
    return [*above, *([_BLANK, *tree] if tree else []), *rest]
