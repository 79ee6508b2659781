"""What a watch knows of its run: how it ended, which events are missing, which process does the work.

A small part of the fold, in bounded memory: a run of a million events is followed with a few ranges of
numbers. Adding an event twice changes nothing, so what several followers know can be put together.
"""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.events import Event, Order, number_of
from longwatch.following.tally import Tally
from longwatch.processes import Process
from longwatch.runs import ENDS, Ending, Status

START_TYPES = frozenset({"workflow_start", "turn_started"})  # they name the process that does the work
CLOSED_TYPE = "producer_closed"


class Known:
    """Grows with the events that are added."""

    __slots__ = ("ending", "last", "process", "started", "tallies", "terminal", "whole")

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole  # the events before the first one that was added are known too, or there are none
        self.last: Order | None = None  # of the latest event
        self.ending: Ending | None = None
        self.terminal: Event | None = None  # the event that states the ending
        self.started: Order | None = None  # of the latest start
        self.process: Process | None = None  # that this start names: the one that does the work
        self.tallies: dict[str, Tally] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Add events of one page, which are in their order."""
        if not events:
            return
        last = events[-1].order
        if self.last is None or last > self.last:
            self.last = last
        tallies = self.tallies
        for event in events:
            if event.producer is not None and event.number is not None:
                tally = tallies.get(event.producer) or self._tally(event.producer)
                tally.add(event.number)
            if event.type in ENDS:
                self._ended(event)
            elif event.type in START_TYPES:
                self._start(event.order, Process.of(event.payload.get("process")))
            elif event.type == CLOSED_TYPE:
                self._closed(event)

    def merge(self, other: Known) -> None:
        """Add what somebody else knows of the same run."""
        self.whole = self.whole or other.whole
        if other.last is not None and (self.last is None or other.last > self.last):
            self.last = other.last
        if other.terminal is not None:
            self._ended(other.terminal)
        if other.started is not None:
            self._start(other.started, other.process)
        for producer, tally in other.tallies.items():
            self._tally(producer).merge(tally)

    @property
    def status(self) -> Status:
        """How the run stands; pending before its first event."""
        if self.ending is not None:
            return self.ending.status
        return Status.PENDING if self.last is None else Status.RUNNING

    @property
    def is_complete(self) -> bool:
        """Whether every producer has closed and each of its events is here. Without producers, never.

        Nor while the history is not known: it may tell of others, which are still to say their last word.
        """
        return self.whole and bool(self.tallies) and all(each.is_complete for each in self.tallies.values())

    def _ended(self, event: Event) -> None:
        ending = Ending.of(event)
        if ending is not None and ending.beats(self.ending):
            self.ending, self.terminal = ending, event

    def _start(self, order: Order, process: Process | None) -> None:
        if self.started is None or order > self.started:
            self.started, self.process = order, process

    def _closed(self, event: Event) -> None:
        count = number_of(event.payload, "count")
        if event.producer is not None and count is not None:
            self._tally(event.producer).close(int(count))

    def _tally(self, producer: str) -> Tally:
        tally = self.tallies.get(producer)
        if tally is None:
            tally = self.tallies[producer] = Tally()
        return tally
