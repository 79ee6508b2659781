"""Explains why an open execution is still running, with its conditions. Computed, never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.executions.due import (
    ExecutionPhase,
    deadline_at,
    delay_of,
    is_due,
    is_leased,
    is_overdue,
    next_poll_at,
    phase_of,
)
from longwatch.executions.model import Execution, ItemState, Job, JobState, Mode, Stage, WorkItem
from longwatch.executions.outcomes import stage_outcome
from longwatch.executions.progress import verdict_text
from longwatch.executions.stores.records import status_writer

if TYPE_CHECKING:
    from longwatch.executions.cadence.cadence import LearnedCadence
    from longwatch.executions.cadence.eta import Eta

UNREACHABLE_AFTER = 3  # polls in a row without a response
UNWATCHED_AFTER_MS = 3 * 60 * 1000  # past the time of the next poll
MOST_NAMED = 3  # parts with one unknown status, or items and stages that an execution waits for

# Without a change. A recovery stays pending for a quarter of an hour while its snapshots are taken.
SILENT_AFTER_MS = 10 * 60 * 1000
SILENT_PENDING_AFTER_MS = 30 * 60 * 1000
# Where past executions of the same size show how long the phase takes, half as long again is silent, but
# never sooner than this: a few polls must have returned nothing new.
FAR = 1.5
SILENT_AT_LEAST_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ExecutionCondition:
    """Something true of an open execution at this moment that is not part of its history."""

    name: str  # unwatched, unreachable, missing, unknown status, overdue, slow or silent
    message: str


def conditions(
    execution: Execution, now_ms: int, cadence: LearnedCadence | None = None
) -> list[ExecutionCondition]:
    """Every condition that holds, the most severe first. Only with a cadence can one be slow."""
    eta = cadence.eta_of(execution, now_ms) if cadence and execution.is_open else None
    return conditions_by(execution, now_ms, eta)


def conditions_by(execution: Execution, now_ms: int, eta: Eta | None) -> list[ExecutionCondition]:
    """The conditions, from an ETA that is computed already."""
    return list(_conditions(execution, now_ms, eta)) if execution.is_open else []


def _conditions(execution: Execution, now_ms: int, eta: Eta | None) -> Iterator[ExecutionCondition]:
    waited = now_ms - next_poll_at(execution)
    if waited > UNWATCHED_AFTER_MS:
        yield ExecutionCondition(
            "unwatched",
            f"poll overdue by {length_text(waited)}; is longwatch executions watch, or a poller, running?",
        )
    if execution.failures >= UNREACHABLE_AFTER:
        error = execution.last_error or "no reason given"
        yield ExecutionCondition(
            "unreachable",
            f"no response from {execution.source} to {execution.failures} polls in a row: {error}",
        )
    yield from _missing(execution)
    for status, names in execution.unknown_statuses().items():
        yield ExecutionCondition(
            "unknown status", f"Unknown status {status!r} of {_listed(names)}, treated as running."
        )
    if is_overdue(execution, now_ms):
        over = now_ms - (deadline_at(execution) or now_ms)
        yield ExecutionCondition("overdue", f"past its deadline by {length_text(over)}; polling continues")
    slowness = eta.slowness() if eta else None
    if slowness is not None:
        yield ExecutionCondition("slow", slowness)
    if now_ms > silent_at(execution, eta) and execution.failures < UNREACHABLE_AFTER:
        yield ExecutionCondition("silent", f"nothing new for {length_text(now_ms - changed_at(execution))}")


def _missing(execution: Execution) -> Iterator[ExecutionCondition]:
    lost = [job for job in execution.jobs() if job.state is JobState.MISSING]
    never = [job.job_id for job in lost if is_unknown_to_source(job)]
    gone = [job.job_id for job in lost if not is_unknown_to_source(job)]
    texts = []
    if never:
        ids = ", ".join(never)
        texts.append(f"job id unknown to {execution.source}: {ids}; check the id, the region and the account")
    if gone:
        texts.append(f"{execution.source} no longer has {', '.join(gone)}")
    if texts:
        yield ExecutionCondition("missing", "; ".join(texts))


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def silent_at(execution: Execution, eta: Eta | None = None) -> int:
    """When the execution becomes silent, in epoch ms, unless a poll returns a change before that."""
    usually = eta.phase_usually if eta else None
    return changed_at(execution) + silence_ms(phase_of(execution), usually.high if usually else None)


def silence_ms(phase: ExecutionPhase, usual_seconds: float | None) -> int:
    """How long silence is normal in a phase that nine of ten leave within `usual_seconds`."""
    if usual_seconds is not None:
        return max(SILENT_AT_LEAST_MS, round(FAR * usual_seconds * 1000))
    return SILENT_PENDING_AFTER_MS if phase is ExecutionPhase.PENDING else SILENT_AFTER_MS


def changed_at(execution: Execution) -> int:
    """When a poll last returned a change; before the first change, the start."""
    return max(execution.last_change_at or 0, execution.started_at)


def length_text(ms: int) -> str:
    """A duration for people: `90 s`, `12 min`, `3.5 h`."""
    seconds = max(ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


NOW_MS = 2000  # a poll that is overdue by less is about to happen


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about an execution."""

    about: str
    text: str
    at: int | None = None  # epoch ms, where it has a time


