"""What a watch knows of its run: how it ended, which events are missing, which process does the work.

A small part of the fold, in bounded memory: a run of a million events is followed with a few ranges of
numbers. Adding an event twice changes nothing, so what several followers know can be put together.
"""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.events import Event, Order, number_of
from longwatch.numbering import Numbers
from longwatch.processes import Process
from longwatch.runs import ENDS, Ending, ProducerTally, Status

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
        self.tallies: dict[str, ProducerTally] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Add events of one page, which are in their order."""
        if not events:
            return
        last = events[-1].order
        if self.last is None or last > self.last:
            self.last = last
        numbers: dict[str, list[int]] = {}
        for event in events:
            if event.producer is not None and event.number is not None:
                seen = numbers.get(event.producer)
                if seen is None:
                    numbers[event.producer] = [event.number]
                else:
                    seen.append(event.number)
            if event.type in ENDS:
                self._ended(event)
            elif event.type in START_TYPES:
                self._start(event.order, Process.of(event.payload.get("process")))
            elif event.type == CLOSED_TYPE:
                self._closed(event)
        for producer, seen in numbers.items():
            self._tally(producer, ProducerTally(Numbers.of(seen)))

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
            self._tally(producer, tally)

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
        return (
            self.whole
            and bool(self.tallies)
            and all(tally.count is not None and not tally.missing() for tally in self.tallies.values())
        )

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
            self._tally(event.producer, ProducerTally(count=int(count)))

    def _tally(self, producer: str, tally: ProducerTally) -> None:
        known = self.tallies.get(producer)
        self.tallies[producer] = tally if known is None else known.merged(tally)
