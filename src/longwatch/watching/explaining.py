"""Why an execution stands as it does, in lines for people: the last fact, the next look, who is at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from longwatch.watching.conditions import conditions
from longwatch.watching.due import deadline_at, is_leased, next_poll_at
from longwatch.watching.model import Execution
from longwatch.watching.phases import cadence_of, phase_of


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know: what it is about, and what is so."""

    about: str
    text: str
    at: int | None = None  # epoch ms, where it has a time


def explained(execution: Execution, now_ms: int) -> Iterator[Fact]:
    """Everything that says why it is still running, or how it ended."""
    verdict = execution.verdict
    if verdict is not None:
        yield Fact("verdict", _verdict_text(execution), verdict.at)
        for reason in (verdict.message or "").split("; "):
            if reason:
                yield Fact("reason", reason)
        for warning in verdict.warnings:
            yield Fact("warning", warning)
        for evidence in verdict.evidence:
            yield Fact("evidence", evidence.call, evidence.at)
        return
    if execution.closed:
        yield Fact("closed", "another program keeps it; longwatch does not ask about it")
        return
    phase = phase_of(execution)
    yield Fact("phase", f"{phase}, asked about every {cadence_of(execution).delay:g} s")
    for condition in conditions(execution, now_ms):
        yield Fact(condition.name, condition.message)
    yield Fact("waves", _waves_text(execution))
    if execution.last_change_at is not None:
        yield Fact("last change", _counts(execution), execution.last_change_at)
    if execution.last_answer_at is not None:
        yield Fact("last answer", execution.source, execution.last_answer_at)
    if execution.last_error:
        yield Fact("last error", execution.last_error, execution.last_polled_at)
    if is_leased(execution, now_ms):
        yield Fact("asked by", execution.lease_holder or "somebody", execution.lease_until)
    yield Fact("next look", "when somebody watches", next_poll_at(execution))
    deadline = deadline_at(execution)
    if deadline is not None:
        yield Fact("deadline", "its source is asked then", deadline)


def _verdict_text(execution: Execution) -> str:
    verdict = execution.verdict
    assert verdict is not None
    late = ", late" if verdict.late else ""
    corrects = f", after {verdict.corrects} was told" if verdict.corrects else ""
    return f"{verdict.status}{late}{corrects}"


def _waves_text(execution: Execution) -> str:
    there, total = len(execution.waves), execution.total_waves
    if total is None:
        return f"{there}, and nobody has said whether more come"
    return f"{there} of {total}"


def _counts(execution: Execution) -> str:
    counts: dict[str, int] = {}
    for _, server in execution.servers():
        counts[server.state.value] = counts.get(server.state.value, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "no server is listed"