def explain_execution(
    execution: Execution, now_ms: int, cadence: LearnedCadence | None = None
) -> Iterator[Fact]:
    """Why it is still running, or how it ended; with a cadence, how long others took."""
    if execution.other_status is not None:
        yield Fact("status", f"{execution.other_status}, set by {status_writer(execution)}")
    note = (execution.stored or {}).get("PackedNote")
    if note:
        yield Fact("record", str(note))
    if execution.verdict is not None:
        yield from _ending(execution)
    elif execution.closed:
        yield Fact("closed", "managed by another program; longwatch does not poll it")
    else:
        eta = cadence.eta_of(execution, now_ms) if cadence else None
        yield from _why_open(execution, now_ms, eta)
        yield from _last_facts(execution)
        yield _lease(execution, now_ms)
        yield _next_poll(execution, now_ms)
        yield from _deadline(execution, now_ms)


def _ending(execution: Execution) -> Iterator[Fact]:
    verdict = execution.verdict
    assert verdict is not None
    corrects = f", corrects {verdict.corrects}" if verdict.corrects else ""
    yield Fact("verdict", f"{verdict_text(verdict)}{corrects}", verdict.at)
    for reason in (verdict.message or "").split("; "):
        if reason:
            yield Fact("reason", reason)
    for warning in verdict.warnings:
        yield Fact("warning", warning)
    for fact in verdict.assumed:
        yield Fact("assumed", fact)
    for evidence in verdict.evidence:
        yield Fact("evidence", evidence.call, evidence.at)
    if execution.recheck_at is not None:
        yield Fact("next recheck", "until nothing is assumed", execution.recheck_at)


def _why_open(execution: Execution, now_ms: int, eta: Eta | None) -> Iterator[Fact]:
    """The ETA comes first: it shows whether the rest is unusual."""
    if eta is not None:
        expected = None if eta.left is None else now_ms + round(eta.left.middle * 1000)
        yield Fact("expected", f"{eta.text()} ({eta.executions} before it)", expected)
    yield Fact("waiting for", waiting_for(execution, now_ms) or "")
    for condition in conditions_by(execution, now_ms, eta):
        yield Fact(condition.name, condition.message)
    received = "" if execution.last_answer_at is not None else " (no response yet)"
    yield Fact("phase", f"{phase_of(execution)}{received}, {_cadence_text(execution)}")
    yield Fact(f"{execution.mode.terms.stage}s", _stages_text(execution))


