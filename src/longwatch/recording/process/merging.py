"""One event told twice, on standard output and in the journal, is kept once.

A line waits a short while to see whether the journal shows the same event. Two events are the same if they
are of one type, moment, call, and agent or node; a second one of that description needs a second line and a
second event in the journal to be matched, so that equal tokens of one millisecond are all kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from longwatch.model.event import Event, text_of
from longwatch.recording.process.parsing import ForeignEvent

HOLD_SECONDS = 1.0
MAX_HELD = 10_000  # lines; beyond that the oldest are recorded without waiting
MAX_REMEMBERED = 50_000  # events of one channel that the other has not shown

Identity = tuple[str, str, int, str, str]  # run, type, moment, call, agent or node


def identity(event: Event | ForeignEvent) -> Identity:
    """What makes two tellings the same event, whichever of the spellings each of them has."""
    said = event.payload
    call_id = event.call_id or text_of(said, "call_id", "event_id")
    who = event.agent_name or text_of(said, "agent_name", "node_id")
    return (event.run_id, event.type, event.occurred_at, call_id or "", who or "")


@dataclass(slots=True)
class _Held:
    event: ForeignEvent
    due: float
    shown: bool = False  # the journal has it


class Merging:
    """Decides which lines to record, told of lines and of the journal's events as they come."""

    def __init__(self, *, hold_seconds: float = HOLD_SECONDS, max_held: int = MAX_HELD) -> None:
        self._hold_seconds = hold_seconds
        self._max_held = max_held
        self._held: deque[_Held] = deque()  # in the order they came, so the first is due first
        self._waiting: dict[Identity, deque[_Held]] = {}
        # How often the journal has shown an event that no line told of yet (above zero), or the other way
        # round (below zero).
        self._ahead: OrderedDict[Identity, int] = OrderedDict()

    def said(self, event: ForeignEvent, now: float) -> None:
        """A line tells of this event."""
        name = identity(event)
        if self._ahead.get(name, 0) > 0:
            self._count(name, -1)
            return
        held = _Held(event, now + self._hold_seconds)
        self._held.append(held)
        self._waiting.setdefault(name, deque()).append(held)

    def shown(self, event: Event) -> None:
        """The journal shows this event, written by somebody else than us."""
        name = identity(event)
        waiting = self._waiting.get(name)
        if waiting:
            waiting.popleft().shown = True
            if not waiting:
                del self._waiting[name]
        else:
            self._count(name, 1)

    def released(self, now: float) -> list[ForeignEvent]:
        """The lines that have waited long enough and must be recorded now, in the order they came."""
        return list(self._leaving(lambda held: held.due <= now))

    def rest(self) -> list[ForeignEvent]:
        """All lines that still wait, when there is nothing more to wait for."""
        return list(self._leaving(lambda held: True))

    @property
    def next_due(self) -> float | None:
        """When to look into the journal and call `released`; None while no line waits."""
        if len(self._held) > self._max_held:
            return float("-inf")
        return self._held[0].due if self._held else None

    def runs(self) -> set[str]:
        """The runs whose events the journal should be asked for."""
        return {held.event.run_id for held in self._held if not held.shown}

    def _leaving(self, may_leave: Callable[[_Held], bool]) -> Iterator[ForeignEvent]:
        while self._held and (may_leave(self._held[0]) or len(self._held) > self._max_held):
            held = self._held.popleft()
            if held.shown:
                continue
            name = identity(held.event)
            waiting = self._waiting[name]
            waiting.popleft()  # lines of one identity leave in the order they came
            if not waiting:
                del self._waiting[name]
            self._count(name, -1)
            yield held.event

    def _count(self, name: Identity, change: int) -> None:
        ahead = self._ahead.pop(name, 0) + change
        if ahead:
            self._ahead[name] = ahead
            if len(self._ahead) > MAX_REMEMBERED:
                self._ahead.popitem(last=False)
