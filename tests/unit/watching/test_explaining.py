"""Why an execution stands as it does."""

from __future__ import annotations

from longwatch.summaries import Status
from longwatch.watching.explaining import explained
from longwatch.watching.model import Execution, Verdict, Wave
from longwatch.watching.views import execution_view
from tests.unit.watching.making import (
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


def told(found: Execution) -> dict[str, str]:
    return {fact.about: fact.text for fact in explained(found, NOW)}


def test_an_open_one_tells_its_phase_its_last_fact_and_its_next_look() -> None:
    facts = told(
        drill(
            LAUNCHED,
            IN_PROGRESS,
            last_polled_at=NOW,
            last_answer_at=NOW,
            last_change_at=NOW,
            lease_holder="poller-1",
            lease_until=NOW + 1,
        )
    )

    assert facts["phase"] == "in_progress, asked about every 30 s"
    assert facts["waves"] == "1 of 1"
    assert facts["last change"] == "1 launched, 1 in_progress"
    assert facts["asked by"] == "poller-1"
    assert {"last answer", "next look", "deadline"} <= facts.keys()


def test_waves_that_may_come_are_a_reason() -> None:
    assert told(drill(total_waves=None))["waves"] == "1, and nobody has said whether more come"


def test_an_ended_one_tells_its_verdict_and_its_evidence() -> None:
    verdict = Verdict(Status.PARTIAL, NOW, EVIDENCE, "a; b", True, ("slow",), Status.FAILED)

    facts = list(explained(drill(verdict=verdict, closed=True), NOW))

    assert [(fact.about, fact.text) for fact in facts] == [
        ("verdict", "partial with 1 warning, late, corrects failed"),
        ("reason", "a"),
        ("reason", "b"),
        ("warning", "slow"),
        ("evidence", "drs:DescribeJobs"),
    ]


def test_one_that_another_program_keeps_is_not_asked_about() -> None:
    assert list(told(drill(closed=True))) == ["closed"]


def test_a_view_has_the_waves_the_servers_and_the_verdict() -> None:
    verdict = Verdict(Status.SUCCEEDED, NOW, EVIDENCE)

    view = execution_view(
        execution(Wave("one", (finished(LAUNCHED),)), verdict=verdict, closed=True), now_ms=NOW
    )

    assert (view["status"], view["servers"], view["servers_ended"]) == ("succeeded", 1, 1)
    assert view["waves"][0]["status"] == "succeeded"
    assert view["waves"][0]["servers"][0]["state"] == "launched"
    assert view["verdict"]["evidence"][0]["call"] == "drs:DescribeJobs"
    assert view["next_poll_at"] is None


def test_a_poller_that_did_not_come_back_is_named() -> None:
    facts = told(drill(LAUNCHED, lease_holder="poller-1", lease_until=NOW - 1))

    assert facts["asked by"] == "nobody; poller-1 did not come back"
    assert told(drill(LAUNCHED))["asked by"] == "nobody at this moment"


def test_what_is_due_or_was_never_answered_says_so() -> None:
    facts = told(drill(LAUNCHED, deadline_ms=MINUTE))

    assert facts["last answer"] == "none yet from drs"
    assert facts["next look"] == "due since"
    assert facts["deadline"] == "passed; its source decides"


def test_a_source_that_wants_to_be_left_alone_is_said_to() -> None:
    facts = told(
        drill(LAUNCHED, last_polled_at=NOW, next_poll_at=NOW + 40_000, failures=1, last_error="busy")
    )

    assert facts["phase"] == "in_progress, asked again after 40 s, as its source wishes"
    assert facts["last error"] == "busy"