def _cadence_text(execution: Execution) -> str:
    polled, plain = execution.last_polled_at, delay_of(execution)
    if polled is None:
        return f"polled every {plain:g} s"
    delay = f"{max(0, next_poll_at(execution) - polled) / 1000:.0f} s"
    requested = execution.next_poll_at is not None and execution.next_poll_at > polled
    if execution.failures:
        why = f"as {execution.source} requests" if requested else f"after failed poll {execution.failures}"
        return f"retried after {delay}, {why}"
    return f"polled after {delay} instead of {plain:g} s" if requested else f"polled every {plain:g} s"


def _last_facts(execution: Execution) -> Iterator[Fact]:
    if execution.last_change_at is not None:
        yield Fact("last change", _counts(execution), execution.last_change_at)
    if execution.last_answer_at is not None:
        yield Fact("last response", execution.source, execution.last_answer_at)
    else:
        yield Fact("last response", f"none yet from {execution.source}")
    if execution.last_error:
        yield Fact("last error", execution.last_error, execution.last_polled_at)


def _lease(execution: Execution, now_ms: int) -> Fact:
    """Which poller may poll it now, and until when. The holder of an expired lease has died."""
    holder, until = execution.lease_holder, execution.lease_until
    if holder is None or until is None:
        return Fact("lease", "none")
    if is_leased(execution, now_ms):
        return Fact("lease", f"{holder}, expires in {length_text(until - now_ms)}", until)
    if until > now_ms:
        return Fact("lease", f"{holder}, ignored: it expires too far ahead for a correct clock", until)
    return Fact("lease", f"expired {length_text(now_ms - until)} ago: {holder} did not release it", until)


def _next_poll(execution: Execution, now_ms: int) -> Fact:
    due, until = next_poll_at(execution), execution.lease_until
    if until is not None and is_leased(execution, now_ms):
        left = length_text(max(due, until) - now_ms)
        return Fact("next poll", f"in progress; if it does not finish, in {left}", max(due, until))
    return Fact("next poll", next_poll_text(execution, now_ms), due)


def next_poll_text(execution: Execution, now_ms: int) -> str:
    """When it is polled next: `in 12 s`, `in progress`, `overdue by 5 min`."""
    due = next_poll_at(execution)
    if is_leased(execution, now_ms):
        return "in progress"
    if not is_due(execution, now_ms):
        return f"in {length_text(due - now_ms)}"
    return "now" if now_ms - due < NOW_MS else f"overdue by {length_text(now_ms - due)}"


def _deadline(execution: Execution, now_ms: int) -> Iterator[Fact]:
    deadline = deadline_at(execution)
    if deadline is not None:
        left = deadline - now_ms
        text = (
            f"in {length_text(left)}" if left > 0 else f"passed {length_text(-left)} ago; the source decides"
        )
        yield Fact("deadline", text, deadline)


def _stages_text(execution: Execution) -> str:
    stored, total = len(execution.stages), execution.total_stages
    return f"{stored}, and more may follow" if total is None else f"{stored} of {total}"


def _counts(execution: Execution) -> str:
    """The states that responses reported."""
    items = [item for _, item in execution.items()]
    counts = Counter(state_text(each, execution.mode) for each in items)
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "no item is listed"


def waiting_for(execution: Execution, now_ms: int) -> str | None:
    """What has to happen before the execution can end; None once it has a verdict or is closed."""
    if not execution.is_open:
        return None
    terms = execution.mode.terms
    stages, total = execution.stages, execution.total_stages
    if not stages:
        return f"the first {terms.stage}: none is stored yet"
    unfinished = [stage for stage in stages if stage_outcome(stage, execution.mode, now_ms) is None]
    if unfinished:
        named = len(stages) > 1
        texts = [f"{stage.name}: {_in_stage(stage, execution)}" for stage in unfinished]
        return _few(texts, "; ", f"{terms.stage}s") if named else _in_stage(unfinished[0], execution)
    if total is None:
        return f"the number of {terms.stage}s: all stored {terms.stage}s have ended, and more may follow"
    if len(stages) < total:
        return f"{terms.stage} {len(stages) + 1} of {total}: not stored yet"
    return f"the next response from {execution.source}, which decides"


