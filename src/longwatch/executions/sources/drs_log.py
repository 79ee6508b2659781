"""The log of a DRS job, from `DescribeJobLogItems`: why its servers failed.

A finished job names the servers that failed, but not the reasons; they are in its log, event by event.
Reading it needs the permission `drs:DescribeJobLogItems`. Without it the verdict has no reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from longwatch.executions.model import ItemState, Job, JobKind, JobState, WorkItem

LOG_CALL = "drs:DescribeJobLogItems"
READ_FOR_MS = 5 * 60 * 1000  # after a job was first seen finished: by then its log is complete
LONGEST_REASON = 500  # characters; errors of the service have up to 65,536


_GOALS = {
    JobKind.LAUNCH: ItemState.DONE,
    JobKind.TERMINATE: ItemState.TERMINATED,
    JobKind.SNAPSHOT: ItemState.DONE,
}


class LogMeaning(Enum):
    """What an event of the log means for the outcome."""

    STEP = auto()  # nothing: the job is running
    FAILURE = auto()
    LEFTOVER = auto()  # a failure afterwards, reported only where there is no other
    CANCEL = auto()
    END = auto()  # finished, which does not imply success


LOG_EVENTS: Mapping[str, tuple[LogMeaning, str]] = {
    "JOB_START": (LogMeaning.STEP, "the job has begun"),
    "SERVER_SKIPPED": (LogMeaning.FAILURE, "the server was skipped"),
    "CLEANUP_START": (LogMeaning.STEP, "cleaning up"),
    "CLEANUP_END": (LogMeaning.STEP, "cleaned up"),
    "CLEANUP_FAIL": (LogMeaning.LEFTOVER, "cleaning up failed"),
    "SNAPSHOT_START": (LogMeaning.STEP, "taking a snapshot"),
    "SNAPSHOT_END": (LogMeaning.STEP, "the snapshot is taken"),
    "SNAPSHOT_FAIL": (LogMeaning.FAILURE, "the snapshot failed"),
    "USING_PREVIOUS_SNAPSHOT": (LogMeaning.STEP, "using the previous snapshot"),
    "USING_PREVIOUS_SNAPSHOT_FAILED": (LogMeaning.FAILURE, "the previous snapshot could not be used"),
    "CONVERSION_START": (LogMeaning.STEP, "converting"),
    "CONVERSION_END": (LogMeaning.STEP, "converted"),
    "CONVERSION_FAIL": (LogMeaning.FAILURE, "the conversion failed"),
    "LAUNCH_START": (LogMeaning.STEP, "launching"),
    "LAUNCH_FAILED": (LogMeaning.FAILURE, "the launch failed"),
    "JOB_CANCEL": (LogMeaning.CANCEL, "the job was cancelled"),
    "JOB_END": (LogMeaning.END, "the job has finished"),
    "DEPLOY_NETWORK_CONFIGURATION_START": (LogMeaning.STEP, "deploying the network"),
    "DEPLOY_NETWORK_CONFIGURATION_END": (LogMeaning.STEP, "the network is deployed"),
    "DEPLOY_NETWORK_CONFIGURATION_FAILED": (LogMeaning.FAILURE, "the network could not be deployed"),
    "UPDATE_NETWORK_CONFIGURATION_START": (LogMeaning.STEP, "updating the network"),
    "UPDATE_NETWORK_CONFIGURATION_END": (LogMeaning.STEP, "the network is updated"),
    "UPDATE_NETWORK_CONFIGURATION_FAILED": (LogMeaning.FAILURE, "the network could not be updated"),
    "UPDATE_LAUNCH_TEMPLATE_START": (LogMeaning.STEP, "updating the launch template"),
    "UPDATE_LAUNCH_TEMPLATE_END": (LogMeaning.STEP, "the launch template is updated"),
    "UPDATE_LAUNCH_TEMPLATE_FAILED": (LogMeaning.FAILURE, "the launch template could not be updated"),
    "NETWORK_RECOVERY_FAIL": (LogMeaning.FAILURE, "the recovery of the network failed"),
}


@dataclass(slots=True)
class JobLog:
    """The outcome of one job according to its log."""

    cancelled: bool = False
    of_servers: dict[str, str] = field(default_factory=dict)  # reasons by the id of the server
    converted: set[str] = field(default_factory=set)  # servers whose last conversion succeeded
    of_job: str | None = None  # the reason, where no server is named
    _leftovers: dict[str, str] = field(default_factory=dict)

    def add(self, item: Mapping[str, Any]) -> None:
        """Add an event, of which no field is guaranteed. A later failure replaces an earlier one."""
        meaning, text = LOG_EVENTS.get(str(item.get("event")), (LogMeaning.STEP, ""))
        data = item.get("eventData") or {}
        server_id = data.get("sourceServerID")
        if meaning is LogMeaning.CANCEL:
            self.cancelled = True
        elif item.get("event") == "CONVERSION_END" and server_id:
            self.converted.add(server_id)
        elif meaning is LogMeaning.LEFTOVER and server_id:
            self._leftovers[server_id] = _reason(text, data)
        elif meaning is LogMeaning.FAILURE and server_id:
            self.of_servers[server_id] = _reason(text, data)
            self.converted.discard(server_id)
        elif meaning is LogMeaning.FAILURE:
            self.of_job = _reason(text, data)

    def reason_for(self, server_id: str) -> str | None:
        """Why this server failed; None if the log has no reason."""
        return self.of_servers.get(server_id) or self.of_job or self._leftovers.get(server_id)


def needs_log(stored: Job, reported: Job, now_ms: int) -> bool:
    """Whether to read the log of a job: it has finished, and the log may explain or decide something.

    A failure is explained once. For a server without a final state, `JOB_CANCEL` or the end of a conversion
    decides, and either may follow a failure of another server.
    """
    if reported.state is not JobState.FINISHED:
        return False
    if stored.finished_at is not None and now_ms - stored.finished_at > READ_FOR_MS:
        return False
    explained = {server.item_id for server in stored.items if server.reason}
    for server in reported.items:
        if _is_unfinished(server):
            if not stored.cancelled:
                return True
        elif server.state is not _GOALS[reported.kind] and server.item_id not in explained:
            return True
    return not reported.items


def keep_earlier_log(stored: Job, reported: Job) -> Job:
    """Keep what the log reported in an earlier poll: conversions are in the log alone."""
    if reported.kind is not JobKind.SNAPSHOT:
        return reported
    before = {server.item_id: server for server in stored.items if server.state.is_final}
    servers = tuple(
        replace(
            server, state=before[server.item_id].state, source_status=before[server.item_id].source_status
        )
        if _is_unfinished(server) and server.item_id in before
        else server
        for server in reported.items
    )
    return replace(reported, items=servers)


def apply_log(job: Job, log: JobLog) -> Job:
    """Apply the log to the job."""
    servers = tuple(_apply_to_server(server, job.kind, log) for server in job.items)
    return replace(job, items=servers, cancelled=job.cancelled or log.cancelled)


def _apply_to_server(server: WorkItem, kind: JobKind, log: JobLog) -> WorkItem:
    if server.state is _GOALS[kind]:
        return server
    if kind is JobKind.SNAPSHOT and _is_unfinished(server):
        if server.item_id in log.converted:
            return replace(server, state=ItemState.DONE, source_status="CONVERSION_END")
        if server.item_id in log.of_servers:
            return replace(server, state=ItemState.FAILED, reason=log.of_servers[server.item_id])
    reason = log.reason_for(server.item_id) or (LOG_EVENTS["JOB_CANCEL"][1] if log.cancelled else None)
    return replace(server, reason=reason or server.reason)


def _is_unfinished(server: WorkItem) -> bool:
    return server.state in (ItemState.PENDING, ItemState.IN_PROGRESS)


def parse_log(items: Iterable[Mapping[str, Any]]) -> JobLog:
    """The log of these events, sorted by time: the service does not guarantee an order."""
    log = JobLog()
    for item in sorted(items, key=lambda item: str(item.get("logDateTime") or "")):
        log.add(item)
    return log


def _reason(text: str, data: Mapping[str, Any]) -> str:
    attempt, most = data.get("attemptCount"), data.get("maxAttemptsCount")
    if attempt and most:
        text += f" (attempt {attempt} of {most})"
    error = " ".join(str(data.get("rawError") or "").split())
    if len(error) > LONGEST_REASON:
        error = error[: LONGEST_REASON - 1] + "…"
    return f"{text}: {error}" if error else text
