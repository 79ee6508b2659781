"""A watch of another system that is disturbed: by the journal, by others who watch, by its own time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from longwatch.cli.follow_run import WatchResult
from longwatch.cli.watch_external import SourceWatch, WatchLimits
from longwatch.errors import JournalBusy, Throttled
from longwatch.executions.model import (
    Execution,
    ExecutionKey,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    WorkItem,
)
from longwatch.executions.poller import Poller
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.following import Reason
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import Status
from longwatch.testing import FakeClock, MemoryJournal

RUNNING = (JobState.STARTED, ItemState.IN_PROGRESS)
DONE = (JobState.FINISHED, ItemState.DONE)


class Scripted:
    """A source that returns its responses one after the other, and repeats the last."""

    name = "scripted"

    def __init__(self, clock: FakeClock, *states: tuple[JobState, ItemState] | SourceProblem) -> None:
        self.polled_at: list[int] = []
        self._clock = clock
        self._states = list(states)
        self.pause_seconds: float | None = None  # with every response

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        now = self._clock.now_ms()
        self.polled_at.append(now)
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, SourceProblem):
            return {each.key: state for each in executions}
        job = Job("j-1", state[0], (WorkItem("s-1", state[1]),))
        pause = self.pause_seconds
        next_at = None if pause is None else now + round(pause * 1000)
        response = SourceResponse(
            "scripted:Ask", now, {"j-1": job}, next_at=next_at, retry_after_seconds=pause
        )
        return {each.key: response for each in executions}

    def close(self) -> None:
        """Nothing is open."""


class View:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.notes: list[str] = []

    def take(self, events: Sequence[Event]) -> None:
        self.types += [event.type for event in events]

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tick(self, execution: Execution, *, now_ms: int) -> None:
        """Pictures are not of interest here."""


class BusyStore(MemoryExecutionStore):
    """A store that does not take the next writes."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 0

    def update(self, execution: Execution) -> Execution:
        if self.busy:
            self.busy -= 1
            raise JournalBusy("another process writes")
        return super().update(execution)


class UnreadJournal(MemoryJournal):
    """A journal that can not be read for a while."""

    unread = False

    def read(self, run_id: str, *, after: Cursor = START, limit: int = 500, thorough: bool = False) -> Page:
        if self.unread:
            self.unread = False
            raise Throttled("too many reads")
        return super().read(run_id, after=after, limit=limit, thorough=thorough)


class Scene:
    def __init__(self, *states: tuple[JobState, ItemState] | SourceProblem) -> None:
        self.clock, self.store, self.view = FakeClock(), BusyStore(), View()
        self.source = Scripted(self.clock, *states)
        self.journal = journal = UnreadJournal()
        poller = Poller(self.store, journal, {"scripted": self.source}, clock=self.clock)
        self.watch = SourceWatch(self.store, journal, poller, self.view, clock=self.clock)
        self.execution = self.store.add(
            Execution(
                execution_id="x-1",
                plan_id="p-1",
                source="scripted",
                mode=Mode.JOB,
                started_at=self.clock.now_ms(),
                stages=(Stage("only", (Job("j-1"),)),),
                total_stages=1,
            )
        )

    def run(self, **patience: Any) -> WatchResult:
        return self.watch.run(self.execution, WatchLimits(**patience))

    def poll_times(self) -> Iterator[float]:
        return ((at - self.execution.started_at) / 1000 for at in self.source.polled_at)


def test_a_busy_store_is_reported_once_and_retried() -> None:
    scene = Scene(RUNNING, DONE)
    scene.store.busy = 3

    outcome = scene.run()

    assert outcome == WatchResult(Status.SUCCEEDED, Reason.ENDED)
    assert scene.view.notes == ["longwatch: another process writes; retrying"]
    assert scene.view.types[-1] == "execution_ended"


def test_events_that_could_not_be_read_are_shown_later() -> None:
    scene = Scene(RUNNING, DONE)
    scene.journal.unread = True

    outcome = scene.run()

    assert outcome.status is Status.SUCCEEDED
    assert scene.view.notes == ["longwatch: too many reads; retrying"]
    assert scene.view.types[0] == "execution_started"
    assert scene.view.types[-1] == "execution_ended"


def test_while_another_process_polls_it_waits_and_then_polls_itself() -> None:
    scene = Scene(DONE)
    until = scene.clock.now_ms() + 5_000
    scene.store.update(replace(scene.execution, lease_holder="other", lease_until=until))

    outcome = scene.run()

    assert outcome.status is Status.SUCCEEDED
    assert list(scene.poll_times()) == [5.0]


def test_a_timeout_while_another_process_polls_leaves_it_running() -> None:
    scene = Scene(RUNNING)
    until = scene.clock.now_ms() + 60_000
    scene.store.update(replace(scene.execution, lease_holder="other", lease_until=until))

    assert scene.run(timeout_seconds=3.0) == WatchResult(Status.RUNNING)
    assert scene.source.polled_at == []


def test_a_timeout_while_the_store_is_unavailable_leaves_the_status_unknown() -> None:
    scene = Scene(RUNNING)
    scene.watch.run(scene.execution, WatchLimits(timeout_seconds=0.0))
    scene.store.busy = 1_000

    outcome = scene.run(timeout_seconds=3.0)

    assert outcome.status is Status.RUNNING
    assert "another process writes" in (outcome.error or "")


def test_an_end_that_another_process_has_found_is_reported_here_too() -> None:
    scene = Scene(DONE)
    other = Poller(scene.store, MemoryJournal(), {"scripted": scene.source}, clock=scene.clock)
    other.poll("x-1")

    assert scene.run() == WatchResult(Status.SUCCEEDED, Reason.ENDED)
    assert len(scene.source.polled_at) == 1


def test_silence_is_counted_from_the_last_change() -> None:
    scene = Scene(RUNNING)

    outcome = scene.run(silent_after_seconds=40.0)

    assert outcome == WatchResult(Status.RUNNING, Reason.SILENT, "nothing new for 45 s")


def test_a_source_that_does_not_respond_is_polled_less_and_less_often() -> None:
    scene = Scene(RUNNING, SourceProblem("no"), SourceProblem("no"), SourceProblem("no"), DONE)

    scene.run()

    assert list(scene.poll_times()) == [0.0, 15.0, 20.0, 30.0, 50.0]
    assert scene.view.notes == [
        "longwatch: scripted: no response: no. Retrying",
        "longwatch: scripted: responds again after 35.0 s",
    ]


def test_a_timeout_while_the_source_requests_a_pause_sends_no_request() -> None:
    scene = Scene(RUNNING)
    scene.source.pause_seconds = 30.0

    assert scene.run(timeout_seconds=3.0) == WatchResult(Status.RUNNING)
    assert list(scene.poll_times()) == [0.0]
