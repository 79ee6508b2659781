"""Responses of sources, and how they change an execution.

Every response carries the time of its source (`SourceResponse.at`), so that periods between responses are
correct whichever pollers received them. Times do not order responses: the version of the record decides which
write counts.
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
    """What a source returned about one execution: by which call, when, and the jobs as the source has them.

    `missing` has the polled jobs that the source does not have.
    """

    call: str  # as "drs:DescribeJobs"
    at: int  # epoch ms; by the `Date` of the source's response, or by the local clock where it sends none
    jobs: Mapping[str, Job] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    next_at: int | None = None  # epoch ms; the earliest next poll; None: the cadence decides
    warnings: tuple[str, ...] = ()  # details that could not be read, and that decide nothing
    polled_at: int | None = None  # epoch ms by the poller's clock, for its schedule; None: the same as `at`
    retry_after_seconds: float | None = None  # requested by the source; `next_at` is no earlier
    is_dated: bool = False  # whether `at` is the source's; if not, the store's time is used where it has one

    @property
    def is_response(self) -> bool:
        """Whether the source was polled at all: an execution without a job needs no call."""
        return bool(self.jobs or self.missing)

    @property
    def evidence(self) -> Evidence:
        """The response as a verdict cites it."""
        return Evidence(
            self.call,
            self.at,
            {
                "jobs": {job_id: _job_evidence(job) for job_id, job in sorted(self.jobs.items())},
                **({"missing": sorted(self.missing)} if self.missing else {}),
                **({"warnings": list(self.warnings)} if self.warnings else {}),
            },
        )


def _job_evidence(job: Job) -> dict[str, object]:
    reasons = {each.item_id: each.reason for each in job.items if each.reason}
    return {
        "status": job.source_status or job.state.value,
        "servers": {each.item_id: each.source_status or each.state.value for each in job.items},
        **({"cancelled": True} if job.cancelled else {}),
        **({"reasons": reasons} if reasons else {}),
    }


def redact_response(response: SourceResponse, redact: Callable[[str], str]) -> SourceResponse:
    """Remove secrets from the texts of a response: sources quote messages of other systems."""
    return replace(
        response,
        jobs={job_id: _redact_job(job, redact) for job_id, job in response.jobs.items()},
        warnings=tuple(redact(each) for each in response.warnings),
    )


def _redact_job(job: Job, redact: Callable[[str], str]) -> Job:
    items = tuple(
        replace(
            item,
            source_status=item.source_status and redact(item.source_status),
            reason=item.reason and redact(item.reason),
            steps=tuple(_redact_step(each, redact) for each in item.steps),
        )
        for item in job.items
    )
    return replace(job, source_status=job.source_status and redact(job.source_status), items=items)


def _redact_step(step: Step, redact: Callable[[str], str]) -> Step:
    return replace(
        step,
        source_status=step.source_status and redact(step.source_status),
        reason=step.reason and redact(step.reason),
    )


def apply_response(execution: Execution, response: SourceResponse) -> Execution:
    """The execution as of this response."""
    stages = tuple(_apply_to_stage(stage, response, execution.last_answer_at) for stage in execution.stages)
    return replace(
        execution,
        stages=stages,
        last_polled_at=response.at if response.polled_at is None else response.polled_at,
        last_answer_at=response.at if response.is_response else execution.last_answer_at,
        last_change_at=response.at if stages != execution.stages else execution.last_change_at,
        failures=0,
        last_error=None,
        next_poll_at=response.next_at,
    )


def record_failure(execution: Execution, at: int, problem: str, *, retry_after_ms: int | None) -> Execution:
    """The execution after a poll without a response. It stays open: silence is not a verdict."""
    return replace(
        execution,
        last_polled_at=at,
        failures=execution.failures + 1,
        last_error=problem,
        next_poll_at=None if retry_after_ms is None else at + retry_after_ms,
    )


def _apply_to_stage(stage: Stage, response: SourceResponse, previous_at: int | None) -> Stage:
    return replace(stage, jobs=tuple(_apply_to_job(job, response, previous_at) for job in stage.jobs))


def _apply_to_job(stored: Job, response: SourceResponse, previous_at: int | None) -> Job:
    reported = response.jobs.get(stored.job_id)
    if reported is None:
        return (
            _mark_missing(stored, response.at, previous_at) if stored.job_id in response.missing else stored
        )
    finished = reported.state is JobState.FINISHED
    return replace(
        reported,
        region=reported.region or stored.region,
        account=reported.account or stored.account,
        since=_since(stored.state, stored.since, reported.state, response.at),
        finished_at=min(stored.finished_at or response.at, response.at) if finished else None,
        finished_polls=_finished_polls(stored) if finished else 0,
        finished_for_ms=_finished_for_ms(stored, response.at, previous_at) if finished else None,
        cancelled=reported.cancelled or (stored.cancelled and finished),
        items=_merge_items(stored, reported, response.at),
    )


def _mark_missing(stored: Job, at: int, previous_at: int | None) -> Job:
    since = _since(stored.state, stored.since, JobState.MISSING, at)
    if stored.finished_at is None:
        return replace(stored, state=JobState.MISSING, since=since)
    polls, lasts = _finished_polls(stored), _finished_for_ms(stored, at, previous_at)
    return replace(stored, state=JobState.MISSING, since=since, finished_polls=polls, finished_for_ms=lasts)


def _finished_polls(stored: Job) -> int:
    """Count up to what the grace period needs, so that the record does not change with every poll."""
    return min(stored.finished_polls + 1, GRACE_POLLS)


def _finished_for_ms(stored: Job, at: int, previous_at: int | None) -> int:
    """Add the time between two polls that found it finished, up to the limit of one gap."""
    if stored.finished_for_ms is None:
        return 0
    gap = 0 if previous_at is None else min(max(0, at - previous_at), GRACE_MS // (GRACE_POLLS - 1))
    return min(stored.finished_for_ms + gap, GRACE_MS)


def _merge_items(stored: Job, reported: Job, at: int) -> tuple[WorkItem, ...]:
    """The items that the source lists, and those it listed before: an item that it drops has not ended."""
    earlier_by_id = {item.item_id: item for item in stored.items}
    now = {item.item_id: item for item in reported.items}
    merged = []
    for item_id in dict.fromkeys([*earlier_by_id, *now]):
        item = now.get(item_id)
        earlier = earlier_by_id.get(item_id)
        merged.append(_merge_item(earlier, item, at) if item else earlier_by_id[item_id])
    return tuple(merged)


def _merge_item(stored: WorkItem | None, reported: WorkItem, at: int) -> WorkItem:
    if stored is None:
        return replace(reported, since=at, steps=_merge_steps((), reported.steps, at))
    return replace(
        reported,
        since=_since(stored.state, stored.since, reported.state, at),
        instance_id=reported.instance_id or stored.instance_id,
        # A source reports the reason once; it holds as long as the state does.
        reason=reported.reason or (stored.reason if reported.state is stored.state else None),
        steps=_merge_steps(stored.steps, reported.steps, at),
    )


def _merge_steps(stored: tuple[Step, ...], reported: tuple[Step, ...], at: int) -> tuple[Step, ...]:
    earlier_by_id = {step.run_id: step for step in stored}
    now = {step.run_id: step for step in reported}
    merged = []
    for run_id in dict.fromkeys([*earlier_by_id, *now]):
        step, earlier = now.get(run_id), earlier_by_id.get(run_id)
        if step is None:
            merged.append(earlier_by_id[run_id])
        elif earlier is None:
            merged.append(replace(step, since=at))
        else:
            merged.append(replace(step, since=_since(earlier.state, earlier.since, step.state, at)))
    return tuple(merged)


def _since(stored: object, since: int | None, reported: object, at: int) -> int:
    """When the state was first reported; a stored state that no response has confirmed is reported now."""
    return since if stored is reported and since is not None else at


def next_recheck_at(given: Verdict, now_ms: int) -> int | None:
    """When to check this verdict again, in epoch ms; None: it assumes nothing."""
    if not given.assumed:
        return None
    return now_ms + min(max(now_ms - given.at, FIRST_RECHECK_MS), LONGEST_RECHECK_MS)


def is_recheck_due(execution: Execution, now_ms: int) -> bool:
    """Whether it is time to check the verdict of a closed execution again."""
    return execution.closed and execution.recheck_at is not None and now_ms >= execution.recheck_at


def apply_recheck(execution: Execution, response: SourceResponse) -> Execution:
    """The closed execution as of this response: its verdict corrected, confirmed, or as uncertain as before.

    A correction has another status, or reports facts that were assumed before.
    """
    given = execution.verdict
    assert given is not None
    after = apply_response(execution, response)
    later = decide_verdict(after, (response.evidence,), response.at)
    if later is None:
        current = given
    elif later.status is not given.status or (
        given.assumed and not later.assumed and later.message != given.message
    ):
        current = later
    else:
        current = replace(given, assumed=later.assumed if given.assumed else ())
    is_over = not current.assumed or all(job.state is JobState.MISSING for job in after.jobs())
    return replace(after, verdict=current, recheck_at=None if is_over else execution.recheck_at)
