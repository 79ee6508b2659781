"""A journal that fails on demand."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidEvent, JournalBusy, Unreachable
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.testing import FaultyJournal, MemoryJournal


def event(n: int, type: str = "step") -> Event:
    return Event(run_id="wf-1", event_id=f"e{n}", type=type, occurred_at=n)


def stored(journal: Journal) -> list[str]:
    return [each.event_id for each in journal.read("wf-1").events]


def test_without_faults_it_is_the_journal_it_wraps() -> None:
    memory = MemoryJournal("inner")
    with FaultyJournal(memory) as journal:
        journal.append([event(1)])

        assert stored(journal) == ["e1"]
        assert journal.find_run("wf-1") == memory.find_run("wf-1")
        assert journal.find_runs().runs == memory.find_runs().runs
        assert (journal.url, journal.default_ttl_seconds) == ("memory://inner", None)


def test_it_fails_as_often_as_requested_and_stores_nothing() -> None:
    journal = FaultyJournal()
    journal.fail(2, JournalBusy("locked"))

    for _ in range(2):
        with pytest.raises(JournalBusy, match="locked"):
            journal.append([event(1)])
    journal.append([event(1)])

    assert stored(journal) == ["e1"]
    assert journal.appends == 3


def test_it_fails_until_it_recovers() -> None:
    journal = FaultyJournal()
    journal.fail()

    for _ in range(5):
        with pytest.raises(Unreachable):
            journal.append([event(1)])
    journal.recover()
    journal.append([event(1)])

    assert stored(journal) == ["e1"]


def test_it_loses_the_response_but_not_the_events() -> None:
    journal = FaultyJournal()
    journal.time_out()

    with pytest.raises(Unreachable):
        journal.append([event(1)])

    assert stored(journal) == ["e1"]


def test_it_refuses_the_chosen_events() -> None:
    journal = FaultyJournal()
    journal.refuse(lambda each: each.type == "bad")

    with pytest.raises(InvalidEvent):
        journal.append([event(1), event(2, "bad")])

    assert stored(journal) == []
