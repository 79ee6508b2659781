"""`longwatch watch` without a run: every open run on a line, live; a key opens one."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.follow_run import follow_run
from longwatch.cli.options import Invocation
from longwatch.cli.render.open_runs import OpenRun, open_run_lines
from longwatch.cli.render.run_views import PictureView, Screen, screen
from longwatch.cli.render.terminal import Terminal
from longwatch.cli.render.text import clean
from longwatch.cli.resolve import open_for_reading
from longwatch.cli.signals import report_interrupt
from longwatch.clock import Clock
from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.following import WatchState
from longwatch.following.observation import ObservedRun, Observer
from longwatch.journal.base import Journal, ReadsLast
from longwatch.model.calls import mark_of
from longwatch.model.event import Event, Order
from longwatch.model.prices import Prices
from longwatch.model.run import Status
from longwatch.model.run_durations import usual_duration_ms
from longwatch.model.run_query import INDEX_KINDS, RunQuery
from longwatch.storage.price_file import PriceList

OPEN = RunQuery(status=frozenset({Status.PENDING, Status.RUNNING}), except_kinds=INDEX_KINDS)
MAX_RUNS = 100  # open runs that are listed
REFRESH_SECONDS = 1.0
LAST_EVENTS = 20  # of a run, among which its last call is found
PAST_RUNS = 200  # newest runs of a kind, among which earlier ones of the same name are found
UP, DOWN, OPENS, BACK, QUITS = (
    ("k", "\x1b[A"),
    ("j", "\x1b[B"),
    ("\r", "\n"),
    ("\x7f", "\x08", "\x1b", "b"),
    ("q",),
)


def watch_runs(invocation: Invocation) -> int:
    """Show the open runs until the user quits. Without a terminal, raise a usage error that lists them."""
    clock = invocation.clock
    with open_for_reading(invocation) as journal:
        listing = _OpenRuns(journal, clock)
        if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
            raise click.UsageError(_without_terminal(listing.read()))
        terminal, prices = Terminal.of_stdout(), PriceList(invocation.settings()).current()
        try:
            with _keys() as keys, screen(terminal) as opened:
                _Browser(listing, journal, opened, keys, clock, prices).run()
        except KeyboardInterrupt:
            return report_interrupt("watching stopped, the runs continue")
    return ExitCode.SUCCEEDED


def _without_terminal(runs: Sequence[OpenRun]) -> str:
    if not runs:
        return "Missing argument 'RUN'. No run is open; list all with `longwatch runs`."
    names = ", ".join(f"{each.run.run_id} ({each.run.name or each.run.kind})" for each in runs)
    return clean(f"Missing argument 'RUN'. Only a terminal shows all open runs. Open now: {names}.")


class _OpenRuns:
    """Reads the open runs, and of those that changed the last call."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._observer = Observer(journal, clock=clock)
        self._last: dict[str, tuple[Order, Event | None]] = {}
        self._usual: dict[tuple[str, str | None], float | None] = {}

    def read(self) -> list[OpenRun]:
        found = self._observer.find_runs(OPEN, limit=MAX_RUNS).runs
        return [self._open_run(each) for each in found]

    def _open_run(self, found: ObservedRun) -> OpenRun:
        run = found.run
        known = self._last.get(run.run_id)
        if known is None or known[0] != run.last_order:
            known = run.last_order, self._last_event(run.run_id)
            self._last[run.run_id] = known
        key = run.kind, run.name
        if key not in self._usual:
            query = RunQuery(status=Status.SUCCEEDED, kind=run.kind, text=run.name)
            self._usual[key] = usual_duration_ms(run, self._journal.find_runs(query, limit=PAST_RUNS).runs)
        return OpenRun(run, found.conditions, known[1], self._usual[key])

    def _last_event(self, run_id: str) -> Event | None:
        """The last event of a call among the last events; None if the journal only reads whole runs."""
        if not isinstance(self._journal, ReadsLast):
            return None
        events = self._journal.read_last(run_id, LAST_EVENTS)
        return next((event for event in reversed(events) if mark_of(event) is not None), None)


@dataclass(slots=True)
class _Keys:
    """Keys that the user presses."""

    descriptor: int

    def pressed(self, seconds: float) -> str | None:
        """The key that is pressed within this time."""
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return None
        return os.read(self.descriptor, 16).decode(errors="replace")


@contextmanager
def _keys() -> Iterator[_Keys]:
    """Read single keys without echo, as long as this is open. Ctrl-C still interrupts."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _WentBack(Exception):
    """Ends the view of one run."""


class _Quit(Exception):
    """Ends the command."""


class _Browser:
    """The list of open runs and the view of one, on a screen."""

    def __init__(
        self,
        listing: _OpenRuns,
        journal: Journal,
        screen: Screen,
        keys: _Keys,
        clock: Clock,
        prices: Prices,
    ) -> None:
        self._listing = listing
        self._journal = journal
        self._screen = screen
        self._keys = keys
        self._clock = clock
        self._prices = prices
        self._selected: str | None = None  # a run ID
        self._runs: Sequence[OpenRun] = ()
        self._error: LongwatchError | None = None

    def run(self) -> None:
        """Draw and obey keys until the user quits."""
        while True:
            self._refresh()
            key = self._keys.pressed(REFRESH_SECONDS)
            if key in QUITS:
                return
            if key in UP or key in DOWN:
                self._move(-1 if key in UP else 1)
            elif key in OPENS and self._selected is not None:
                try:
                    self._open(self._selected)
                except _Quit:
                    return

    def _refresh(self) -> None:
        try:
            self._runs, self._error = self._listing.read(), None
        except WorthAnotherTry as error:
            self._error = error
        ids = [each.run.run_id for each in self._runs]
        if self._selected not in ids:
            self._selected = ids[0] if ids else None
        lines = open_run_lines(
            self._runs,
            selected=self._selected,
            error=None if self._error is None else str(self._error),
            now_ms=self._clock.now_ms(),
            width=self._screen.width,
            height=self._screen.height,
        )
        self._screen.draw(lines)

    def _move(self, step: int) -> None:
        ids = [each.run.run_id for each in self._runs]
        if self._selected in ids:
            self._selected = ids[min(max(ids.index(self._selected) + step, 0), len(ids) - 1)]

    def _open(self, run_id: str) -> None:
        """Show one run until the user goes back, also after it has ended."""
        view = _OpenedView(self._screen, run_id, self._clock, self._prices, keys=self._keys)
        try:
            asyncio.run(follow_run(self._journal, run_id, view, clock=self._clock))
            while True:
                view.obey(self._keys.pressed(REFRESH_SECONDS))
        except _WentBack:
            return


class _OpenedView(PictureView):
    """One run, from which a key goes back."""

    def __init__(self, screen: Screen, run_id: str, clock: Clock, prices: Prices, *, keys: _Keys) -> None:
        super().__init__(screen, run_id, clock, prices, hint="Backspace: all runs · q: quit")
        self._keys = keys

    def tick(self, state: WatchState) -> None:
        self.obey(self._keys.pressed(0))
        super().tick(state)

    def obey(self, key: str | None) -> None:
        """Raise what this key requests."""
        if key in QUITS:
            raise _Quit
        if key in BACK:
            raise _WentBack
