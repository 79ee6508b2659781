"""A status together with the fields that qualify it: none of them ends a job as a silent success."""

from __future__ import annotations

from email.message import Message
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from longwatch.executions.sources.declaration_parser import parse_declaration
from longwatch.executions.sources.declarations import Declaration, Meaning, normalize
from longwatch.executions.sources.http import parse_response
from longwatch.executions.sources.mapping import RawJob, map_status
from longwatch.executions.sources.outcome_fields import MAX_DEPTH, OUTCOME_STATUSES
from longwatch.executions.sources.shipped import COMMON_STATUSES, HTTP
from longwatch.storage.http import HttpResponse

SUCCEEDED, FAILED, CANCELLED = Meaning.SUCCEEDED, Meaning.FAILED, Meaning.CANCELLED
RUNNING, PENDING, ENDED, OPEN = Meaning.RUNNING, Meaning.PENDING, Meaning.ENDED, None


def meaning_of(fields: Any, declaration: Declaration = HTTP) -> Meaning | None:
    word = None if declaration.status else str(fields.get("status", fields.get("state")))
    mapped = map_status(declaration, RawJob(fields, word))
    assert mapped is not None
    return mapped.meaning


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "completed"}, SUCCEEDED),
        ({"status": "completed", "conclusion": "success"}, SUCCEEDED),
        ({"status": "completed", "conclusion": "failure"}, FAILED),
        ({"status": "completed", "Conclusion": "Timed Out"}, FAILED),
        ({"status": "completed", "conclusion": "cancelled"}, CANCELLED),
        ({"status": "completed", "conclusion": "skipped"}, CANCELLED),
        ({"status": "completed", "conclusion": "action_required"}, PENDING),
        ({"status": "completed", "conclusion": "stale"}, ENDED),
        ({"status": "completed", "conclusion": "gizmo"}, OPEN),
        ({"status": "completed", "conclusion": None}, OPEN),
        ({"status": "completed", "conclusion": ""}, OPEN),
        ({"status": "succeeded", "conclusion": None}, SUCCEEDED),
        ({"status": "success", "result": None}, SUCCEEDED),
        ({"status": "completed", "result": "none"}, OPEN),
        ({"status": "done", "result": "UNSTABLE"}, FAILED),
        ({"status": "done", "result": False}, FAILED),
        ({"status": "done", "result": True}, SUCCEEDED),
        ({"status": "done", "result": 7}, OPEN),
        ({"status": "done", "result": "Processed 3 rows"}, OPEN),
        ({"status": "done", "result": {"rows": 3}}, SUCCEEDED),
        ({"status": "done", "result": [1, 2]}, SUCCEEDED),
        ({"status": "done", "result": {"status": "failed"}}, FAILED),
        ({"status": "done", "result": {"data": {"exit_code": 2}}}, FAILED),
        ({"status": "success", "data": {"status": "running"}}, RUNNING),
        ({"status": "success", "job": {"state": "melting"}}, OPEN),
        ({"status": "completed", "result": {"data": {"run": {"conclusion": "failure"}}}}, FAILED),
        ({"status": "completed", "container": {"exitCode": 137}}, OPEN),
        ({"status": "completed", "container": {"exitCode": 0}}, SUCCEEDED),
        ({"status": "completed", "workflow_run": {"conclusion": "failure"}}, OPEN),
        ({"status": "completed", "metadata": {"result": "FAILURE"}}, OPEN),
        ({"status": "completed", "metadata": {"result": "7 rows"}}, SUCCEEDED),
        ({"status": "completed", "job_conclusion": "failure"}, OPEN),
        ({"status": "completed", "buildResult": "FAILURE"}, OPEN),
        ({"status": "completed", "conclusion": "success", "steps": {"a": {"outcome": "failure"}}}, SUCCEEDED),
        ({"status": "completed", "conclusion": "success", "jobs": [{"status": "failed"}]}, SUCCEEDED),
        ({"status": "completed", "conclusion": "success", "run_status": "failed"}, OPEN),
        ({"status": "completed", "success": True, "jobs": [{"status": "failed"}]}, OPEN),
        ({"status": "completed", "previous_run": {"conclusion": "failure"}}, SUCCEEDED),
        ({"status": "completed", "run_status": "exploded"}, OPEN),
        ({"status": "completed", "runstate": "exploded"}, OPEN),
        ({"status": "completed", "estate": "failed", "shipping_state": "Bavaria"}, SUCCEEDED),
        ({"status": "completed", "http_status": 200}, SUCCEEDED),
        ({"status": "completed", "jobs": [{"status": "done"}, {"state": "skipped"}]}, SUCCEEDED),
        ({"status": "completed", "jobs": {"a": {"status": "exploded"}}}, OPEN),
        ({"status": "completed", "users": [{"status": "active", "state": "Bavaria"}]}, SUCCEEDED),
        ({"status": "completed", "containers": [{"exitCode": 0, "signal": 0}]}, SUCCEEDED),
        ({"status": "completed", "containers": [{"exitCode": 137}]}, OPEN),
        ({"status": "completed", "resultCode": 0}, SUCCEEDED),
        ({"status": "completed", "resultCode": 204}, SUCCEEDED),
        ({"status": "completed", "resultCode": 1}, OPEN),
        ({"status": "completed", "exit": 1}, FAILED),
        ({"status": "completed", "exit": {"code": 1}}, FAILED),
        ({"status": "completed", "exit": {"code": 0, "signal": None}}, SUCCEEDED),
        ({"status": "completed", "exit": {"code": 0, "signal": "SIGKILL"}}, FAILED),
        ({"status": "completed", "signal": 9}, FAILED),
        ({"status": "completed", "signal": None}, SUCCEEDED),
        ({"status": "completed", "signal": "weak"}, OPEN),
        ({"status": "completed", "src": "main", "arc": 3}, SUCCEEDED),
        ({"status": "completed", "failure_reason": "out of memory"}, FAILED),
        ({"status": "completed", "failure_reason": "N/A"}, SUCCEEDED),
        ({"status": "finished", "outcome": "aborted"}, CANCELLED),
        ({"status": "finished", "exit_code": 0}, SUCCEEDED),
        ({"status": "finished", "exitCode": 137}, FAILED),
        ({"status": "finished", "exit_status": "1"}, FAILED),
        ({"status": "finished", "returncode": -9}, FAILED),
        ({"status": "finished", "exit_code": "odd"}, OPEN),
        ({"status": "finished", "exit_code": None}, OPEN),
        ({"status": "completed", "conclusion": None, "exit_code": 0}, SUCCEEDED),
        ({"status": "completed", "conclusion": "success", "exit_code": 1}, FAILED),
        ({"status": "completed", "conclusion": "cancelled", "exit_code": 143}, CANCELLED),
        ({"status": "completed", "conclusion": "odd", "exit_code": 1}, FAILED),
        ({"status": "completed", "success": False}, FAILED),
        ({"status": "completed", "success": True}, SUCCEEDED),
        ({"status": "completed", "error": "no disk"}, FAILED),
        ({"status": "completed", "error": None, "errors": [], "failed": 0}, SUCCEEDED),
        ({"status": "completed", "errors": [{"code": 7}]}, FAILED),
        ({"status": "completed", "failed": 3, "passed": 12}, FAILED),
        ({"status": "completed", "canceled": True}, CANCELLED),
        ({"status": "completed", "building": True}, RUNNING),
        ({"status": "completed", "done": False}, RUNNING),
        ({"status": "completed", "state": "failed"}, FAILED),
        ({"status": "completed", "state": "running"}, RUNNING),
        ({"status": "completed", "state": "Bavaria"}, OPEN),
        ({"status": "ok", "state": "provisioning"}, OPEN),
        ({"status": "ok", "state": "done"}, SUCCEEDED),
        ({"status": "completed", "state": "finished", "conclusion": None}, OPEN),
        ({"status": "finished", "data": {"result": "exploded"}}, OPEN),
        ({"status": "completed", "result": {"conclusion": "exploded"}}, OPEN),
        ({"status": "ok", "data": {"done": False}}, RUNNING),
        ({"status": "finished", "data": {"result": False}}, FAILED),
        ({"status": "completed", "conclusion": {"name": "failure"}}, OPEN),
        ({"status": "completed", "conclusion": ["failure"]}, OPEN),
        ({"status": "completed", "data": {"outcome": {"name": "failure"}}}, OPEN),
        ({"status": "completed", "outcome": {"status": "success"}}, SUCCEEDED),
        ({"status": "completed", "success": 0}, OPEN),
        ({"status": "completed", "success": 12}, SUCCEEDED),
        ({"status": "completed", "success": "no"}, FAILED),
        ({"status": "completed", "success": "Backup stored"}, SUCCEEDED),
        ({"status": "completed", "timedOut": True}, FAILED),
        ({"status": "success", "error": {"code": None, "message": ""}}, SUCCEEDED),
        ({"status": "success", "errors": [{}, None], "failures": {"count": 0}}, SUCCEEDED),
        ({"status": "success", "error": {"code": 0, "message": "no disk"}}, FAILED),
        ({"status": "failed", "conclusion": "success", "exit_code": 0}, FAILED),
        ({"status": "cancelled", "exit_code": 143, "error": "killed"}, CANCELLED),
        ({"status": "running", "result": "FAILURE"}, RUNNING),
        ({"status": "queued", "conclusion": "success"}, PENDING),
        ({"status": "gizmo", "conclusion": "success"}, OPEN),
    ],
    ids=str,
)
def test_the_fields_beside_a_status_decide_with_it(fields: dict[str, Any], expected: Meaning | None) -> None:
    assert meaning_of(fields) is expected


