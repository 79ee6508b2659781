"""Stories of two writers, a reader and outages, for hypothesis to make up."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from longwatch.errors import JournalUnavailable
from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event, new_event_id
from longwatch.testing.clock import FakeClock

MOST_SKEW_MS = 14_000  # two clocks this far apart stay inside the 30 s within which nothing is announced
HOURS = 3600.0


@dataclass(frozen=True)
class Write:
    """A writer records some events, all at one moment of its own clock."""

    writer: int
    count: int


@dataclass(frozen=True)
class Read:
    """The reader reads one page."""

    limit: int


@dataclass(frozen=True)
class Restart:
    """The reader's process ends; another resumes from the text of its cursor."""


@dataclass(frozen=True)
class Pass:
    """Time passes."""

    seconds: float


@dataclass(frozen=True)
class CutOff:
    """A writer can no longer reach the journal: its events wait in its outbox."""

    writer: int


@dataclass(frozen=True)
class Ship:
    """The outbox of a writer is shipped in two parts, with a poll by the reader between, and announced."""

    writer: int
    poll_between: bool


Step = Write | Read | Restart | Pass | CutOff | Ship


@dataclass(frozen=True)
class Story:
    """What happens, and how wrong the two writers' clocks are."""

    skews: tuple[int, int]
    steps: tuple[Step, ...]


def stories() -> st.SearchStrategy[Story]:
    """Any order of appends, reads, restarts, outages and shipments."""
    writer = st.integers(0, 1)
    step = st.one_of(
        st.builds(Write, writer, st.integers(1, 4)),
        st.builds(Write, writer, st.integers(1, 4)),
        st.builds(Read, st.sampled_from([1, 2, 7, 100])),
        st.builds(Restart),
        st.builds(Pass, st.sampled_from([0.001, 0.4, 1.9, 2.1, 14.0, 16.0, 31.0])),
        st.builds(CutOff, writer),
        st.builds(Ship, writer, st.booleans()),
    )
    skew = st.integers(-MOST_SKEW_MS, MOST_SKEW_MS)
    return st.builds(Story, st.tuples(skew, skew), st.lists(step, min_size=3, max_size=25).map(tuple))


@dataclass
class Writer:
    """One recorder: numbers its events, and keeps those that it cannot store."""

    name: str
    run_id: str
    skew_ms: int
    clock: FakeClock
    journal: Journal
    written: list[Event] = field(default_factory=list)
    outbox: list[Event] = field(default_factory=list)
    cut_off: bool = False

    def write(self, count: int) -> None:
        at = self.clock.now_ms() + self.skew_ms
        events = [self._event(at) for _ in range(count)]
        if self.cut_off:
            self.outbox += events
        else:
            append(self.journal, events)

    def ship(self, poll: Callable[[], None]) -> list[Event]:
        """Store what waited, then announce it. Returns the announcements."""
        waiting, self.outbox, self.cut_off = self.outbox, [], False
        if not waiting:
            return []
        middle = len(waiting) // 2
        append(self.journal, waiting[:middle])
        poll()
        append(self.journal, waiting[middle:])
        at = self.clock.now_ms()
        times = [event.occurred_at for event in waiting]
        announcement = Event(
            run_id=self.run_id,
            event_id=new_event_id(at),
            type="late_batch",
            occurred_at=at,
            payload={"from": min(times), "to": max(times), "count": len(times)},
        )
        append(self.journal, [announcement])
        return [announcement]

    def _event(self, at: int) -> Event:
        event = Event(
            run_id=self.run_id,
            event_id=new_event_id(at),
            type="tool_call",
            occurred_at=at,
            payload={"n": len(self.written) + 1},
            producer=self.name,
            number=len(self.written) + 1,
        )
        self.written.append(event)
        return event


class FollowedRun:
    """Plays a story on a journal and keeps what its reader was given."""

    def __init__(self, open_again: Callable[[], Journal], clock: FakeClock, story: Story) -> None:
        self.run_id = f"wf-{secrets.token_hex(6)}"
        self.seen: list[str] = []
        self._open_again = open_again
        self._clock = clock
        self._reader = open_again()
        self._cursor = START
        self._announcements: list[Event] = []
        self._story = story
        self._writers = [
            Writer(f"producer-{index}", self.run_id, skew, clock, open_again())
            for index, skew in enumerate(story.skews)
        ]

    def play(self) -> None:
        """The story, then everything is shipped, and the reader reads until it may stop."""
        for step in self._story.steps:
            self._do(step)
        for index in (0, 1):
            self._do(Pass(3 * HOURS))
            self._do(Ship(index, poll_between=True))
        self._read_out()

    @property
    def written(self) -> list[str]:
        """The ids of all events there are."""
        events = [event for writer in self._writers for event in writer.written] + self._announcements
        return [event.event_id for event in events]

    def _do(self, step: Step) -> None:
        match step:
            case Write(writer, count):
                self._writers[writer].write(count)
            case Read(limit):
                self._read(limit)
            case Restart():
                self._reader = self._open_again()
                self._cursor = Cursor(str(self._cursor))
            case Pass(seconds):
                self._clock.advance(seconds)
            case CutOff(writer):
                self._writers[writer].cut_off = True
            case Ship(writer, poll_between):
                self._announcements += self._writers[writer].ship(
                    lambda: self._do(Read(3)) if poll_between else None
                )

    def _read(self, limit: int, *, thorough: bool = False) -> bool:
        page = self._reader.read(self.run_id, after=self._cursor, limit=limit, thorough=thorough)
        assert len(page.events) <= limit
        assert [event.order for event in page.events] == sorted(event.order for event in page.events)
        self.seen += [event.event_id for event in page.events]
        self._cursor = page.cursor
        return page.more

    def _read_out(self) -> None:
        while self._read(5, thorough=True):
            pass


def append(journal: Journal, events: list[Event], *, tries: int = 50) -> None:
    """Append as a recorder does: again and again until the journal responds."""
    for _ in range(tries - 1):
        try:
            journal.append(events)
        except JournalUnavailable:
            continue
        return
    journal.append(events)
