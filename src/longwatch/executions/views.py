"""Executions as plain maps, for commands and the API: names as in the code, times in epoch milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from longwatch.executions.due import deadline_at, next_poll_at, phase_of
from longwatch.executions.explain import conditions_by, silent_at
from longwatch.executions.model import Execution, Job, Verdict, WorkItem
from longwatch.executions.outcomes import wave_outcome
from longwatch.executions.progress import failure_reason, items_of, progress_of
from longwatch.executions.waiting import waiting_for

if TYPE_CHECKING:
    from longwatch.executions.cadence.cadence import LearnedCadence
    from longwatch.executions.cadence.eta import Eta
    from longwatch.executions.explain import Fact

NOT_YET = "running"


def execution_view(
    execution: Execution, *, now_ms: int, lessons: LearnedCadence | None = None
) -> dict[str, Any]:
    """Everything that is known of an execution; with lessons, also what the past says about it."""
    waves = [
        {
            "name": wave.name,
            "status": outcome.status.value if outcome else NOT_YET,
            "jobs": [_job(job) for job in wave.jobs],
            "servers": [_server(server, execution, job) for server, job in items_of(wave)],
        }
        for wave in execution.stages
        for outcome in [wave_outcome(wave, execution.mode, execution.observed_at)]
    ]
    return {
        **execution_line(execution, now_ms=now_ms, lessons=lessons),
        "waves": waves,
        "verdict": _verdict(execution.verdict),
    }


def execution_line(
    execution: Execution, *, now_ms: int, lessons: LearnedCadence | None = None
) -> dict[str, Any]:
    """An execution as one line of a list."""
    states = [server.state for _, server in execution.items()]
    verdict, progress = execution.verdict, progress_of(execution)
    eta = lessons.eta_of(execution, now_ms) if lessons and execution.is_open else None
    return {
        "execution_id": execution.execution_id,
        "plan_id": execution.plan_id,
        "run_id": execution.run_id,
        "name": execution.name,
        "source": execution.source,
        "mode": execution.mode.value,
        "status": execution.status.value,
        "other_status": execution.other_status,
        "phase": phase_of(execution).value if execution.is_open else None,
        "started_at": execution.started_at,
        "ended_at": verdict.at if verdict else None,
        "late": verdict.late if verdict else False,
        "warning_count": len(verdict.warnings) if verdict else 0,
        "total_waves": execution.total_stages,
        "stored_waves": len(execution.stages),
        "servers": len(states),
        "servers_ended": sum(state.is_final for state in states),
        "servers_done": progress.done,
        "servers_failed": progress.failed,
        "progress_text": progress.words(),
        "conditions": [
            {"name": each.name, "message": each.message} for each in conditions_by(execution, now_ms, eta)
        ],
        "waiting_for": waiting_for(execution, now_ms),
        "eta": eta_view(eta, now_ms) if eta else None,
        "deadline_at": deadline_at(execution),
        "last_polled_at": execution.last_polled_at,
        "last_answer_at": execution.last_answer_at,
        "last_change_at": execution.last_change_at,
        "last_error": execution.last_error,
        "failures": execution.failures,
        "silent_at": silent_at(execution, eta) if execution.is_open else None,
        "recheck_at": execution.recheck_at,
        "next_poll_at": None if execution.closed else next_poll_at(execution),
        "lease_holder": execution.lease_holder,
        "lease_until": execution.lease_until,
        "version": execution.version,
    }


def eta_view(eta: Eta, now_ms: int) -> dict[str, Any]:
    """When it will probably have ended."""
    left = eta.left
    return {
        "text": eta.words(),
        "expected_at": now_ms + round(left.middle * 1000) if left else None,
        "earliest_at": now_ms + round(left.low * 1000) if left else None,
        "latest_at": now_ms + round(left.high * 1000) if left else None,
        "usual_low_ms": round(eta.usually.low * 1000),
        "usual_middle_ms": round(eta.usually.middle * 1000),
        "usual_high_ms": round(eta.usually.high * 1000),
        "longest_ms": round(eta.longest * 1000),
        "elapsed_ms": round(eta.elapsed * 1000),
        "beyond_usual": eta.is_late,
        "samples": eta.executions,
    }


def facts_view(execution: Execution, facts: Iterable[Fact]) -> dict[str, Any]:
    """Why an execution stands as it does, fact by fact."""
    return {
        "execution_id": execution.execution_id,
        "plan_id": execution.plan_id,
        "status": execution.status.value,
        "facts": [{"about": fact.about, "text": fact.text, "at": fact.at} for fact in facts],
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "state": job.state.value,
        "word": job.source_status,
        "region": job.region,
        "account": job.account,
        "since": job.since,
    }


def _server(server: WorkItem, execution: Execution, job: Job | None) -> dict[str, Any]:
    return {
        "server_id": server.item_id,
        "state": server.state.value,
        "word": server.source_status,
        "instance_id": server.instance_id,
        "reason": server.reason,
        "failure_reason": failure_reason(server, execution, job),
        "since": server.since,
        "actions": [
            {
                "name": each.name,
                "state": each.state.value,
                "word": each.source_status,
                "reason": each.reason,
                "since": each.since,
            }
            for each in server.steps
        ],
    }


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status.value,
        "at": verdict.at,
        "message": verdict.message,
        "late": verdict.late,
        "warnings": list(verdict.warnings),
        "assumed": list(verdict.assumed),
        "corrects": verdict.corrects.value if verdict.corrects else None,
        "evidence": [
            {"call": each.call, "at": each.at, "fields": dict(each.fields)} for each in verdict.evidence
        ],
    }
