"""What simulated jobs do, and how they stand at any moment. Pure: time is seconds after the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longwatch.clock import iso_from_ms

# As a real drill was observed to take: pending 13 min 28 s, then active 6 min 16 s.
PENDING_SECONDS = 808.0
ACTIVE_SECONDS = 376.0

Steps = Sequence[tuple[float, str]]
"""Words, each with the seconds after the start at which it begins to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionScript:
    """One launch action of a server."""

    name: str
    begins: float  # seconds after the start of the job
    ends: float | None  # None: never
    status: str = "SUCCEEDED"
    reason: str | None = None

    def at(self, seconds: float, run_id: str) -> dict[str, Any] | None:
        """The run as DRS would list it, or None before it begins."""
        if seconds < self.begins:
            return None
        over = self.ends is not None and seconds >= self.ends
        run: dict[str, Any] = {
            "action": {"name": self.name},
            "runId": run_id,
            "status": self.status if over else "IN_PROGRESS",
        }
        if over and self.reason:
            run["failureReason"] = self.reason
        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScript:
    """One server of a job: its launch status, step by step."""

    server_id: str
    steps: Steps
    actions: Sequence[ActionScript] = ()
    listed_from: float = 0.0  # seconds: a job may list its servers one by one
    with_instance: frozenset[str] = frozenset({"LAUNCHED", "TERMINATED"})  # statuses with an instance

    def at(self, seconds: float, number: int) -> dict[str, Any] | None:
        """The server as DRS would list it, or None before it does."""
        if seconds < self.listed_from:
            return None
        word = step_at(self.steps, seconds)
        shown: dict[str, Any] = {"sourceServerID": server_id_of(self.server_id), "launchStatus": word}
        if word in self.with_instance:
            shown["recoveryInstanceID"] = f"i-{number:017x}"
        runs = [
            run
            for index, action in enumerate(self.actions)
            if (run := action.at(seconds, f"{number:08x}-0000-4000-8000-{index:012x}")) is not None
        ]
        if runs:
            shown["launchActionsStatus"] = {"runs": runs}
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScript:
    """One event of a job's log."""

    after: float  # seconds after the start of the job
    event: str
    server_id: str | None = None
    error: str | None = None
    attempt: int | None = None  # of three

    def item(self, started_at: int) -> dict[str, Any]:
        """The event as DRS would list it."""
        data: dict[str, Any] = {}
        if self.server_id is not None:
            data["sourceServerID"] = server_id_of(self.server_id)
        if self.error is not None:
            data["rawError"] = self.error
        if self.attempt is not None:
            data |= {"attemptCount": self.attempt, "maxAttemptsCount": 3}
        return {
            "logDateTime": iso_from_ms(started_at + round(self.after * 1000)),
            "event": self.event,
            "eventData": data,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScript:
    """A job: its statuses, its servers, and events of its log besides start, failures and end.

    A server that fails is in the log with `LAUNCH_FAILED`, unless `log` has another failure of it.
    """

    servers: Sequence[ServerScript]
    steps: Steps
    initiated_by: str = "START_DRILL"
    gone_after: float | None = None  # seconds; DRS drops old jobs
    log: Sequence[LogScript] = ()

    def at(self, seconds: float, *, job_id: str, started_at: int) -> dict[str, Any] | None:
        """The job as DRS would describe it, or None where it has no such job."""
        if self.gone_after is not None and seconds >= self.gone_after:
            return None
        word = step_at(self.steps, seconds)
        job: dict[str, Any] = {
            "jobID": job_id,
            "type": "LAUNCH",
            "initiatedBy": self.initiated_by,
            "status": word,
            "creationDateTime": iso_from_ms(started_at),
            "participatingServers": [
                shown
                for number, server in enumerate(self.servers, 1)
                if (shown := server.at(seconds, number)) is not None
            ],
        }
        if word == "COMPLETED":
            finished = next(after for after, step in self.steps if step == "COMPLETED")
            job["endDateTime"] = iso_from_ms(started_at + round(finished * 1000))
        return job

    def log_at(self, seconds: float, *, started_at: int) -> list[dict[str, Any]]:
        """The job's log as DRS would list it by then."""
        written = [LogScript(after=0.0, event="JOB_START"), *self.log]
        logged = {each.server_id for each in self.log}
        written += [
            LogScript(after=after, event="LAUNCH_FAILED", server_id=server.server_id, error="launch failed")
            for server in self.servers
            for after, word in server.steps
            if word == "FAILED" and server.server_id not in logged
        ]
        written += [
            LogScript(after=after, event="JOB_END") for after, word in self.steps if word == "COMPLETED"
        ]
        return [each.item(started_at) for each in sorted(written, key=_after) if each.after <= seconds]

    def cancelled(self, after: float) -> JobScript:
        """The same job, cancelled after so many seconds: servers that are not launched by then never are."""
        return replace(
            self,
            servers=[_stopped(server, after) for server in self.servers],
            steps=[*(step for step in self.steps if step[0] < after), (after, "COMPLETED")],
            log=[*self.log, LogScript(after=after, event="JOB_CANCEL")],
        )

    def without(
        self,
        server_id: str,
        *,
        after: float = 0.0,
        word: str = "FAILED",
        event: str | None = None,
        error: str | None = None,
    ) -> JobScript:
        """The same job in which this server reaches this status instead of being launched.

        `event` and `error` are its entry in the job's log.
        """

        def replace_steps(server: ServerScript) -> ServerScript:
            if server.server_id != server_id:
                return server
            kept = [step for step in server.steps if step[0] < after or step[1] == "PENDING"]
            return replace(server, steps=[*kept, (after, word)], actions=())

        log = list(self.log)
        if event is not None or error is not None:
            log.append(
                LogScript(after=after, event=event or "LAUNCH_FAILED", server_id=server_id, error=error)
            )
        return replace(self, servers=[replace_steps(server) for server in self.servers], log=log)


def drill(
    *server_ids: str, pending: float = PENDING_SECONDS, active: float = ACTIVE_SECONDS, spread: float = 0.0
) -> JobScript:
    """A drill that succeeds. With `spread`, each server is that many seconds behind the one before it."""
    servers = [
        ServerScript(
            server_id=server_id,
            steps=[
                (0.0, "PENDING"),
                (pending + number * spread, "IN_PROGRESS"),
                (pending + active + number * spread, "LAUNCHED"),
            ],
        )
        for number, server_id in enumerate(server_ids)
    ]
    end = pending + active + max(0, len(server_ids) - 1) * spread
    return JobScript(servers=servers, steps=[(0.0, "PENDING"), (pending, "STARTED"), (end, "COMPLETED")])


def recovery(
    *server_ids: str,
    pending: float = PENDING_SECONDS,
    active: float = ACTIVE_SECONDS,
    actions: Mapping[str, float] | None = None,
) -> JobScript:
    """A recovery that succeeds. `actions`: the launch actions of each server, and the seconds each takes."""
    launched = pending + active
    scripts = []
    begins = launched
    for name, takes in (actions or {}).items():
        scripts.append(ActionScript(name=name, begins=launched, ends=begins + takes))
        begins += takes
    plain = drill(*server_ids, pending=pending, active=active)
    return replace(
        plain,
        servers=[replace(server, actions=scripts) for server in plain.servers],
        initiated_by="START_RECOVERY",
    )


def _stopped(server: ServerScript, after: float) -> ServerScript:
    return replace(server, steps=[step for step in server.steps if step[0] < after], actions=())


def _after(entry: LogScript) -> float:
    return entry.after


def step_at(steps: Steps, seconds: float) -> str:
    """The status at this time."""
    words = [word for begins, word in steps if begins <= seconds]
    return words[-1] if words else "PENDING"


def server_id_of(name: str) -> str:
    """A short name as an id of DRS: `s-1` becomes `s-` and 17 characters."""
    return _long(name, "s-")


def job_id_of(name: str) -> str:
    """A short name as a job id of DRS."""
    return _long(name, "drsjob-")


def _long(name: str, prefix: str) -> str:
    plain = "".join(each for each in name.removeprefix(prefix) if each.isalnum())
    return prefix + plain[:17].rjust(17, "0")
