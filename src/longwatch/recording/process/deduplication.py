"""Merges the events that a process prints and those that it journals into one history without duplicates.

A line waits a short while to see whether the journal shows the same event. Two events are the same if they
are of one type, moment, call, and agent or node; a second one of that description needs a second line and a
second event in the journal to be matched, so that equal tokens of one millisecond are all kept.

Events that the process prints wait a moment in `Deduplicator`; a thread looks into the journal when the first of
them is due, and records those that the journal does not show. The same looks tell whether the process wrote
its own terminal event.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event, text_of
from longwatch.model.run import ENDS, Ending
from longwatch.recording.calls import report_fault
from longwatch.recording.process.output import ForeignEvent, OwnEvent
from longwatch.recording.recorder import Recorder

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


class Deduplicator:
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


READ_LIMIT = 2_000
MAX_RUNS = 100  # whose events are looked up; a process that tells of more has the rest recorded unseen
OWN_EVENTS_UNSTORED = 1_000  # then the process has to wait: this queue has no other bound


class DeduplicatingRecorder:
    """Records the events of a watched process, each once, whichever way it tells of them."""

    def __init__(
        self,
        recorder: Recorder,
        open_journal: Callable[[], Journal],
        *,
        run_id: str,
        attempt: str,
        trace_id: str,
        since_ms: int,
        tell: Callable[[str], None],
        clock: Clock,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._recorder = recorder
        self._open_journal = open_journal
        self._run_id = run_id
        self._attempt = attempt
        self._trace_id = trace_id
        self._since_ms = since_ms  # terminal events of an earlier run under the same id do not count
        self._tell = tell
        self._clock = clock
        self._merging = Deduplicator(hold_seconds=hold_seconds)
        self._changed = threading.Condition()
        self._finishing = False
        self._ending: Ending | None = None
        self._journal: Journal | None = None
        self._readable = True
        self._lines_taken = False
        self._told = False
        self._cursors: dict[str, Cursor] = {run_id: START}
        self._own_events = 0
        self._thread = threading.Thread(target=self._work, name="longwatch-channels", daemon=True)

    def start(self) -> None:
        """Begin to look after what is taken."""
        self._thread.start()

    def take(self, said: ForeignEvent | OwnEvent) -> None:
        """The process printed this event."""
        if isinstance(said, OwnEvent):
            self._take_own(said.event)
            return
        self._note_ending(said)
        self._lines_taken = True
        with self._changed:
            known = said.run_id in self._cursors or len(self._cursors) < MAX_RUNS
            if self._readable and not self._finishing and known:
                self._cursors.setdefault(said.run_id, START)
                before = self._merging.next_due
                self._merging.said(said, self._clock.monotonic())
                if self._merging.next_due != before:
                    self._changed.notify()
                return
        self._record([said])

    def finish(self, timeout_seconds: float) -> Ending | None:
        """Take one last thorough look and record what is left; returns how the process said its run ended."""
        with self._changed:
            self._finishing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            self._say_unreadable(f"no answer within {timeout_seconds:.0f} s")
            self._record_rest()
        return self._ending

    def _take_own(self, event: Event) -> None:
        self._note_ending(event)
        self._recorder.append(event)  # if it is in the journal already, storing it again changes nothing
        self._own_events += 1
        if self._own_events % OWN_EVENTS_UNSTORED == 0:
            self._recorder.flush()

    def _note_ending(self, said: Event | ForeignEvent) -> None:
        if said.run_id != self._run_id or said.type not in ENDS:
            return
        event = (
            said
            if isinstance(said, Event)
            else Event(
                run_id=said.run_id,
                event_id="-",
                type=said.type,
                occurred_at=said.occurred_at,
                payload=said.payload,
            )
        )
        ending = Ending.of(event)
        if ending is not None and self._is_ours(ending) and ending.beats(self._ending):
            self._ending = ending

    def _work(self) -> None:
        try:
            while self._wait_until_due():
                self._look(self._merging.runs, thorough=False)
                with self._changed:
                    released = self._merging.released(self._clock.monotonic())
                self._record(released)
            self._last_look()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not lose the lines that wait
            report_fault(error)
            self._readable = False
        finally:
            self._record_rest()
            if self._journal is not None:
                self._journal.close()

    def _wait_until_due(self) -> bool:
        """Wait until a line is due. False: the process has ended."""
        with self._changed:
            while not self._finishing:
                due = self._merging.next_due
                seconds = None if due is None else due - self._clock.monotonic()
                if seconds is not None and seconds <= 0:
                    return True
                self._changed.wait(seconds)
            return False

    def _last_look(self) -> None:
        with self._changed:
            lines_wait = bool(self._merging.runs())
        if self._ending is None and not lines_wait and self._readable:
            # The summary is one row however long the run; on DynamoDB it may not know of other producers.
            self._ending = self._summarised_ending()
        if self._ending is None or lines_wait:
            self._look(lambda: self._merging.runs() | {self._run_id}, thorough=True)

    def _summarised_ending(self) -> Ending | None:
        try:
            summary = self._opened().find_run(self._run_id)
        except LongwatchError as error:
            self._cannot_read(error)
            return None
        ending = summary.ending if summary is not None else None
        if ending is not None and self._is_ours(ending) and ending.order[0] >= self._since_ms:
            return ending
        return None

    def _is_ours(self, ending: Ending) -> bool:
        """Whether the process itself says it, of this attempt."""
        return ending.own_word and ending.attempt in (None, self._attempt)

    def _look(self, runs: Callable[[], Iterable[str]], *, thorough: bool) -> None:
        """Read what is new in the journal about these runs."""
        if not self._readable:
            return
        with self._changed:
            wanted = sorted(runs())
        try:
            for run_id in wanted:
                self._read(run_id, thorough=thorough)
        except LongwatchError as error:
            self._cannot_read(error)

    def _read(self, run_id: str, *, thorough: bool) -> None:
        more = True
        while more:
            page = self._opened().read(
                run_id, after=self._cursors[run_id], limit=READ_LIMIT, thorough=thorough
            )
            self._cursors[run_id] = page.cursor
            more = page.more
            ours = self._recorder.producer_of(run_id)
            for event in page.events:
                if event.producer is not None and event.producer == ours:
                    continue
                with self._changed:
                    self._merging.shown(event)
                if event.occurred_at >= self._since_ms:
                    self._note_ending(event)

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = self._open_journal()
        return self._journal

    def _cannot_read(self, error: LongwatchError) -> None:
        self._readable = isinstance(error, WorthAnotherTry)
        self._say_unreadable(str(error))

    def _say_unreadable(self, why: str) -> None:
        if self._lines_taken and not self._told:
            self._told = True
            self._tell(
                f"the journal cannot be read, so an event that the command both prints and stores itself "
                f"may be recorded twice: {why}"
            )

    def _record_rest(self) -> None:
        with self._changed:
            rest = self._merging.rest()
        self._record(rest)

    def _record(self, events: Iterable[ForeignEvent]) -> None:
        for event in events:
            trace_id = event.trace_id or (self._trace_id if event.run_id == self._run_id else None)
            self._recorder.record(
                event.run_id,
                event.type,
                event.payload,
                agent_name=event.agent_name,
                call_id=event.call_id,
                parent_call_id=event.parent_call_id,
                trace_id=trace_id,
                occurred_at=event.occurred_at,
            )
