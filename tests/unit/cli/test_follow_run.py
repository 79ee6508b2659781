from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from longwatch.cli.follow_run import WatchResult, follow_run, has_no_reader
from longwatch.clock import SYSTEM_CLOCK
from longwatch.errors import Unreachable
from longwatch.following import Reason, WatchState
from longwatch.journal.base import DEFAULT_READ_LIMIT
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import Status
from tests.unit.cli.samples import failing, research, session


class Seen:
    """A view that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.caught_up_after: int | None = None
        self.ticks = 0

    def take(self, event: Event, *, late: bool) -> None:
        self.events.append(event)

    def flush(self) -> None: ...

    def caught_up(self) -> None:
        self.caught_up_after = len(self.events)

    def tick(self, state: WatchState) -> None:
        self.ticks += 1


class BlindView(Seen):
    """A view whose terminal is gone."""

    def tick(self, state: WatchState) -> None:
        raise OSError("no terminal")


class AbsentJournal(MemoryJournal):
    """Does not respond."""

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        raise Unreachable("nobody is there")


@pytest.fixture
def journal() -> MemoryJournal:
    journal = MemoryJournal()
    for events in (research(), failing(), session()):
        journal.append(events)
    return journal


async def test_a_run_that_has_ended_is_read_completely(journal: MemoryJournal) -> None:
    view = Seen()

    outcome = await follow_run(journal, "wf-1a2b3c4d", view, clock=SYSTEM_CLOCK)

    assert outcome == WatchResult(Status.SUCCEEDED, Reason.ENDED)
    assert view.events == research()
    assert view.caught_up_after == 16
    assert view.ticks > 0


@pytest.mark.parametrize(
    ("run_id", "status"),
    [
        ("wf-1a2b3c4d", Status.SUCCEEDED),
        ("wf-1b00ffee", Status.FAILED),
        (session()[0].run_id, Status.RUNNING),
        ("wf-none", Status.PENDING),
    ],
)
async def test_at_the_timeout_the_journal_decides_and_not_the_clock(
    journal: MemoryJournal, run_id: str, status: Status
) -> None:
    view = Seen()

    outcome = await follow_run(journal, run_id, view, clock=SYSTEM_CLOCK, timeout_seconds=0.0)

    assert (outcome.status, outcome.reason, outcome.lost_contact) == (status, None, False)
    assert len({event.event_id for event in view.events}) == len(view.events)


async def test_a_journal_that_does_not_respond_at_the_timeout_leaves_the_status_unknown() -> None:
    outcome = await follow_run(AbsentJournal(), "wf-1", Seen(), clock=SYSTEM_CLOCK, timeout_seconds=0.0)

    assert outcome.lost_contact
    assert outcome.error == "nobody is there"


async def test_a_view_that_cannot_draw_ends_the_watch_with_its_error(journal: MemoryJournal) -> None:
    with pytest.raises(OSError, match="no terminal"):
        await follow_run(journal, session()[0].run_id, BlindView(), clock=SYSTEM_CLOCK)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(writer)


def test_a_pipe_without_a_reader_is_recognised(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    before = has_no_reader(writer)
    os.close(reader)

    assert (before, has_no_reader(writer)) == (False, True)
