"""Another program sets a status that longwatch does not know, before, between and during polls."""

from __future__ import annotations

import pytest

from longwatch.executions.explain import explain_execution
from longwatch.executions.finder import Finder
from longwatch.executions.model import Execution
from longwatch.executions.poller import Claim, Result
from longwatch.executions.watcher import Watcher
from longwatch.model.run import Status
from tests.unit.executions.poller_harness import DONE, PollerHarness
from tests.unit.executions.scripted_source import types_of

WORDS = pytest.mark.parametrize(
    "word", ["CANCELLING", "PAUSED", "TIMEOUT", "COMPLETED_WITH_WARNINGS", "On hold", "stopped by ops"]
)


def stored(harness: PollerHarness, name: str) -> object:
    return (harness.record.stored or {}).get(name)


@WORDS
def test_a_status_set_during_the_last_response_survives_and_the_end_is_reported(
    harness: PollerHarness, word: str
) -> None:
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    harness.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    harness.write(Status=word)

    polled = poller.settle(claim, result)

    assert (polled.result, harness.record.status, harness.status) == (
        Result.ENDED,
        Status.SUCCEEDED,
        Status.SUCCEEDED,
    )
    assert (stored(harness, "Status"), harness.record.other_status, harness.record.closed) == (
        word,
        word,
        True,
    )


@WORDS
def test_a_status_set_between_the_verdict_and_the_close_survives(harness: PollerHarness, word: str) -> None:
    harness.source.set_jobs(DONE)
    harness.journal.after_append = lambda: harness.write(Status=word)

    polled = harness.poller().poll("x-1")

    assert polled.result is Result.ENDED
    assert (stored(harness, "Status"), harness.record.status, harness.record.closed) == (
        word,
        Status.SUCCEEDED,
        True,
    )
    assert types_of(harness.journal, "p-1/x-1").count("execution_ended") == 1
    assert harness.poller().poll("x-1").result is Result.CLOSED


@pytest.mark.parametrize("word", ["completed", "Completed", 5, 0, False, ["PAUSED"], {"at": "wave 2"}])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_status_is_preserved_to_the_letter(harness: PollerHarness, word: object, is_late: bool) -> None:
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    harness.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    if is_late:
        harness.journal.after_append = lambda: harness.write(Status=word)
    else:
        harness.write(Status=word)

    poller.settle(claim, result)

    assert (stored(harness, "Status"), harness.record.status, harness.record.closed) == (
        word,
        Status.SUCCEEDED,
        True,
    )


def test_it_is_polled_until_its_source_reports_an_end(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.write(Status="PAUSED")
    handed: list[Execution] = []

    harness.clock.advance(60)
    Finder(harness.store, handed.append, clock=harness.clock).tick()
    assert harness.poller().poll("x-1").result is Result.POLLED
    harness.clock.advance(60)
    harness.source.set_jobs(DONE)
    Watcher(harness.store, harness.poller(), clock=harness.clock).poll_due()

    assert [each.other_status for each in handed] == ["PAUSED"]
    assert (harness.record.status, stored(harness, "Status")) == (Status.SUCCEEDED, "PAUSED")
    assert not list(harness.store.open_executions())


def test_the_end_time_and_the_type_of_another_writer_stay(harness: PollerHarness) -> None:
    poller, ended = harness.poller(), harness.clock.now_ms() // 1000 + 7
    poller.poll("x-1")
    harness.write(Status="TIMEOUT", EndTime=ended, ExecutionType="FAILBACK")
    harness.source.set_jobs(DONE)

    seen = []
    for _ in range(6):
        harness.clock.advance(60)
        poller.poll("x-1")
        seen.append((stored(harness, "EndTime"), stored(harness, "ExecutionType")))

    assert harness.record.closed
    assert set(seen) == {(ended, "FAILBACK")}


def test_a_status_set_before_the_first_poll_of_an_added_execution_does_not_hide_it(
    harness: PollerHarness,
) -> None:
    harness.write(Status="PAUSED")

    assert harness.poller().poll("x-1").result is Result.POLLED


def test_an_end_that_another_writer_sets_is_reported_whatever_its_status(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.write(Status="Completed")

    Watcher(harness.store, harness.poller(), clock=harness.clock).poll_due()

    assert (harness.record.status, harness.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert (stored(harness, "Status"), list(harness.store.unsettled(harness.clock.now_ms()))) == (
        "Completed",
        [],
    )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "CANCELLING, set by another writer"),
        ({"UpdatedBy": "ops@example"}, "CANCELLING, set by another writer: ops@example (UpdatedBy)"),
    ],
)
def test_explain_names_who_set_the_status(harness: PollerHarness, more: dict[str, str], text: str) -> None:
    harness.write(Status="CANCELLING", **more)

    facts = {fact.about: fact.text for fact in explain_execution(harness.record, harness.clock.now_ms())}

    assert facts["status"] == text
    assert "phase" in facts
