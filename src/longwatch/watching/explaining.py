"""Why an execution stands as it does, in lines for people: the last fact, the next look, who is at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.watching.conditions import conditions
from longwatch.watching.due import deadline_at, is_leased, next_poll_at
from longwatch.watching.model import Execution
from longwatch.watching.phases import delay_of, phase_of
from longwatch.watching.progress import verdict_words

if TYPE_CHECKING:
    from longwatch.watching.cadence.lessons import Lessons


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know: what it is about, and what is so."""

    about: str
    text: str
    at: int | None = None  # epoch ms, where it has a time


def explained(execution: Execution, now_ms: int, lessons: Lessons | None = None) -> Iterator[Fact]:
    """Everything that says why it is still running, or how it ended; with lessons, how long others took."""
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
    yield Fact("phase", f"{phase_of(execution)}, {_cadence_text(execution)}")
    for condition in conditions(execution, now_ms, lessons):
        yield Fact(condition.name, condition.message)
    eta = lessons.eta_of(execution, now_ms) if lessons else None
    if eta is not None:
        expected = None if eta.left is None else now_ms + round(eta.left.middle * 1000)
        yield Fact("expected", f"{eta.words()} ({eta.executions} before it)", expected)
    yield Fact("waves", _waves_text(execution))
    yield from _last_facts(execution)
    yield _holder(execution, now_ms)
    due = next_poll_at(execution)
    yield Fact("next look", "when somebody watches" if due > now_ms else "due since", due)
    deadline = deadline_at(execution)
    if deadline is not None:
        text = "its source is asked then" if deadline > now_ms else "passed; its source decides"
        yield Fact("deadline", text, deadline)


def _cadence_text(execution: Execution) -> str:
    asked, due, plain = execution.last_polled_at, execution.next_poll_at, delay_of(execution)
    if asked is None or due is None or due <= asked:
        return f"asked about every {plain:g} s"
    said = f"asked again after {(due - asked) / 1000:.0f} s"
    return f"{said}, as its source wishes" if execution.failures else f"{said} rather than {plain:g} s"


def _last_facts(execution: Execution) -> Iterator[Fact]:
    if execution.last_change_at is not None:
        yield Fact("last change", _counts(execution), execution.last_change_at)
    if execution.last_answer_at is not None:
        yield Fact("last answer", execution.source, execution.last_answer_at)
    else:
        yield Fact("last answer", f"none yet from {execution.source}")
    if execution.last_error:
        yield Fact("last error", execution.last_error, execution.last_polled_at)


def _holder(execution: Execution, now_ms: int) -> Fact:
    holder = execution.lease_holder
    if is_leased(execution, now_ms):
        return Fact("asked by", holder or "somebody", execution.lease_until)
    if holder is not None:  # a poller gives its lease back, so this one has died
        return Fact("asked by", f"nobody; {holder} did not come back", execution.lease_until)
    return Fact("asked by", "nobody at this moment")


def _verdict_text(execution: Execution) -> str:
    verdict = execution.verdict
    assert verdict is not None
    corrects = f", corrects {verdict.corrects}" if verdict.corrects else ""
    return f"{verdict_words(verdict)}{corrects}"


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