def is_unknown_to_source(job: Job) -> bool:
    """Whether the source reported that it has no such job, and never listed it before."""
    return (
        job.state is JobState.MISSING
        and job.source_status is None
        and not job.items
        and job.finished_at is None
    )


def is_unseen(thing: Job | WorkItem) -> bool:
    """Whether no response has reported it yet: its state is the one it was stored with."""
    pending = thing.state in (JobState.PENDING, ItemState.PENDING)
    return pending and thing.since is None and thing.source_status is None


def state_text(item: WorkItem, mode: Mode) -> str:
    """The state of an item for people; one that no response has reported has none."""
    return "not listed yet" if is_unseen(item) else mode.terms.state_text(item.state).replace("_", " ")


def _in_stage(stage: Stage, execution: Execution) -> str:
    if not stage.jobs:
        return "its job: none is stored yet"
    parts = [*_jobs_without_response(stage, execution.source), *_open_items(stage, execution.mode)]
    running = [job for job in stage.jobs if job.state not in (JobState.FINISHED, JobState.MISSING)]
    if parts:
        return _few(parts, ", ", "items") + _lateness(stage)
    items = list(stage.items())
    jobs = ", ".join(job.job_id for job in running or stage.jobs)
    if not items:
        return f"job {jobs} to list its items" + ("" if running else ": it has finished without any")
    if running:
        return f"{_all_ended(items, execution.mode)}, job {jobs} not finished"
    if execution.mode is Mode.RECOVERY and not any(item.steps for item in items):
        return f"the {execution.mode.terms.step}s: none is listed yet"
    return f"job {jobs} to be confirmed as finished"


def _jobs_without_response(stage: Stage, source: str) -> Iterator[str]:
    for job in stage.jobs:
        if is_unknown_to_source(job):
            yield f"job {job.job_id}: unknown to {source}"
        elif job.state is JobState.MISSING and job.finished_at is None:
            yield f"job {job.job_id}: {source} no longer has it"
        elif is_unseen(job) and not job.items:
            yield f"the first response from {source} about job {job.job_id}"


def _open_items(stage: Stage, mode: Mode) -> Iterator[str]:
    is_unreported = any(is_unseen(job) and not job.items for job in stage.jobs)
    for item in stage.items():
        if item.state is ItemState.UNKNOWN:
            yield f"{item.item_id} (unknown status {item.source_status!r})"
        elif not item.state.is_final:
            if not (is_unreported and is_unseen(item)):
                yield f"{item.item_id} ({state_text(item, mode)})"
        elif mode is Mode.RECOVERY and item.state is ItemState.DONE:
            for step in item.steps:
                if not step.state.is_final:
                    yield f"{mode.terms.step} {step.name} of {item.item_id}"


def _all_ended(items: Sequence[WorkItem], mode: Mode) -> str:
    count = len(items)
    all_of = "the only item" if count == 1 else f"all {count} items"
    failed = sum(item.state is not ItemState.DONE for item in items)
    if not failed:
        return f"{all_of} {mode.terms.done}"
    return f"{all_of} ended, {failed} of them not {mode.terms.done}" if count > 1 else f"{all_of} ended"


def _lateness(stage: Stage) -> str:
    finished = all(job.state is JobState.FINISHED for job in stage.jobs)
    is_late = finished and any(not item.state.is_final for item in stage.items())
    return ", not final although its job has finished" if is_late else ""


def _few(texts: Sequence[str], between: str, what: str) -> str:
    more = len(texts) - MOST_NAMED
    named = between.join(texts[:MOST_NAMED])
    return f"{named}{between}and {more} more {what if more > 1 else what[:-1]}" if more > 0 else named
