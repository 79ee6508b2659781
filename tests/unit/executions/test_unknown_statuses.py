"""A status that no table has is never an end: in any field, from any source, at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.executions.explain import conditions, explain_execution
from longwatch.executions.model import Execution, Job, JobState, Mode, Stage
from longwatch.executions.outcomes import decide_verdict
from longwatch.executions.responses import apply_response
from longwatch.executions.sources.declarations import Declaration, Meaning
from longwatch.executions.sources.drs import ACTION_STATES, JOB_STATES, SERVER_STATES, parse_job
from longwatch.executions.sources.mapping import RawJob, map_job, map_status, mark_superseded, new_execution
from longwatch.executions.sources.shipped import AWS, HTTP
from longwatch.executions.stores.records import parse_record, to_record
from tests.unit.executions.samples import EVIDENCE, MINUTE, START, execution, response

HOURS_LATER = START + 1000 * MINUTE
POLLS = 5
MAPPED = {*JOB_STATES, *SERVER_STATES, *ACTION_STATES}
UNKNOWN_WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(
    lambda word: word not in MAPPED
)


def polled(updated: Execution, job: Job) -> Execution:
    """The execution after several responses over hours, each stored in a record in between."""
    for number in range(POLLS):
        updated = apply_response(updated, response(START + number * 250 * MINUTE, job))
        updated = parse_record(to_record(updated))
    return updated


def described(job: str, server: str, action: str, instance_id: str | None) -> dict[str, Any]:
    return {
        "jobID": "j-1",
        "status": job,
        "participatingServers": [
            {
                "sourceServerID": "s-1",
                "launchStatus": server,
                "launchActionsStatus": {"runs": [{"runId": "r-1", "status": action}]},
                **({"recoveryInstanceID": instance_id} if instance_id else {}),
            }
        ],
    }


@settings(max_examples=150, deadline=None)
@given(
    word=UNKNOWN_WORDS,
    field=st.sampled_from(["job", "server", "action"]),
    instance_id=st.sampled_from([None, "i-1"]),
    mode=st.sampled_from(Mode),
)
def test_an_unknown_status_of_a_drs_job_never_ends_it(
    word: str, field: str, instance_id: str | None, mode: Mode
) -> None:
    if field == "action":
        mode = Mode.RECOVERY  # in other modes launch actions decide nothing
    statuses = {"job": "COMPLETED", "server": "LAUNCHED", "action": "SUCCEEDED", field: word}
    job = parse_job(described(**statuses, instance_id=instance_id))

    updated = polled(execution(Stage("one", (Job("j-1"),)), mode=mode), job)

    assert decide_verdict(updated, EVIDENCE, HOURS_LATER) is None
    assert list(updated.unknown_statuses()) == [word]


@pytest.mark.parametrize("declaration", [*AWS.values(), HTTP], ids=lambda each: each.name)
def test_an_unknown_status_of_any_declared_source_never_ends_it(declaration: Declaration) -> None:
    for mapped_word in [*declaration.statuses, "HIBERNATING"]:
        first = RawJob({}, mapped_word)
        mapped = map_status(declaration, first)
        assert mapped is not None
        watched = new_execution(declaration, "x", first, mapped, region=None, account=None, now=START)
        later = RawJob({}, "HIBERNATING")
        mapped = map_status(declaration, later)
        assert mapped is not None
        (job,) = watched.stages[0].jobs

        updated = polled(watched, map_job(job, mark_superseded(declaration, watched, later, mapped)))

        assert mapped.meaning is None
        assert decide_verdict(updated, EVIDENCE, HOURS_LATER) is None


def test_a_condition_names_an_unknown_status_and_what_reports_it() -> None:
    job = parse_job(described("ARCHIVED", "MELTING", "PAUSED", None))
    updated = apply_response(execution(Stage("one", (Job("j-1"),))), response(START, job))

    messages = [each.message for each in conditions(updated, START) if each.name == "unknown status"]

    assert messages == [
        "Unknown status 'ARCHIVED' of job j-1, treated as running.",
        "Unknown status 'MELTING' of s-1, treated as running.",
        "Unknown status 'PAUSED' of launch action action 1 of s-1, treated as running.",
    ]
    assert messages == [
        each.text for each in explain_execution(updated, START) if each.about == "unknown status"
    ]


def test_many_servers_with_one_unknown_status_are_counted() -> None:
    servers = [{"sourceServerID": f"s-{n}", "launchStatus": "MELTING"} for n in range(1, 6)]
    job = parse_job({"jobID": "j-1", "status": "STARTED", "participatingServers": servers})
    updated = apply_response(execution(Stage("one", (Job("j-1"),))), response(START, job))

    (found,) = conditions(updated, START)

    assert found.message == "Unknown status 'MELTING' of s-1, s-2, s-3 and 2 more, treated as running."


def test_a_record_with_statuses_of_a_later_version_is_read_and_stays_open() -> None:
    since = START // 1000
    record = {
        "ExecutionId": "x-1",
        "PlanId": "p-1",
        "Status": "POLLING",
        "StartTime": since,
        "Verdict": {"Status": "suspended", "Time": since},
        "Waves": [
            {
                "Jobs": [{"JobId": "j-1", "Status": "SUSPENDED", "StatusSince": since}],
                "Servers": [
                    {
                        "SourceServerId": "s-1",
                        "JobId": "j-1",
                        "Status": "FROZEN",
                        "StatusSince": since,
                        "LaunchActions": [{"Name": "install", "RunId": "r-1", "Status": "SKIPPED"}, {}],
                    }
                ],
            }
        ],
    }

    updated = parse_record(record)

    assert updated.is_open
    assert updated.stages[0].jobs[0].state is JobState.UNKNOWN
    assert list(updated.unknown_statuses()) == ["SUSPENDED", "FROZEN", "SKIPPED"]
    assert decide_verdict(updated, EVIDENCE, HOURS_LATER) is None
    assert parse_record(to_record(updated)).stages == updated.stages


def test_an_outcome_that_a_source_cannot_know_is_an_end_and_no_unknown_status() -> None:
    declaration = replace(AWS["cloudformation"], statuses={"gone": Meaning.ENDED})
    watched = execution(Stage("process", (Job("j-1"),)), mode=Mode.JOB)
    mapped = map_status(declaration, RawJob({}, "GONE"))
    assert mapped is not None

    updated = apply_response(watched, response(START, map_job(Job("j-1"), mapped)))

    found = decide_verdict(updated, EVIDENCE, START)
    assert found is not None
    assert found.status.value == "unknown"
    assert updated.unknown_statuses() == {}
