"""Both channels of a watched process, standard output and the journal, kept as one history without doubles.

Events that the process prints wait a moment in `Merging`; a thread looks into the journal when the first of
them is due, and records those that the journal does not show. The same looks tell whether the process wrote
its own terminal event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event
from longwatch.model.run import ENDS, Ending
from longwatch.recording.calls import tell_of_fault
from longwatch.recording.process.merging import HOLD_SECONDS, Merging
from longwatch.recording.process.parsing import ForeignEvent, OwnEvent
from longwatch.recording.recorder import Recorder

READ_LIMIT = 2_000
MAX_RUNS = 100  # whose events are looked up; a process that tells of more has the rest recorded unseen
OWN_EVENTS_UNSTORED = 1_000  # then the process has to wait: this queue has no other bound


class Channels:
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
        self._merging = Merging(hold_seconds=hold_seconds)
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
            tell_of_fault(error)
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
