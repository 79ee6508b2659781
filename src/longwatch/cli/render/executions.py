"""The views of `executions watch`: a picture on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from longwatch.cli.outages import Outages
from longwatch.cli.render.execution_lines import open_line, polled_line
from longwatch.cli.render.run_views import Screen, screen
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, remark, write_data, write_json, write_json_lines
from longwatch.cli.render.text import clean, fit
from longwatch.cli.render.times import clock_text, duration_text
from longwatch.clock import Clock
from longwatch.executions.explain import next_poll_text, waiting_for
from longwatch.executions.model import Execution
from longwatch.executions.progress import progress_of
from longwatch.executions.views import ExecutionLine

if TYPE_CHECKING:
    from longwatch.executions.poller import PollReport

MOST_LATEST = 5  # lines below the executions
ROWS_OF_ONE = 2

RowKey = tuple[str, str]  # plan and execution


class ExecutionsView(Protocol):
    """Shows what is watched while it is watched."""

    def begin(self, executions: Iterable[Execution]) -> None:
        """Show what is open, before the first poll."""

    def take(self, polled: PollReport) -> None:
        """Show the result of a poll."""

    def tick(self, found: Collection[Execution]) -> None:
        """Time has passed. `found` is what was open when the store was last read."""

    def finish(self) -> None:
        """The watch is over."""


class ExecutionsLines:
    """Prints a line for each open execution, then one for each change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._outages = Outages()

    def begin(self, executions: Iterable[Execution]) -> None:
        now = self._clock.now_ms()
        lines = [open_line(each, now_ms=now) for each in executions]
        write_data(lines)
        if not lines:
            remark("No open executions.")

    def take(self, polled: PollReport) -> None:
        lines = _news(polled, self._outages, now_ms=self._clock.now_ms())
        if lines:
            write_data(lines)

    def tick(self, found: Collection[Execution]) -> None:
        """Lines report changes only."""

    def finish(self) -> None:
        """Everything is printed already."""


class ExecutionsJson:
    """Prints the executions as `list -o json` does: each change on a line, or all of them at the end."""

    def __init__(self, clock: Clock, *, lines: bool) -> None:
        self._clock = clock
        self._lines = lines
        self._shown: dict[RowKey, ExecutionLine] = {}
        self._versions: dict[RowKey, int] = {}

    def begin(self, executions: Iterable[Execution]) -> None:
        for each in executions:
            self._show(each)

    def take(self, polled: PollReport) -> None:
        if self._versions.get(_key(polled.execution)) != polled.execution.version:
            self._show(polled.execution)

    def tick(self, found: Collection[Execution]) -> None:
        """Data reports changes only."""

    def finish(self) -> None:
        if not self._lines:
            write_json(list(self._shown.values()))

    def _show(self, execution: Execution) -> None:
        line = ExecutionLine.of(execution, now_ms=self._clock.now_ms())
        self._shown[_key(execution)] = line
        self._versions[_key(execution)] = execution.version
        if self._lines:
            write_json_lines([line])


class ExecutionsPicture:
    """Draws every open execution with what it waits for and its next poll, and the latest changes below."""

    def __init__(self, opened: Screen, clock: Clock) -> None:
        self._screen = opened
        self._clock = clock
        self._open: dict[RowKey, Execution] = {}
        self._closed: set[RowKey] = set()
        self._latest: list[str] = []
        self._outages = Outages()

    def begin(self, executions: Iterable[Execution]) -> None:
        self._open = {_key(each): each for each in executions}
        self._draw()

    def take(self, polled: PollReport) -> None:
        key = _key(polled.execution)
        if polled.execution.closed:
            self._closed.add(key)
            self._open.pop(key, None)
        else:
            self._open[key] = polled.execution
        news = _news(polled, self._outages, now_ms=self._clock.now_ms())
        self._latest = [*self._latest, *news][-MOST_LATEST:]
        self._draw()

    def tick(self, found: Collection[Execution]) -> None:
        """Drop what another program has closed. A poll result is newer than the stored record."""
        self._open = {
            key: max(self._open.get(key, each), each, key=lambda each: each.version)
            for each in found
            if (key := _key(each)) not in self._closed
        }
        self._draw()

    def finish(self) -> None:
        self._draw()

    def _draw(self) -> None:
        self._screen.draw(
            picture(
                list(self._open.values()),
                self._latest,
                now_ms=self._clock.now_ms(),
                width=self._screen.width,
                height=self._screen.height,
            )
        )


def picture(
    executions: Sequence[Execution], latest: Sequence[str], *, now_ms: int, width: int, height: int
) -> list[StyledLine]:
    """One picture that fits the screen: two rows for each execution, then the latest changes."""
    room = max(1, (height - len(latest) - 4) // ROWS_OF_ONE)
    lines = [line for each in executions[:room] for line in _rows(each, now_ms=now_ms, width=width)]
    if len(executions) > room:
        lines.append([Segment(f"  and {len(executions) - room} more open executions", "dim")])
    if not executions:
        lines.append([Segment("No open executions.", "dim")])
    return [*lines, [Segment("")], *([Segment(fit(each, width))] for each in latest)]


def _rows(execution: Execution, *, now_ms: int, width: int) -> Iterator[StyledLine]:
    symbol, style = STATUS_LOOKS[execution.status]
    name = clean(f"{execution.execution_id}  {execution.name or execution.plan_id}")
    length = duration_text(max(0, now_ms - execution.started_at))
    head = fit(f"{name}  {progress_of(execution).text()}  {length}", width - 2)
    why = f"waiting for {waiting_for(execution, now_ms) or 'its verdict'}"
    poll = f" · next poll {next_poll_text(execution, now_ms)}"
    yield [Segment(f"{symbol} ", style), Segment(head, "strong")]
    yield [Segment(fit(f"  {clean(why)}", max(1, width - len(poll))), "dim"), Segment(poll, "dim")]


@contextmanager
def open_view(output: str, clock: Clock) -> Iterator[ExecutionsView]:
    """The view for this output; a picture stays on the terminal when the watch is over."""
    if output in ("json", "jsonl"):
        yield ExecutionsJson(clock, lines=output == "jsonl")
    elif not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield ExecutionsLines(clock)
    else:
        with screen(Terminal.of_stdout()) as opened:
            opened.keep()
            yield ExecutionsPicture(opened, clock)


def _news(polled: PollReport, outages: Outages, *, now_ms: int) -> list[str]:
    """The lines for a poll: an outage that begins or is over, and a change of the execution."""
    outage = outages.line(polled, now_ms=now_ms)
    lines = [f"{clock_text(now_ms)} {clean(outage)}" if outage else None, polled_line(polled, now_ms=now_ms)]
    return [line for line in lines if line]


def _key(execution: Execution) -> RowKey:
    return execution.plan_id, execution.execution_id
