"""Another program sets a status that longwatch does not know, before, between and during polls."""

from __future__ import annotations

import pytest

from longwatch.executions.explain import explain_execution
from longwatch.executions.finder import Finder
from longwatch.executions.model import Execution
from longwatch.executions.poller import Claim, Result
from longwatch.executions.watcher import Watcher
from longwatch.model.run import Status
from tests.unit.executions.desk import DONE, Desk
from tests.unit.executions.scripted_source import types_of

WORDS = pytest.mark.parametrize(
    "word", ["CANCELLING", "PAUSED", "TIMEOUT", "COMPLETED_WITH_WARNINGS", "On hold", "stopped by ops"]
)


def stored(desk: Desk, name: str) -> object:
    return (desk.record.stored or {}).get(name)


@WORDS
def test_a_status_set_during_the_last_response_survives_and_the_end_is_reported(
    desk: Desk, word: str
) -> None:
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    desk.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    desk.write(Status=word)

    polled = poller.settle(claim, result)

    assert (polled.result, desk.record.status, desk.status) == (
        Result.ENDED,
        Status.SUCCEEDED,
        Status.SUCCEEDED,
    )
    assert (stored(desk, "Status"), desk.record.other_status, desk.record.closed) == (word, word, True)


@WORDS
def test_a_status_set_between_the_verdict_and_the_close_survives(desk: Desk, word: str) -> None:
    desk.source.set_jobs(DONE)
    desk.journal.after_append = lambda: desk.write(Status=word)

    polled = desk.poller().poll("x-1")

    assert polled.result is Result.ENDED
    assert (stored(desk, "Status"), desk.record.status, desk.record.closed) == (word, Status.SUCCEEDED, True)
    assert types_of(desk.journal, "p-1/x-1").count("execution_ended") == 1
    assert desk.poller().poll("x-1").result is Result.CLOSED


@pytest.mark.parametrize("word", ["completed", "Completed", 5, 0, False, ["PAUSED"], {"at": "wave 2"}])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_status_is_preserved_to_the_letter(desk: Desk, word: object, is_late: bool) -> None:
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    desk.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    if is_late:
        desk.journal.after_append = lambda: desk.write(Status=word)
    else:
        desk.write(Status=word)

    poller.settle(claim, result)

    assert (stored(desk, "Status"), desk.record.status, desk.record.closed) == (word, Status.SUCCEEDED, True)


def test_it_is_polled_until_its_source_reports_an_end(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="PAUSED")
    handed: list[Execution] = []

    desk.clock.advance(60)
    Finder(desk.store, handed.append, clock=desk.clock).tick()
    assert desk.poller().poll("x-1").result is Result.POLLED
    desk.clock.advance(60)
    desk.source.set_jobs(DONE)
    Watcher(desk.store, desk.poller(), clock=desk.clock).poll_due()

    assert [each.other_status for each in handed] == ["PAUSED"]
    assert (desk.record.status, stored(desk, "Status")) == (Status.SUCCEEDED, "PAUSED")
    assert not list(desk.store.open_executions())


def test_the_end_time_and_the_type_of_another_writer_stay(desk: Desk) -> None:
    poller, ended = desk.poller(), desk.clock.now_ms() // 1000 + 7
    poller.poll("x-1")
    desk.write(Status="TIMEOUT", EndTime=ended, ExecutionType="FAILBACK")
    desk.source.set_jobs(DONE)

    seen = []
    for _ in range(6):
        desk.clock.advance(60)
        poller.poll("x-1")
        seen.append((stored(desk, "EndTime"), stored(desk, "ExecutionType")))

    assert desk.record.closed
    assert set(seen) == {(ended, "FAILBACK")}


def test_a_status_set_before_the_first_poll_of_an_added_execution_does_not_hide_it(desk: Desk) -> None:
    desk.write(Status="PAUSED")

    assert desk.poller().poll("x-1").result is Result.POLLED


def test_an_end_that_another_writer_sets_is_reported_whatever_its_status(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="Completed")

    Watcher(desk.store, desk.poller(), clock=desk.clock).poll_due()

    assert (desk.record.status, desk.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert (stored(desk, "Status"), list(desk.store.unsettled(desk.clock.now_ms()))) == ("Completed", [])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "CANCELLING, set by another writer"),
        ({"UpdatedBy": "ops@example"}, "CANCELLING, set by another writer: ops@example (UpdatedBy)"),
    ],
)
def test_explain_names_who_set_the_status(desk: Desk, more: dict[str, str], text: str) -> None:
    desk.write(Status="CANCELLING", **more)

    facts = {fact.about: fact.text for fact in explain_execution(desk.record, desk.clock.now_ms())}

    assert facts["status"] == text
    assert "phase" in facts
