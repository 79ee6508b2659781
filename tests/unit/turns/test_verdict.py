"""How a turn ended, from every combination of the agent's report and the end of its process.

The lines are synthetic, after the published formats of Claude Code and Codex.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from longwatch.model.run import Status
from longwatch.turns.dialects import AgentReport, Reported, report_of
from longwatch.turns.verdict import VERDICTS, ProcessEnd, TurnEvidence, evidence_of, judge, pick_worse

SUCCESS = AgentReport(Reported.SUCCESS)
FAILURE = AgentReport(Reported.FAILURE, "no credit")
DENIED = AgentReport(Reported.DENIED, "denied: Bash")

FACTS: tuple[
    tuple[dict[str, Any], bool], ...
] = (  # the report about a process -> whether it agrees with a success
    ({}, True),
    ({"exit_code": 0}, True),
    ({"exit_code": 137}, False),
    ({"signal": "SIGSEGV"}, False),
    ({"exit_code": 0, "signal": "SIGKILL"}, False),
)


def statements() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """What is stated of an end, and whether it agrees with a success."""
    types = ("turn_completed", "turn_failed", "turn_cancelled")
    leftovers: tuple[dict[str, Any], ...] = ({}, {"leftover_pid": 7})
    errors: tuple[dict[str, Any], ...] = ({}, {"error_message": "output rejected"})
    for type_, (facts, agrees), leftover, error in product(types, FACTS, leftovers, errors):
        yield type_, {**facts, **leftover, **error}, type_ == "turn_completed" and agrees and not error


def claude_lines() -> Iterator[tuple[str, bool]]:
    """Result lines of Claude Code, and whether each is a plain success."""
    subtypes = ("success", "error_max_turns", "error_during_execution", "error_max_budget_usd", "novel")
    stops = (None, "end_turn", "max_tokens", "refusal", "novel")
    denials: tuple[list[object], ...] = ([], [{"tool_name": "Bash"}])
    for subtype, is_error, stop, denied in product(subtypes, (False, True, None), stops, denials):
        line: dict[str, Any] = {
            "type": "result",
            "subtype": subtype,
            "stop_reason": stop,
            "permission_denials": denied,
        }
        if is_error is not None:
            line["is_error"] = is_error
        is_good = subtype == "success" and not is_error and stop in (None, "end_turn") and not denied
        yield json.dumps(line), is_good
    for field in ({"error": "rate_limit"}, {"api_error_status": 529}, {"terminal_reason": "aborted_tools"}):
        yield json.dumps({"type": "result", "subtype": "success", "is_error": False, **field}), False


def codex_lines() -> Iterator[tuple[str, bool]]:
    yield json.dumps({"type": "turn.completed", "usage": {"output_tokens": 1}}), True
    yield json.dumps({"type": "turn.completed", "error": {"message": "but"}}), False
    yield json.dumps({"type": "turn.completed", "turn": {"status": "interrupted"}}), False
    yield json.dumps({"type": "turn.failed", "error": {"message": "no"}}), False
    yield json.dumps({"type": "turn.aborted", "reason": "interrupted"}), False
    yield json.dumps({"type": "error", "message": "stream lost"}), False


def combinations() -> Iterator[tuple[TurnEvidence, bool]]:
    """Evidence of one or two reports and a stated end, and whether all of it speaks for success."""
    lines = [*claude_lines(), *codex_lines()]
    firsts = [("", False), lines[0], *codex_lines()]
    for (first, first_good), (line, good), statement in product(firsts, lines, statements()):
        type_, fields, agrees = statement
        report = pick_worse(report_of(first), report_of(line))
        is_silent = report_of(first) is None  # such a line neither helps nor contradicts
        # Without a report from the agent, only an explicit statement makes a success.
        stated = not fields and type_ == "turn_completed" and report is None
        yield (
            evidence_of(type_, fields, report),
            (agrees and good and (first_good or is_silent))
            or (agrees and first_good and report_of(line) is None)
            or stated,
        )


def test_of_thousands_of_contradictory_combinations_none_is_a_silent_success() -> None:
    contradictory = [evidence for evidence, is_good in combinations() if not is_good]

    verdicts = [judge(evidence) for evidence in contradictory]

    assert len(contradictory) > 5_000
    assert all(verdict.status is not Status.SUCCEEDED and verdict.reason for verdict in verdicts)


def test_evidence_that_agrees_is_a_success() -> None:
    good = [evidence for evidence, is_good in combinations() if is_good]

    assert len(good) > 10
    assert all(judge(evidence).status is Status.SUCCEEDED for evidence in good)


def test_a_stated_failure_keeps_what_the_agent_reported_beside_the_outcome() -> None:
    reported = AgentReport(Reported.SUCCESS, None, {"usage": {"output_tokens": 1}})

    evidence = evidence_of("turn_failed", {"exit_code": 0, "error_message": "output rejected"}, reported)

    assert evidence.report == AgentReport(Reported.FAILURE, "output rejected", reported.fields)


def test_every_combination_has_a_verdict() -> None:
    assert set(VERDICTS) == set(product([*Reported, None], ProcessEnd))


@pytest.mark.parametrize(
    ("evidence", "status", "reason"),
    [
        (evidence_of("turn_completed", {"exit_code": 0}, SUCCESS), "succeeded", None),
        (
            evidence_of("turn_completed", {"exit_code": 0}, None),
            "unknown",
            "the agent reported no result (exit code 0)",
        ),
        (
            evidence_of("turn_failed", {"exit_code": 3, "error_message": "exit code 3: boom"}, SUCCESS),
            "failed",
            "the agent reported success; then exit code 3: boom",
        ),
        (
            evidence_of("turn_failed", {"signal": "SIGSEGV"}, DENIED),
            "failed",
            "denied: Bash; then ended by SIGSEGV",
        ),
        (
            evidence_of("turn_failed", {"exit_code": 3, "error_message": "exit code 3"}, None),
            "failed",
            "exit code 3",
        ),
        (evidence_of("turn_failed", {"exit_code": 1}, FAILURE), "failed", "no credit"),
        (evidence_of("turn_completed", {"exit_code": 0}, FAILURE), "failed", "no credit"),
        (evidence_of("turn_completed", {"exit_code": 0}, DENIED), "partial", "denied: Bash"),
        (evidence_of("turn_completed", {"leftover_pid": 7}, SUCCESS), "succeeded", None),
        (evidence_of("turn_completed", {"leftover_pid": 7, "exit_code": 0}, SUCCESS), "succeeded", None),
        (
            evidence_of("turn_completed", {"leftover_pid": 7, "exit_code": 1}, SUCCESS),
            "failed",
            "the agent reported success; then exit code 1",
        ),
        (
            evidence_of("turn_completed", {"leftover_pid": 7, "signal": "SIGKILL"}, SUCCESS),
            "failed",
            "the agent reported success; then ended by SIGKILL",
        ),
        (
            evidence_of("turn_failed", {"exit_code": 0, "error_message": "output rejected"}, SUCCESS),
            "failed",
            "output rejected",
        ),
        (evidence_of("turn_failed", {"exit_code": 0}, None), "failed", "failed"),
        (evidence_of("turn_failed", {"leftover_pid": 7}, DENIED), "failed", "failed"),
        (evidence_of("turn_completed", {"error_message": "but"}, SUCCESS), "failed", "but"),
        (
            evidence_of("turn_cancelled", {"error_message": "interrupted by SIGINT"}, None),
            "cancelled",
            "interrupted by SIGINT",
        ),
        (
            evidence_of("turn_cancelled", {"error_message": "interrupted by SIGINT"}, FAILURE),
            "cancelled",
            "no credit (interrupted by SIGINT)",
        ),
        (TurnEvidence(SUCCESS), "succeeded", None),
        (evidence_of("turn_completed", {}, None), "succeeded", None),
        (evidence_of("turn_failed", {"error_message": "no such program"}, None), "failed", "no such program"),
    ],
)
def test_the_reason_names_what_contradicts_a_success(
    evidence: TurnEvidence, status: str, reason: str | None
) -> None:
    verdict = judge(evidence)

    assert (verdict.status, verdict.reason) == (status, reason)
