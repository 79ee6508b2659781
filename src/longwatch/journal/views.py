"""Runs and checks as JSON: the same names as in the code, times in epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longwatch.journal.verify import ProducerVerification, Verification
from longwatch.model.json_schema import STRICT
from longwatch.model.run import Call, Condition, Run, RunSummary, conditions

StatusWord = Literal["pending", "running", "succeeded", "failed", "partial", "cancelled", "died", "unknown"]


@dataclass(frozen=True, kw_only=True)
class ConditionView:
    """A condition of the run or execution at this moment."""

    __pydantic_config__ = STRICT

    name: str
    message: str


def summary_view(run: RunSummary, *, now_ms: int) -> dict[str, Any]:
    """One line of the list of runs."""
    return {
        "run_id": run.run_id,
        "status": run.status.value,
        "kind": run.kind,
        "name": run.name,
        "parent_run_id": run.parent_run_id,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "ended_between": _between(run.ended_between),
        "duration_ms": run.duration_ms(now_ms),
        "duration_between": _between(run.duration_between),
        "events": run.events,
        "agents": sorted(run.agents),
        "failed_calls": run.failed_calls,
        "error": run.error,
        "warning_count": run.warning_count,
        "last_event_type": run.last_event_type,
        "last_event_at": run.last_event_at,
        "expired_before": run.expired_before,
        "attempts": [attempt_view(run, number) for number in range(1, len(run.attempts) + 1)],
    }


def attempt_view(run: RunSummary, number: int) -> dict[str, Any]:
    """One attempt at a run."""
    attempt = run.attempts[number - 1]
    ending = attempt.ending if attempt.is_superseded else run.ending
    started_at = attempt.start[0] if attempt.start is not None and number > 1 else run.started_at
    between = None if ending is None or ending.not_before is None else (ending.not_before, ending.not_after)
    return {
        "number": number,
        "attempt": attempt.id,
        "status": attempt.status.value,
        "started_at": started_at,
        "ended_at": ending.at if ending is not None else None,
        "ended_between": _between(between),
        "error": ending.error if ending is not None else None,
    }


def _between(interval: tuple[int, int | None] | None) -> list[int | None] | None:
    return None if interval is None else list(interval)


def listed_view(run: RunSummary, *, now_ms: int, observed: Sequence[Condition] = ()) -> dict[str, Any]:
    """One line of the list, and what is true of the run at this moment."""
    return {**summary_view(run, now_ms=now_ms), "conditions": _conditions(Run(run), now_ms, observed)}


def shown_view(
    run: Run, shown: Run, *, now_ms: int, attempt: int | None = None, observed: Sequence[Condition] = ()
) -> dict[str, Any]:
    """One attempt at a run, the last one unless another is asked for, and which one it is.

    `shown` is the run at that attempt; `observed` are conditions of the processes of the last one.
    """
    attempts = len(run.summary.attempts)
    number = attempts if attempt is None else attempt
    view = run_view(shown, now_ms=now_ms, observed=observed if number == attempts else ())
    every = [attempt_view(run.summary, each) for each in range(1, attempts + 1)]
    return {**view, "attempts": every, "attempt": number}


def run_view(run: Run, *, now_ms: int, observed: Sequence[Condition] = ()) -> dict[str, Any]:
    """A folded run, whole; the calls are those of its last attempt."""
    has_ended = run.summary.ending is not None
    return {
        **summary_view(run.summary, now_ms=now_ms),
        "conditions": _conditions(run, now_ms, observed),
        "counts": dict(sorted(run.counts.items())),
        "producers": {
            name: {
                "events": len(tally.seen),
                "stated": tally.count,
                "missing": [list(span) for span in tally.missing()],
            }
            for name, tally in sorted(run.producers.items())
        },
        "calls": [call_view(call, run_has_ended=has_ended) for call in run.ordered_calls()],
    }


def _conditions(run: Run, now_ms: int, observed: Sequence[Condition]) -> list[dict[str, str]]:
    found = conditions(run, now_ms, observed=observed)
    return [{"name": each.name, "message": each.message} for each in found]


def call_view(call: Call, *, run_has_ended: bool) -> dict[str, Any]:
    """One agent span, tool call or node."""
    return {
        "call_id": call.call_id,
        "kind": call.kind,
        "name": call.name,
        "agent_name": call.agent_name,
        "parent_call_id": call.parent_call_id,
        "status": call.status_in(run_has_ended=run_has_ended),
        "started_at": call.started_at,
        "ended_at": call.end.at if call.end else None,
        "duration_ms": call.duration_ms,
        "error": call.end.error if call.end else None,
    }


def verification_view(run_id: str, found: Verification) -> dict[str, Any]:
    """What `verify` found."""
    return {
        "run_id": run_id,
        "answer": found.answer.value,
        "expired_before": found.expired_before,
        "unnumbered": found.unnumbered,
        "unreadable": list(found.unreadable),
        "uncounted": found.uncounted,
        "producers": [_producer_view(each) for each in found.producers],
    }


def _producer_view(found: ProducerVerification) -> dict[str, Any]:
    return {
        "producer": found.producer,
        "answer": found.answer.value,
        "events": found.events,
        "stated": found.stated,
        "missing": [list(span) for span in found.missing],
        "altered": [list(span) for span in found.altered.ranges],
        "unreadable": [list(span) for span in found.unreadable.ranges],
        "expired_up_to": found.expired_up_to,
    }
