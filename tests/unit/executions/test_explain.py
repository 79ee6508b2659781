"""Why an execution stands as it does."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.executions.explain import explain_execution
from longwatch.executions.model import Execution, Job, Stage, Verdict
from longwatch.executions.views import ExecutionView
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    EVIDENCE,
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    START,
    drill,
    execution,
    finished,
)

NOW = START + MINUTE


def facts_of(found: Execution) -> dict[str, str]:
    return {fact.about: fact.text for fact in explain_execution(found, NOW)}


def test_an_open_execution_shows_what_it_waits_for_its_last_response_and_its_next_poll() -> None:
    facts = facts_of(drill(LAUNCHED, IN_PROGRESS, last_polled_at=NOW, last_answer_at=NOW, last_change_at=NOW))

    assert facts == {
        "waiting for": "s-2 (in progress)",
        "phase": "in_progress, polled every 30 s",
        "waves": "1 of 1",
        "last change": "1 launched, 1 in progress",
        "last response": "drs",
        "lease": "none",
        "next poll": "in 30 s",
        "deadline": "in 29 min",
    }


def test_waves_that_may_come_are_a_reason() -> None:
    assert facts_of(drill(total_stages=None))["waves"] == "1, and more may follow"


def test_an_ended_execution_shows_its_verdict_and_its_evidence() -> None:
    verdict = Verdict(Status.PARTIAL, NOW, EVIDENCE, "a; b", True, ("slow",), Status.FAILED)

    facts = list(explain_execution(drill(verdict=verdict, closed=True), NOW))

    assert [(fact.about, fact.text) for fact in facts] == [
        ("verdict", "partial with 1 warning, late, corrects failed"),
        ("reason", "a"),
        ("reason", "b"),
        ("warning", "slow"),
        ("evidence", "drs:DescribeJobs"),
    ]


def test_an_execution_that_another_program_owns_is_not_polled() -> None:
    assert list(facts_of(drill(closed=True))) == ["closed"]


def test_a_view_has_the_waves_the_servers_and_the_verdict() -> None:
    verdict = Verdict(Status.SUCCEEDED, NOW, EVIDENCE)

    view = ExecutionView.of(
        execution(Stage("one", (finished(LAUNCHED),)), verdict=verdict, closed=True), now_ms=NOW
    )

    assert (view.status, view.servers, view.servers_ended) == ("succeeded", 1, 1)
    assert view.waves[0].status == "succeeded"
    assert view.waves[0].servers[0].state == "launched"
    assert view.verdict is not None
    assert view.verdict.evidence[0].call == "drs:DescribeJobs"
    assert view.next_poll_at is None


@pytest.mark.parametrize(
    ("lease", "text"),
    [
        ({}, "none"),
        ({"lease_holder": "poller-1", "lease_until": NOW + 60_000}, "poller-1, expires in 60 s"),
        (
            {"lease_holder": "poller-1", "lease_until": NOW - 90_000},
            "expired 90 s ago: poller-1 did not release it",
        ),
        (
            {"lease_holder": "poller-1", "lease_until": NOW + 60 * MINUTE},
            "poller-1, ignored: it expires too far ahead for a correct clock",
        ),
    ],
)
def test_the_lease_is_shown_with_its_holder_and_its_expiry(lease: dict[str, Any], text: str) -> None:
    assert facts_of(drill(LAUNCHED, **lease))["lease"] == text


@pytest.mark.parametrize(
    ("more", "text", "at"),
    [
        ({"last_polled_at": NOW - 10_000}, "in 20 s", NOW + 20_000),
        ({"last_polled_at": NOW, "failures": 2}, "in 10 s", NOW + 10_000),  # it backs off
        ({"last_polled_at": NOW, "next_poll_at": NOW + 90_000}, "in 90 s", NOW + 90_000),
        ({"last_polled_at": NOW - 31_000}, "now", NOW - 1000),
        ({}, "overdue by 60 s", START),
        (
            {"lease_holder": "poller-1", "lease_until": NOW + 40_000},
            "in progress; if it does not finish, in 40 s",
            NOW + 40_000,
        ),
    ],
)
def test_the_next_poll_is_shown_with_the_time_that_is_really_left(
    more: dict[str, Any], text: str, at: int
) -> None:
    (fact,) = [each for each in explain_execution(drill(LAUNCHED, **more), NOW) if each.about == "next poll"]

    assert (fact.text, fact.at) == (text, at)


def test_nothing_is_shown_as_a_response_that_was_not_received() -> None:
    planned = Stage("one", (Job("j-1"),), expected_items=("s-1", "s-2"))

    facts = facts_of(execution(planned, deadline_ms=MINUTE, last_change_at=NOW))

    assert facts["last response"] == "none yet from drs"
    assert facts["phase"] == "pending (no response yet), polled every 45 s"
    assert facts["last change"] == "2 not listed yet"
    assert facts["waiting for"] == "the first response from drs about job j-1"
    assert facts["deadline"] == "passed 0 s ago; the source decides"


def test_a_source_that_requests_a_pause_is_polled_after_it() -> None:
    facts = facts_of(
        drill(LAUNCHED, last_polled_at=NOW, next_poll_at=NOW + 40_000, failures=1, last_error="busy")
    )
    own = facts_of(drill(LAUNCHED, last_polled_at=NOW, last_answer_at=START, failures=2, last_error="busy"))

    assert facts["phase"] == "in_progress (no response yet), retried after 40 s, as drs requests"
    assert facts["last error"] == "busy"
    assert own["phase"] == "in_progress, retried after 10 s, after failed poll 2"