@pytest.mark.parametrize(
    ("declared", "fields", "expected"),
    [
        ({"outcome": "how"}, {"state": "over", "how": "well"}, SUCCEEDED),
        ({"outcome": "how"}, {"state": "over", "how": "badly"}, FAILED),
        ({"outcome": "how"}, {"state": "over", "how": "gizmo"}, OPEN),
        ({"outcome": "how"}, {"state": "over", "how": None}, OPEN),
        ({"outcome": "how"}, {"state": "over"}, OPEN),
        ({"outcome": ["how", "exit_code"]}, {"state": "over", "how": "well", "exit_code": 1}, FAILED),
        ({"outcome": "error"}, {"state": "over", "error": None}, SUCCEEDED),
        ({"outcome": "error"}, {"state": "over", "error": "no disk"}, FAILED),
        ({"outcome": "how"}, {"state": "over", "how": "well", "result": "failure"}, SUCCEEDED),
        ({}, {"state": "over"}, ENDED),
        ({}, {"state": "over", "result": "failure"}, FAILED),
        ({}, {"state": "well", "exit_code": 1}, FAILED),
    ],
    ids=str,
)
def test_a_declared_outcome_is_required_and_replaces_the_usual_names(
    declared: dict[str, Any], fields: dict[str, Any], expected: Meaning | None
) -> None:
    table = {"url": "https://x.example/{id}", "status": "state", "ended": "over"}
    table |= {"succeeded": "well", "failed": "badly", **declared}

    assert meaning_of(fields, parse_declaration("jobs", table, where="here")) is expected


