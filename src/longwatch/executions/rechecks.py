"""Rechecks of verdicts that rest on an assumption, such as "still pending after the grace period: failed".

The source may still report otherwise, for as long as it keeps the job. So such a verdict is checked again
after 2 minutes, and then each time after as long as it has stood, at most a day. Rechecks end when nothing
is assumed any more, or when the source has dropped the job.
"""

from __future__ import annotations

from dataclasses import replace

from longwatch.executions.model import Execution, JobState, Verdict
from longwatch.executions.outcomes import decide_verdict
from longwatch.executions.responses import SourceResponse, apply_response

FIRST_RECHECK_MS = 2 * 60 * 1000
LONGEST_RECHECK_MS = 24 * 60 * 60 * 1000


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
