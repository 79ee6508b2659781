"""What a source answered, and what an execution looks like once the answer is known.

Every observation is stamped with the time of its source (`SourceResponse.at`), so that periods between
observations are true, whichever pollers made them. Times do not order answers: the version of the record
decides which write counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from longwatch.executions.model import Evidence, Execution, Job, JobState, Stage, Step, Verdict, WorkItem
from longwatch.executions.outcomes import GRACE_MS, GRACE_POLLS, decide_verdict

# A verdict that rests on an assumption, such as "still pending after the grace period: failed", is checked
# again after 2 minutes and then each time after as long as it has stood, at most a day. Rechecks end when
# nothing is assumed any more, or when the source has dropped the job.
FIRST_RECHECK_MS = 2 * 60 * 1000
LONGEST_RECHECK_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SourceResponse:
    """One answer: which call gave it, when, and the jobs as the source has them.

    A job that was asked about and is not among them is unknown to the source, now. Jobs that were not asked
    about are in neither.
    """

    call: str  # as "drs:DescribeJobs"
    at: int  # epoch ms; by the `Date` of the source's response, or by the local clock where it sends none
    jobs: Mapping[str, Job] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    next_at: int | None = None  # epoch ms; when the source is to be asked again; None: the cadence decides
    warnings: tuple[str, ...] = ()  # what could not be learned, and does not matter for how it stands
    polled_at: int | None = None  # epoch ms by the poller's clock, for its schedule; None: the same as `at`
    retry_after_seconds: float | None = None  # what the source asked for; `next_at` is no earlier
    is_dated: bool = False  # whether `at` is the source's; if not, the store's time is used where it has one

    @property
    def is_response(self) -> bool:
        """Whether the source was asked at all: an execution that has no job yet asks nothing."""
        return bool(self.jobs or self.missing)

    @property
    def evidence(self) -> Evidence:
        """The answer as a verdict cites it."""
        return Evidence(
            self.call,
            self.at,
            {
                "jobs": {job_id: _cited(job) for job_id, job in sorted(self.jobs.items())},
                **({"missing": sorted(self.missing)} if self.missing else {}),
                **({"warnings": list(self.warnings)} if self.warnings else {}),
            },
        )


def _cited(job: Job) -> dict[str, object]:
    reasons = {each.item_id: each.reason for each in job.items if each.reason}
    return {
        "status": job.source_status or job.state.value,
        "servers": {each.item_id: each.source_status or each.state.value for each in job.items},
        **({"cancelled": True} if job.cancelled else {}),
        **({"reasons": reasons} if reasons else {}),
    }


def redact_response(answer: SourceResponse, redact: Callable[[str], str]) -> SourceResponse:
    """The answer without secrets in its texts. Sources quote messages of systems that may contain any."""
    return replace(
        answer,
        jobs={job_id: _redacted_job(job, redact) for job_id, job in answer.jobs.items()},
        warnings=tuple(redact(each) for each in answer.warnings),
    )


def _redacted_job(job: Job, redact: Callable[[str], str]) -> Job:
    servers = tuple(
        replace(
            server,
            source_status=server.source_status and redact(server.source_status),
            reason=server.reason and redact(server.reason),
            steps=tuple(_redacted_action(each, redact) for each in server.steps),
        )
        for server in job.items
    )
    return replace(job, source_status=job.source_status and redact(job.source_status), items=servers)


def _redacted_action(action: Step, redact: Callable[[str], str]) -> Step:
    return replace(
        action,
        source_status=action.source_status and redact(action.source_status),
        reason=action.reason and redact(action.reason),
    )


def apply_response(execution: Execution, answer: SourceResponse) -> Execution:
    """The execution with this answer."""
    waves = tuple(_wave(wave, answer, execution.last_answer_at) for wave in execution.stages)
    return replace(
        execution,
        stages=waves,
        last_polled_at=answer.at if answer.polled_at is None else answer.polled_at,
        last_answer_at=answer.at if answer.is_response else execution.last_answer_at,
        last_change_at=answer.at if waves != execution.stages else execution.last_change_at,
        failures=0,
        last_error=None,
        next_poll_at=answer.next_at,
    )


def record_failure(execution: Execution, at: int, problem: str, *, retry_after_ms: int | None) -> Execution:
    """The execution after a poll that brought no answer. It stays open: silence is no verdict."""
    return replace(
        execution,
        last_polled_at=at,
        failures=execution.failures + 1,
        last_error=problem,
        next_poll_at=None if retry_after_ms is None else at + retry_after_ms,
    )


def _wave(wave: Stage, answer: SourceResponse, before: int | None) -> Stage:
    return replace(wave, jobs=tuple(_job(job, answer, before) for job in wave.jobs))


def _job(known: Job, answer: SourceResponse, before: int | None) -> Job:
    told = answer.jobs.get(known.job_id)
    if told is None:
        return _missing(known, answer.at, before) if known.job_id in answer.missing else known
    finished = told.state is JobState.FINISHED
    return replace(
        told,
        region=told.region or known.region,
        account=told.account or known.account,
        since=_since(known.state, known.since, told.state, answer.at),
        finished_at=min(known.finished_at or answer.at, answer.at) if finished else None,
        finished_polls=_finished_polls(known) if finished else 0,
        finished_for_ms=_finished_for_ms(known, answer.at, before) if finished else None,
        cancelled=told.cancelled or (known.cancelled and finished),
        items=_servers(known, told, answer.at),
    )


def _missing(known: Job, at: int, before: int | None) -> Job:
    since = _since(known.state, known.since, JobState.MISSING, at)
    if known.finished_at is None:
        return replace(known, state=JobState.MISSING, since=since)
    polls, lasts = _finished_polls(known), _finished_for_ms(known, at, before)
    return replace(known, state=JobState.MISSING, since=since, finished_polls=polls, finished_for_ms=lasts)


def _finished_polls(known: Job) -> int:
    """One more than before, as far as it matters: a record is not to change with every poll."""
    return min(known.finished_polls + 1, GRACE_POLLS)


def _finished_for_ms(known: Job, at: int, before: int | None) -> int:
    """The time between two polls that found it finished is added, as far as one gap may count."""
    if known.finished_for_ms is None:
        return 0
    gap = 0 if before is None else min(max(0, at - before), GRACE_MS // (GRACE_POLLS - 1))
    return min(known.finished_for_ms + gap, GRACE_MS)


def _servers(known: Job, told: Job, at: int) -> tuple[WorkItem, ...]:
    """What the source lists, and what it listed before: a server that is no longer listed has not ended."""
    before = {server.item_id: server for server in known.items}
    now = {server.item_id: server for server in told.items}
    merged = []
    for server_id in dict.fromkeys([*before, *now]):
        server, earlier = now.get(server_id), before.get(server_id)
        merged.append(_server(earlier, server, at) if server else before[server_id])
    return tuple(merged)


def _server(known: WorkItem | None, told: WorkItem, at: int) -> WorkItem:
    if known is None:
        return replace(told, since=at, steps=_actions((), told.steps, at))
    return replace(
        told,
        since=_since(known.state, known.since, told.state, at),
        instance_id=told.instance_id or known.instance_id,
        # Why it is so is said once, and holds as long as it is so.
        reason=told.reason or (known.reason if told.state is known.state else None),
        steps=_actions(known.steps, told.steps, at),
    )


def _actions(known: tuple[Step, ...], told: tuple[Step, ...], at: int) -> tuple[Step, ...]:
    before = {action.run_id: action for action in known}
    now = {action.run_id: action for action in told}
    merged = []
    for run_id in dict.fromkeys([*before, *now]):
        action, earlier = now.get(run_id), before.get(run_id)
        if action is None:
            merged.append(before[run_id])
        elif earlier is None:
            merged.append(replace(action, since=at))
        else:
            merged.append(replace(action, since=_since(earlier.state, earlier.since, action.state, at)))
    return tuple(merged)


def _since(known: object, since: int | None, told: object, at: int) -> int:
    """When the state was first seen: what was stored and never seen at the source is seen now."""
    return since if known is told and since is not None else at


def next_recheck_at(given: Verdict, now_ms: int) -> int | None:
    """When to check this verdict again, in epoch ms; None: it assumes nothing."""
    if not given.assumed:
        return None
    return now_ms + min(max(now_ms - given.at, FIRST_RECHECK_MS), LONGEST_RECHECK_MS)


def is_recheck_due(execution: Execution, now_ms: int) -> bool:
    """Whether it is time to check the verdict of a closed execution again."""
    return execution.closed and execution.recheck_at is not None and now_ms >= execution.recheck_at


def apply_recheck(execution: Execution, answer: SourceResponse) -> Execution:
    """The closed execution with this answer: its verdict corrected, confirmed, or as uncertain as before.

    A correction has another status, or reports facts that were assumed before.
    """
    given = execution.verdict
    assert given is not None
    after = apply_response(execution, answer)
    later = decide_verdict(after, (answer.evidence,), answer.at)
    if later is None:
        kept = given
    elif later.status is not given.status or (
        given.assumed and not later.assumed and later.message != given.message
    ):
        kept = later
    else:
        kept = replace(given, assumed=later.assumed if given.assumed else ())
    jobs = [job for wave in after.stages for job in wave.jobs]
    is_over = not kept.assumed or all(job.state is JobState.MISSING for job in jobs)
    return replace(after, verdict=kept, recheck_at=None if is_over else execution.recheck_at)
