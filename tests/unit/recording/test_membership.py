"""Every producer names its process and its attempt in its first event."""

from __future__ import annotations

import os

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.recording.membership import MAX_RUNS, Membership
from longwatch.recording.producers import Producers
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import EventDraft
from longwatch.settings import Settings
from tests.unit.recording.recorded import events_of

RUN = "wf-1"
ATTEMPT = "0000abcd"


@pytest.fixture
def membership(settings: Settings) -> Membership:
    return Membership(settings.outbox_path)


def test_a_start_names_the_process_its_outbox_and_the_attempt(
    configured: Recorder, journal: MemoryJournal
) -> None:
    with longwatch.run(run_id="wf-9") as run:
        pass
    configured.flush()

    start, end = events_of(journal, "wf-9")[:2]
    process = start.payload["process"]
    assert isinstance(process, dict)
    assert process.keys() >= {"id", "machine", "boot", "namespace", "pid", "started", "host", "outbox"}
    assert (process["pid"], process["outbox"]) == (os.getpid(), str(configured.settings.outbox_path))
    assert start.payload["attempt"] == end.payload["attempt"] == run.attempt


def test_starting_a_run_id_again_opens_a_new_attempt(configured: Recorder, journal: MemoryJournal) -> None:
    for _ in range(2):
        with longwatch.run(run_id="wf-9"):
            pass
    configured.flush()

    found = journal.find_run("wf-9")
    assert found is not None
    assert len({each.id for each in found.lifecycle.attempts}) == 2


def test_an_attempt_that_is_named_is_joined(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run(run_id="wf-9") as first, longwatch.run(run_id="wf-9", attempt=first.attempt):
        pass
    configured.flush()

    found = journal.find_run("wf-9")
    assert found is not None
    assert [each.id for each in found.lifecycle.attempts] == [first.attempt]


def test_an_invalid_attempt_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="eight hex digits"):
        longwatch.run(attempt="second")


@pytest.mark.parametrize(
    ("run_id", "attempt", "is_used"),
    [
        ("wf-9", ATTEMPT, True),
        ("wf-8", ATTEMPT, False),  # it belongs to another run
        ("wf-9", "not hex!", False),
        ("wf-9", "", False),
    ],
)
def test_the_environment_names_the_attempt_of_its_own_run_only(
    run_id: str, attempt: str, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-9")
    monkeypatch.setenv("LONGWATCH_ATTEMPT", attempt)

    assert (longwatch.run(run_id=run_id).attempt == attempt) == is_used


def test_a_process_that_started_the_run_does_not_join_it(membership: Membership) -> None:
    membership.start(RUN, ATTEMPT)

    assert membership.join_fields(RUN) is None


def test_a_forked_child_joins_the_attempt_of_its_parent(
    membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership.start(RUN, ATTEMPT)
    monkeypatch.setattr(os, "getpid", lambda: 1)

    membership.renew()

    fields = membership.join_fields(RUN)
    assert fields is not None
    assert fields["attempt"] == ATTEMPT
    assert fields["process"] == membership.process.fields
    assert membership.process.pid == 1


def test_a_run_is_inside_those_in_which_it_was_started(membership: Membership) -> None:
    membership.start("outer", ATTEMPT)
    membership.start("inner", ATTEMPT, outer_run_id="outer")

    assert membership.enclosing_runs("inner") == ["inner", "outer"]
    assert membership.enclosing_runs("unknown") == ["unknown"]


def test_only_so_many_runs_are_remembered(membership: Membership) -> None:
    for n in range(MAX_RUNS + 1):
        membership.start(f"wf-{n}", ATTEMPT)

    assert membership.join_fields("wf-0") is not None
    assert membership.join_fields("wf-1") is None


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("step", ["process_joined", "step"]),
        ("workflow_complete", ["process_joined", "workflow_complete"]),
        ("workflow_start", ["workflow_start"]),  # names its owner, or has one elsewhere
        ("process_joined", ["process_joined"]),
    ],
)
def test_the_first_event_of_another_producer_is_that_its_process_joined(
    type: str, expected: list[str], membership: Membership
) -> None:
    producers = Producers(max_payload_bytes=100_000, join_fields=membership.join_fields)
    events: list[Event] = []

    producers.add(EventDraft(RUN, type, 5, {}), events, ttl_seconds=None)
    producers.add(EventDraft(RUN, "more", 6, {}), events, ttl_seconds=None)

    assert [event.type for event in events] == [*expected, "more"]
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert {event.occurred_at for event in events[:-1]} == {5}


def test_a_process_that_has_left_joins_again(membership: Membership) -> None:
    producers = Producers(max_payload_bytes=100_000, join_fields=membership.join_fields)
    events: list[Event] = []

    for at in (1, 2):
        producers.add(EventDraft(RUN, "step", at, {}), events, ttl_seconds=None)
        events += producers.close_run(RUN, at, ttl_seconds=None)

    assert [event.type for event in events] == ["process_joined", "step", "producer_closed"] * 2
