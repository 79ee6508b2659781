"""Merges the events that a process prints and those that it journals into one history without duplicates.

A printed event waits a short while in the `Deduplicator`. When the first one is due, a thread reads the
journal and records the printed events that the journal does not have. The same reads show whether the
process wrote its own terminal event.

Two events are the same if type, time, call, and agent or node are equal. Each printed event matches at most
one journaled event, so that equal tokens of one millisecond are all recorded.
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
MAX_HELD = 10_000  # events; beyond that the oldest are recorded without waiting
MAX_REMEMBERED = 50_000  # events that only one of the two sides has shown

Identity = tuple[str, str, int, str, str]  # run, type, moment, call, agent or node


def identity_of(event: Event | ForeignEvent) -> Identity:
    """What a printed and a journaled copy of one event have in common, whichever spelling each uses."""
    payload = event.payload
    call_id = event.call_id or text_of(payload, "call_id", "event_id")
    agent = event.agent_name or text_of(payload, "agent_name", "node_id")
    return (event.run_id, event.type, event.occurred_at, call_id or "", agent or "")


@dataclass(slots=True)
class _HeldEvent:
    event: ForeignEvent
    due: float
    is_journaled: bool = False


class Deduplicator:
    """Decides which printed events to record, given printed and journaled events as they arrive."""

    def __init__(self, *, hold_seconds: float = HOLD_SECONDS, max_held: int = MAX_HELD) -> None:
        self._hold_seconds = hold_seconds
        self._max_held = max_held
        self._held: deque[_HeldEvent] = deque()  # in order of arrival, so the first is due first
        self._waiting: dict[Identity, deque[_HeldEvent]] = {}
        # Above zero: journaled events that were not printed yet; below zero: printed ones not journaled yet.
        self._ahead: OrderedDict[Identity, int] = OrderedDict()

    def add_printed(self, event: ForeignEvent, now: float) -> None:
        name = identity_of(event)
        if self._ahead.get(name, 0) > 0:
            self._count(name, -1)
            return
        held = _HeldEvent(event, now + self._hold_seconds)
        self._held.append(held)
        self._waiting.setdefault(name, deque()).append(held)

    def add_journaled(self, event: Event) -> None:
        """Add an event that the journal has from another producer than this process."""
        name = identity_of(event)
        waiting = self._waiting.get(name)
        if waiting:
            waiting.popleft().is_journaled = True
            if not waiting:
                del self._waiting[name]
        else:
            self._count(name, 1)

    def take_due(self, now: float) -> list[ForeignEvent]:
        """The printed events that have waited long enough and must be recorded now, in order of arrival."""
        return list(self._leaving(lambda held: held.due <= now))

    def take_all(self) -> list[ForeignEvent]:
        """All printed events that still wait, when the process has ended."""
        return list(self._leaving(lambda held: True))

    @property
    def next_due(self) -> float | None:
        """When to read the journal and call `take_due`; None while no event waits."""
        if len(self._held) > self._max_held:
            return float("-inf")
        return self._held[0].due if self._held else None

    def runs(self) -> set[str]:
        """The runs to read from the journal."""
        return {held.event.run_id for held in self._held if not held.is_journaled}

    def _leaving(self, may_leave: Callable[[_HeldEvent], bool]) -> Iterator[ForeignEvent]:
        while self._held and (may_leave(self._held[0]) or len(self._held) > self._max_held):
            held = self._held.popleft()
            if held.is_journaled:
                continue
            name = identity_of(held.event)
            waiting = self._waiting[name]
            waiting.popleft()  # events of one identity leave in order of arrival
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
MAX_RUNS = 100  # that are deduplicated; events of further runs are recorded at once
OWN_EVENTS_UNSTORED = 1_000  # then the process has to wait: the recorder does not bound this queue otherwise


class DeduplicatingRecorder:
    """Records each event of a supervised process once, whether it was printed, journaled or both."""

    def __init__(
        self,
        recorder: Recorder,
        open_journal: Callable[[], Journal],
        *,
        run_id: str,
        attempt: str,
        trace_id: str,
        since_ms: int,
        warn: Callable[[str], None],
        clock: Clock,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._recorder = recorder
        self._open_journal = open_journal
        self._run_id = run_id
        self._attempt = attempt
        self._trace_id = trace_id
        self._since_ms = since_ms  # terminal events of an earlier run under the same id do not count
        self._warn = warn
        self._clock = clock
        self._deduplicator = Deduplicator(hold_seconds=hold_seconds)
        self._changed = threading.Condition()
        self._finishing = False
        self._ending: Ending | None = None
        self._journal: Journal | None = None
        self._readable = True
        self._has_lines = False
        self._has_warned = False
        self._cursors: dict[str, Cursor] = {run_id: START}
        self._own_events = 0
        self._thread = threading.Thread(target=self._work, name="longwatch-channels", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, printed: ForeignEvent | OwnEvent) -> None:
        if isinstance(printed, OwnEvent):
            self._record_own(printed.event)
            return
        self._update_ending(printed)
        self._has_lines = True
        with self._changed:
            is_followed = printed.run_id in self._cursors or len(self._cursors) < MAX_RUNS
            if self._readable and not self._finishing and is_followed:
                self._cursors.setdefault(printed.run_id, START)
                before = self._deduplicator.next_due
                self._deduplicator.add_printed(printed, self._clock.monotonic())
                if self._deduplicator.next_due != before:
                    self._changed.notify()
                return
        self._record([printed])

    def finish(self, timeout_seconds: float) -> Ending | None:
        """Read the journal a last time, record the rest, and return the ending that the process reported."""
        with self._changed:
            self._finishing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            self._warn_unreadable(f"no response within {timeout_seconds:.0f} s")
            self._record_rest()
        return self._ending

    def _record_own(self, event: Event) -> None:
        self._update_ending(event)
        self._recorder.append(event)  # if it is in the journal already, storing it again changes nothing
        self._own_events += 1
        if self._own_events % OWN_EVENTS_UNSTORED == 0:
            self._recorder.flush()

    def _update_ending(self, event: Event | ForeignEvent) -> None:
        if event.run_id != self._run_id or event.type not in ENDS:
            return
        if isinstance(event, ForeignEvent):
            event = Event(
                run_id=event.run_id,
                event_id="-",
                type=event.type,
                occurred_at=event.occurred_at,
                payload=event.payload,
            )
        ending = Ending.of(event)
        if ending is not None and self._is_ours(ending) and ending.beats(self._ending):
            self._ending = ending

    def _work(self) -> None:
        try:
            while self._wait_until_due():
                self._poll(self._deduplicator.runs, thorough=False)
                with self._changed:
                    due = self._deduplicator.take_due(self._clock.monotonic())
                self._record(due)
            self._poll_last()
        except Exception as error:  # noqa: BLE001 - a bug in longwatch must not lose the events that wait
            report_fault(error)
            self._readable = False
        finally:
            self._record_rest()
            if self._journal is not None:
                self._journal.close()

    def _wait_until_due(self) -> bool:
        """Wait until an event is due. False: the process has ended."""
        with self._changed:
            while not self._finishing:
                due = self._deduplicator.next_due
                seconds = None if due is None else due - self._clock.monotonic()
                if seconds is not None and seconds <= 0:
                    return True
                self._changed.wait(seconds)
            return False

    def _poll_last(self) -> None:
        with self._changed:
            events_wait = bool(self._deduplicator.runs())
        if self._ending is None and not events_wait and self._readable:
            # The summary is one row however long the run; on DynamoDB it may lack other producers.
            self._ending = self._summary_ending()
        if self._ending is None or events_wait:
            self._poll(lambda: self._deduplicator.runs() | {self._run_id}, thorough=True)

    def _summary_ending(self) -> Ending | None:
        try:
            summary = self._open_once().find_run(self._run_id)
        except LongwatchError as error:
            self._on_read_failure(error)
            return None
        ending = summary.ending if summary is not None else None
        if ending is not None and self._is_ours(ending) and ending.order[0] >= self._since_ms:
            return ending
        return None

    def _is_ours(self, ending: Ending) -> bool:
        """Whether the process itself reported this ending, for this attempt."""
        return ending.own_word and ending.attempt in (None, self._attempt)

    def _poll(self, runs: Callable[[], Iterable[str]], *, thorough: bool) -> None:
        """Read new events of these runs from the journal."""
        if not self._readable:
            return
        with self._changed:
            wanted = sorted(runs())
        try:
            for run_id in wanted:
                self._read(run_id, thorough=thorough)
        except LongwatchError as error:
            self._on_read_failure(error)

    def _read(self, run_id: str, *, thorough: bool) -> None:
        more = True
        while more:
            page = self._open_once().read(
                run_id, after=self._cursors[run_id], limit=READ_LIMIT, thorough=thorough
            )
            self._cursors[run_id] = page.cursor
            more = page.more
            ours = self._recorder.producer_of(run_id)
            for event in page.events:
                if event.producer is not None and event.producer == ours:
                    continue
                with self._changed:
                    self._deduplicator.add_journaled(event)
                if event.occurred_at >= self._since_ms:
                    self._update_ending(event)

    def _open_once(self) -> Journal:
        if self._journal is None:
            self._journal = self._open_journal()
        return self._journal

    def _on_read_failure(self, error: LongwatchError) -> None:
        self._readable = isinstance(error, WorthAnotherTry)
        self._warn_unreadable(str(error))

    def _warn_unreadable(self, reason: str) -> None:
        if self._has_lines and not self._has_warned:
            self._has_warned = True
            self._warn(
                f"the journal cannot be read: {reason}. An event that the command both prints and stores "
                "itself may be recorded twice."
            )

    def _record_rest(self) -> None:
        with self._changed:
            rest = self._deduplicator.take_all()
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