@pytest.mark.parametrize(
    ("fields", "path", "expected"),
    [
        ({"job": {"status": "done", "exit_code": 1}}, "job.status", FAILED),
        ({"job": {"status": "done"}, "error": "lost"}, "job.status", FAILED),
        ({"result": {"status": "done"}}, "result.status", SUCCEEDED),
        ({"jobs": [{"status": "done", "conclusion": "failure"}]}, "jobs[0].status", FAILED),
        ({"result": "success", "status": "running"}, "result", RUNNING),
        ({"status": "completed", "state": "Bavaria"}, "status", SUCCEEDED),
    ],
    ids=str,
)
def test_fields_beside_the_path_to_the_status_count_too(
    fields: dict[str, Any], path: str, expected: Meaning | None
) -> None:
    table = {"url": "https://x.example/{id}", "status": path}

    assert meaning_of(fields, parse_declaration("jobs", table, where="here")) is expected


GOOD = [word for word, meaning in COMMON_STATUSES.items() if meaning is SUCCEEDED]
NOT_GOOD = [word for word, meaning in OUTCOME_STATUSES.items() if meaning is not SUCCEEDED]
word_fields = st.sampled_from(["conclusion", "result", "outcome", "Result", "final_status"])
spoilers = st.one_of(
    st.tuples(word_fields, st.sampled_from(NOT_GOOD) | st.text(min_size=1).filter(lambda s: bool(s.strip()))),
    st.tuples(st.sampled_from(["exit_code", "exitCode", "rc"]), st.integers().filter(bool)),
    st.tuples(st.sampled_from(["success", "ok", "done", "finished"]), st.just(value=False)),
    st.tuples(
        st.sampled_from(["error", "errors", "failed"]), st.sampled_from(["boom", [1], {"a": 1}, 3, True])
    ),
    st.tuples(st.sampled_from(["building", "in_progress", "cancelled"]), st.just(value=True)),
)


