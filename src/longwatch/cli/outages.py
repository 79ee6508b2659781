"""Outages of sources, each reported once however many executions and retries it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longwatch.cli.render.times import duration_text
from longwatch.executions.model import Execution, ExecutionKey

if TYPE_CHECKING:
    from longwatch.executions.poller import PollReport

OutageScope = tuple[str, str, str]
"""A source, where it is polled, and the message of a problem that does not pass by itself."""


class Outages:
    """Sources without a response, since when, and for which executions."""

    def __init__(self) -> None:
        self._since: dict[OutageScope, int] = {}
        self._waiting: dict[ExecutionKey, OutageScope] = {}

    def line(self, polled: PollReport, *, now_ms: int) -> str | None:
        """What to report about a poll: that an outage begins or is over. None: nothing is new."""
        execution, problem = polled.execution, polled.problem
        if problem is not None:
            scope = (execution.source, _target(execution), problem.message if problem.lasting else "")
            self._waiting[execution.key] = scope
            if scope in self._since:
                return None
            self._since[scope] = now_ms
            return f"{execution.source}: no response: {problem.message}. Retrying"
        if polled.result.value not in ("asked", "ended"):
            return None
        over = self._waiting.pop(execution.key, None)
        since = self._since.pop(over, None) if over is not None else None
        if since is None:
            return None
        return f"{execution.source}: responds again after {duration_text(now_ms - since)}"


def _target(execution: Execution) -> str:
    """Where an execution is polled: the host of a URL, or an account and a region."""
    job = next(execution.jobs(), None)
    if job is None:
        return ""
    return urlsplit(job.job_id).netloc if "://" in job.job_id else f"{job.account or ''} {job.region or ''}"
