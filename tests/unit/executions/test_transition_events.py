"""A change is reported once, also where a journal stores events by their time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from longwatch.executions.poller import Poller
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.transitions import append_new, event_ids, transition_events
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.event import Event
from longwatch.storage.urls import TableAddress
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.tables import SimulatedTable
from tests.unit.executions.samples import LAUNCHED, PENDING, START, drill, job
from tests.unit.executions.scripted_source import ScriptedSource, events_of

Opens = Callable[[], Journal]


def memory() -> Journal:
    return MemoryJournal(clock=FakeClock())


def table() -> Journal:
    simulated = SimulatedTable("workflow", page_items=3)
    return DynamoJournal(simulated, TableAddress(table="simulated"), clock=FakeClock())


def moved(at: int, servers: int = 1) -> list[Event]:
    """The events of a poller that sees these servers launched at this moment."""
    return list(transition_events(drill(*[PENDING] * servers), drill(*[LAUNCHED] * servers), at))


@pytest.mark.parametrize("open_journal", [memory, table])
def test_a_change_that_two_pollers_saw_at_different_moments_is_reported_once(open_journal: Opens) -> None:
    with open_journal() as journal:
        first = append_new(journal, moved(START + 1))
        second = append_new(journal, moved(START + 9))

        assert (first, second) == (1, 0)
        assert [event.occurred_at for event in events_of(journal, "p-1/x-1")] == [START + 1]


@pytest.mark.parametrize("open_journal", [memory, table])
def test_the_missing_events_of_a_batch_are_stored(open_journal: Opens) -> None:
    with open_journal() as journal:
        append_new(journal, moved(START, servers=2)[:1])

        assert append_new(journal, moved(START + 5, servers=20)) == 19
        assert len(event_ids(journal, "p-1/x-1")) == 20


def test_a_writer_that_is_faster_than_our_read_does_no_harm() -> None:
    class Overtaken(MemoryJournal):
        """Another writer appends between our read and our append."""

        def append(self, events: object) -> None:
            super().append(moved(START + 1))
            super().append(events)  # type: ignore[arg-type]

    journal = Overtaken(clock=FakeClock())

    append_new(journal, moved(START + 2, servers=2))

    assert [event.occurred_at for event in events_of(journal, "p-1/x-1")] == [START + 1, START + 2]


def test_without_events_nothing_is_read() -> None:
    journal = memory()

    assert append_new(journal, []) == 0


HOUR = 3600


@pytest.mark.parametrize(
    ("hours", "own_rule", "lives"),
    [(None, None, None), (None, 24 * HOUR, 24 * HOUR), (48, 24 * HOUR, 48 * HOUR), (0, 24 * HOUR, None)],
)
def test_a_transition_lives_as_long_as_the_setting_or_else_the_journal_requires(
    hours: float | None, own_rule: int | None, lives: int | None
) -> None:
    clock = FakeClock()
    journal = MemoryJournal(clock=clock)
    journal.default_ttl_seconds = own_rule
    store = MemoryExecutionStore()
    store.add(drill(PENDING, started_at=clock.now_ms()))
    poller = Poller(
        store, journal, {"drs": ScriptedSource(clock, job(PENDING))}, clock=clock, ttl_hours=hours
    )

    poller.poll(store.find()[0].execution_id)

    events = events_of(journal, store.find()[0].run_id)
    assert {event.ttl and event.ttl - event.occurred_at // 1000 for event in events} == {lives}