@given(st.sampled_from(["status", "state", "Status"]), st.sampled_from(GOOD), st.lists(spoilers, min_size=1))
def test_no_generated_contradiction_ends_as_a_success(
    name: str, word: str, contradictions: list[tuple[str, Any]]
) -> None:
    fields = {name: word, **dict(contradictions)}
    agreed = {
        "",
        "none",
        "null",
        *(each for each, outcome in OUTCOME_STATUSES.items() if outcome is SUCCEEDED),
    }
    for field, value in dict(contradictions).items():
        if isinstance(value, str) and normalize(value) in agreed and field != "error":
            fields[field] = "gizmo"

    mapped = map_status(HTTP, RawJob(fields, word))

    assert mapped is not None
    assert mapped.meaning is not SUCCEEDED


LEADS = ["", "job_", "final ", "Build-", "x_y_"]
contradicting_fields = st.one_of(
    st.tuples(
        st.sampled_from(["status", "State", "result", "outcome", "conclusion", "Status", "STATE"]),
        st.sampled_from([word for word in NOT_GOOD if word not in ("skipped", "not_built", "false")]),
    ),
    st.tuples(
        st.sampled_from(["exit_code", "exitCode", "exit_status", "return-code", "ResultCode"]),
        st.integers(1, 199) | st.integers(1, 199).map(str),
    ),
    st.tuples(st.sampled_from(["signal", "exit_signal", "Signal"]), st.sampled_from([9, 15, "SIGKILL"])),
)
ways_in = st.lists(
    st.sampled_from(["object", "details", "jobs[]", "steps[]", "stages{}"]), max_size=(MAX_DEPTH - 1) // 2
)


@given(st.sampled_from(GOOD), st.sampled_from(LEADS), contradicting_fields, ways_in)
def test_a_contradiction_at_any_depth_does_not_end_as_a_success(
    word: str, lead: str, field: tuple[str, Any], ways: list[str]
) -> None:
    inside: Any = {f"{lead}{field[0]}": field[1]}
    for way in ways:
        name = way[:-2] if way[-1] in "]}" else way
        inside = {
            name: [{"id": 1}, inside] if way[-1] == "]" else {"a": inside} if way[-1] == "}" else inside
        }
    assume("status" not in inside)

    mapped = map_status(HTTP, RawJob({"status": word, **inside}, word))

    assert mapped is not None
    assert mapped.meaning is not SUCCEEDED


@given(st.sampled_from(GOOD), ways_in)
def test_parts_that_went_well_do_not_keep_a_job_open(word: str, ways: list[str]) -> None:
    inside: Any = {"status": "succeeded", "conclusion": "success", "exit_code": 0, "signal": None}
    for way in ways:
        name = way[:-2] if way[-1] in "]}" else way
        inside = {name: [inside, inside] if way[-1] == "]" else {"a": inside} if way[-1] == "}" else inside}

    mapped = map_status(HTTP, RawJob({**inside, "status": word}, word))

    assert mapped is not None
    assert mapped.meaning is SUCCEEDED


def test_the_status_of_a_job_names_the_field_that_decided() -> None:
    mapped = map_status(HTTP, RawJob({"status": "completed", "conclusion": "failure"}, "completed"))

    assert mapped is not None
    assert mapped.source_status == "completed, conclusion failure"


@pytest.mark.parametrize(
    ("body", "is_status"),
    [
        (b"done\n", True),
        (b"  Completed", True),
        (b"ok\n", False),
        (b"ok" + b" " * 70 + b"but not all", False),
        (b"", False),
    ],
)
def test_text_is_a_status_only_if_it_is_one_word_to_its_end(body: bytes, is_status: bool) -> None:
    found = parse_response(HttpResponse(200, body, Message()), HTTP, "https://x.example/job")

    assert isinstance(found, RawJob) is is_status
