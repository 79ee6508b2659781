"""Views of a run in the terminal: lines as events arrive, or a screen that is redrawn."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longwatch.cli.render.event_line import followed_line, need_dates
from longwatch.cli.render.header import wrap_text
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine, paint
from longwatch.cli.render.terminal import Terminal, batches, remark, write_data
from longwatch.cli.render.text import ELLIPSIS, clean, columns_of, fit
from longwatch.cli.render.times import ago_text, run_duration_text
from longwatch.cli.render.usage import usage_text, waiting_text
from longwatch.cli.render.waterfall import live_waterfall
from longwatch.cli.run_reader import FOLD_EVENTS
from longwatch.clock import Clock
from longwatch.following import WatchPhase, WatchState
from longwatch.journal.codec import to_line
from longwatch.model.event import Event, Order
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Run, Status, fold

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

MOST_LATEST = 6  # events shown below the tree
ROWS_PER_LATEST = 6  # of the screen: a low one shows fewer events

Arrival = tuple[Event, bool]  # an event, and whether it is late

_BLANK: StyledLine = [Segment("")]


class Screen:
    """A terminal on which each drawing replaces the one before."""

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

    def draw(self, lines: Sequence[StyledLine]) -> None:
        """Replace the drawing by these lines."""
        from rich.text import Text

        text = "\n".join(paint(line, colour=self._colour) for line in lines)
        self._live.update(Text.from_ansi(text, no_wrap=True), refresh=True)

    def keep(self) -> None:
        """Leave the last drawing on the terminal."""
        self._live.transient = False


@contextmanager
def screen(terminal: Terminal) -> Iterator[Screen]:
    """Use the terminal as a screen; the drawing is removed afterwards."""
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=not terminal.colour, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        yield Screen(console, live, colour=terminal.colour)


def frame(
    run: Run | None,
    latest: Sequence[Arrival],
    *,
    above: Sequence[StyledLine],
    below: Sequence[StyledLine] = (),
    now_ms: int,
    width: int,
    height: int,
    prices: Prices = NO_PRICES,
) -> list[StyledLine]:
    """The lines that fit the screen: `above`, the tree, the last events, `below`."""
    count = max(1, min(MOST_LATEST, height // ROWS_PER_LATEST))
    newest = [followed_line(event, late=late, width=width) for event, late in latest[-count:]]
    rest = [*([_BLANK, *newest] if newest else []), *([_BLANK, *below] if below else [])]
    # One row for the cursor below, and one between `above` and the tree.
    room = height - len(above) - len(rest) - 2
    tree: list[StyledLine] = []
    if run is not None and room > 0:
        tree = live_waterfall(run, now_ms=now_ms, width=width, height=room, prices=prices)
    return [*above, *([_BLANK, *tree] if tree else []), *rest]


WIDE_COLUMNS = 72
MOST_ERROR_LINES = 3
MOST_WAITS = 3  # open waits with a line of their own
LINES_AT_ONCE = 200  # printed at once, so that a closed pipe is noticed early

Print = Callable[[list[Arrival]], None]


def text_printer(terminal: Terminal, *, now_ms: int) -> Print:
    """Prints each event as a line of text, with dates if not all are of the day on which the watch began."""

    def show(arrivals: list[Arrival]) -> None:
        dated = need_dates([event for event, _ in arrivals], now_ms=now_ms)
        terminal.show(
            followed_line(event, late=late, width=terminal.columns, dated=dated) for event, late in arrivals
        )
        sys.stdout.flush()

    return show


def print_json_lines(arrivals: list[Arrival]) -> None:
    """Prints each event as a line of JSON."""
    write_data(to_line(event) for event, _ in arrivals)


class LineView:
    """Prints events as they arrive. An outage of the journal is reported on standard error, once."""

    def __init__(self, show: Print) -> None:
        self._show = show
        self._arrivals: list[Arrival] = []
        self._error: str | None = None

    def take(self, event: Event, *, late: bool) -> None:
        self._arrivals.append((event, late))

    def flush(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        if arrivals:
            self._show(arrivals)

    def caught_up(self) -> None:
        """Print nothing: piped lines look the same before and after."""

    def tick(self, state: WatchState) -> None:
        if state.error is not None and state.error != self._error:
            wait = f"; next poll in {state.next_poll_seconds:.0f} s" if state.next_poll_seconds else ""
            remark(f"longwatch: {clean(state.error)}{wait}")
        elif state.error is None and self._error is not None:
            remark("longwatch: the journal is available again")
        self._error = state.error


class TailView(LineView):
    """Prints the last events of the history, in order, then new events as they arrive."""

    def __init__(self, show: Print, wanted: Callable[[Event], bool], last: int | None) -> None:
        super().__init__(show)
        self._wanted = wanted
        self._last = last
        self._history: list[tuple[Order, Event]] | None = []  # a heap if only the last events are printed

    def take(self, event: Event, *, late: bool) -> None:
        if not self._wanted(event):
            return
        if self._history is None:
            super().take(event, late=late)
        elif self._last is None:
            self._history.append((event.order, event))
        elif len(self._history) < self._last:
            heapq.heappush(self._history, (event.order, event))
        elif self._last:
            heapq.heappushpop(self._history, (event.order, event))

    def caught_up(self) -> None:
        history, self._history = self._history or [], None
        history.sort(key=lambda pair: pair[0])
        for batch in batches(history, LINES_AT_ONCE):
            self._show([(event, False) for _, event in batch])


class PictureView:
    """Draws the state of the run and of the watch."""

    def __init__(
        self,
        screen: Screen,
        run_id: str,
        clock: Clock,
        prices: Prices = NO_PRICES,
        *,
        hint: str | None = None,
    ) -> None:
        self.run: Run | None = None
        self._hint = hint  # the last line
        self._prices = prices
        self.latest: list[Arrival] = []
        self._screen = screen
        self._run_id = run_id
        self._clock = clock
        self._new: list[Event] = []  # not folded yet: each fold copies the run, so few are cheaper

    def take(self, event: Event, *, late: bool) -> None:
        self._new.append(event)
        self.latest.append((event, late))
        if len(self.latest) > 10 * MOST_LATEST:
            del self.latest[:-MOST_LATEST]
        if len(self._new) >= FOLD_EVENTS:
            self.fold()

    def flush(self) -> None:
        """The next tick draws it."""

    def caught_up(self) -> None:
        """The state of the watch, which `tick` gets, includes it."""

    def fold(self) -> None:
        """Fold the new events into the run."""
        self.run = fold(self._new, self.run)
        self._new = []

    def tick(self, state: WatchState) -> None:
        self.fold()
        now, width = self._clock.now_ms(), self._screen.width
        above = [headline(self.run, self._run_id, now_ms=now, width=width)]
        below = watch_lines(state, self.run, now_ms=now, width=width, prices=self._prices)
        if self._hint is not None:
            below.append([Segment(fit(self._hint, width), "dim")])
        self._screen.draw(
            frame(
                self.run,
                self.latest,
                above=above,
                below=below,
                now_ms=now,
                width=width,
                height=self._screen.height,
                prices=self._prices,
            )
        )


def headline(run: Run | None, run_id: str, *, now_ms: int, width: int) -> StyledLine:
    """Name, id, status and duration; a narrow line omits the id of a run with a name."""
    status = run.status if run is not None else Status.PENDING
    symbol, style = STATUS_LOOKS[status]
    name = clean(run.summary.name or "") if run is not None else ""
    length = run_duration_text(run.summary, now_ms) if run is not None else ""
    tail = f"  {status.value}  {length}".rstrip()
    names = [name, clean(run_id)] if name and width >= WIDE_COLUMNS else [name or clean(run_id)]
    room = max(1, width - 2 - columns_of(tail))
    first = fit(names[0], room)
    rest = fit(f"  {names[1]}", room - columns_of(first)) if len(names) > 1 else ""
    return [
        Segment(f"{symbol} ", style),
        Segment(first, "strong"),
        Segment(rest, "dim"),
        Segment(tail, style),
    ]


def watch_lines(
    state: WatchState, run: Run | None, *, now_ms: int, width: int, prices: Prices = NO_PRICES
) -> list[StyledLine]:
    """The state of the watch, wrapped at the width; waits and an error get lines of their own."""
    facts = [_phase_text(state)]
    if run is not None:
        ago = ago_text(run.summary.last_event_at, now_ms=now_ms)
        facts.append(f"{state.delivered:,} events, the last {ago}")
        if run.summary.totals.usage:
            facts.append(usage_text(run.summary.totals.usage, prices))
    if state.error is None and state.next_poll_seconds is not None:
        facts.append(f"next poll in {state.next_poll_seconds:.1f} s")
    waits = run.summary.waiting if run is not None else ()
    lines: list[StyledLine] = [
        [Segment(fit(clean(waiting_text(wait, now_ms=now_ms)), width), "warn")] for wait in waits[:MOST_WAITS]
    ]
    lines += [[Segment(part, "dim")] for part in _join_facts(facts, width)]
    if state.error is not None:
        failed = f"{state.failures} failed polls in a row" if state.failures > 1 else "the last poll failed"
        wait = f", next in {state.next_poll_seconds:.0f} s" if state.next_poll_seconds is not None else ""
        error = list(wrap_text(f"! {failed}{wait}: {clean(state.error)}", width - 1))
        cut = ELLIPSIS if len(error) > MOST_ERROR_LINES else ""
        error = error[:MOST_ERROR_LINES]
        lines += [[Segment(part + (cut if part is error[-1] else ""), "warn")] for part in error]
    return lines


def _phase_text(state: WatchState) -> str:
    if state.error is not None:
        return "no contact"
    if state.phase is WatchPhase.DRAINING:
        return "the run has ended, waiting for late events"
    if state.phase is WatchPhase.LIVE:
        return "live" if state.delivered else "live, waiting for the run to start"
    return "catching up again" if state.caught_up else "catching up"


def _join_facts(facts: list[str], width: int) -> list[str]:
    """The facts with dots between them, as many on a line as there is room for."""
    lines = [fit(facts[0], width)]
    for fact in facts[1:]:
        longer = f"{lines[-1]} · {fact}"
        if columns_of(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(fit(fact, width))
    return lines
