"""AWS Elastic Disaster Recovery: maps the responses of `DescribeJobs` to the model.

No job status means failure: COMPLETED only means that the job has finished. Its servers have the outcome, and
its log the reasons. Jobs belong to a region and an account, so each such target is called separately. Polling
needs the permissions `drs:DescribeJobs` and, for reasons, `drs:DescribeJobLogItems`; nothing else is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import MissingExtra
from longwatch.executions.model import (
    Execution,
    ExecutionKey,
    ItemState,
    Job,
    JobKind,
    JobState,
    Step,
    StepState,
    WorkItem,
)
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.aws import (
    aws_client,
    credentials_problem,
    prepare_client,
    response_retry_after,
    sdk_problem,
    service_problem,
)
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.sources.dates import observed_at, sdk_date_ms, time_ms
from longwatch.executions.sources.declarations import AwsCall
from longwatch.executions.sources.declared import AwsTarget
from longwatch.executions.sources.drs_log import LOG_CALL, apply_log, keep_earlier_log, needs_log, parse_log
from longwatch.executions.truncation import LONGEST_STATUS, storable_text

CALL = "drs:DescribeJobs"
JOBS_AT_ONCE = 200  # ids in one call; the limit is 1,000, and responses are paged in any case
MAX_EMPTY_PAGES = 100  # in a row, without another job
MAX_LOG_PAGES = 200
LOGS_SECONDS = 20.0  # for all logs of one poll, which must end before the lease does

JOB_STATES: Mapping[str, JobState] = {
    "PENDING": JobState.PENDING,
    "STARTED": JobState.STARTED,
    "COMPLETED": JobState.FINISHED,
}
SERVER_STATES: Mapping[str, ItemState] = {
    "PENDING": ItemState.PENDING,
    "IN_PROGRESS": ItemState.IN_PROGRESS,
    "LAUNCHED": ItemState.DONE,
    "FAILED": ItemState.FAILED,
    "TERMINATED": ItemState.TERMINATED,
}
JOB_KINDS: Mapping[str, JobKind] = {
    "LAUNCH": JobKind.LAUNCH,
    "TERMINATE": JobKind.TERMINATE,
    "CREATE_CONVERTED_SNAPSHOT": JobKind.SNAPSHOT,
}
ACTION_STATES: Mapping[str, StepState] = {
    "IN_PROGRESS": StepState.IN_PROGRESS,
    "SUCCEEDED": StepState.SUCCEEDED,
    "FAILED": StepState.FAILED,
}
DESCRIBE_JOBS = AwsCall(service="DRS", signed_as="drs", operation="DescribeJobs")  # for messages

Jobs = dict[AwsTarget, dict[str, Job | SourceProblem]]
"""What each target returned about each job."""
Warnings = Mapping[tuple[AwsTarget, str], SourceProblem]
"""Why the log of a job could not be read."""
ConnectClient = Callable[[str | None, str | None], Any]
"""Makes a boto3 client for DRS in a region and an account."""


class DrsSource:
    """A `Source` for DRS. `connect` makes the client for a target; jobs of other accounts need one."""

    name = "drs"

    def __init__(self, connect: ConnectClient | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._connect = connect or drs_client
        self._clock = clock
        self._clients: dict[AwsTarget, Any] = {}
        self._lock = threading.Lock()
        self.calls = 0  # made so far

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        local, dates = self._clock.now_ms(), list[int | None]()
        jobs_by_target = {
            target: self._call_target(_TargetPoll(target, dates), ids)
            for target, ids in _ids_by_target(executions).items()
        }
        at, is_dated = observed_at(local, dates), any(each is not None for each in dates)
        warnings = self._add_reasons(executions, jobs_by_target, at)
        responses = {
            each.key: _response_for(each, jobs_by_target, warnings, at, local) for each in executions
        }
        return {
            key: replace(each, is_dated=is_dated) if isinstance(each, SourceResponse) else each
            for key, each in responses.items()
        }

    def check(self) -> SourceProblem | None:
        return credentials_problem(DESCRIBE_JOBS) if self._connect is drs_client else None

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _call_target(self, poll: _TargetPoll, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        found: dict[str, Job | SourceProblem] = {}
        for begin in range(0, len(ids), JOBS_AT_ONCE):
            found |= self._call_batch(poll, ids[begin : begin + JOBS_AT_ONCE])
        return found

    def _call_batch(self, poll: _TargetPoll, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        try:
            from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
            from botocore.parsers import ResponseParserError
        except ImportError:
            return dict.fromkeys(ids, SourceProblem(str(MissingExtra("Polling DRS", "aws")), lasting=True))
        target = poll.target
        try:
            return {item["jobID"]: parse_job(item) for item in self._pages(poll, ids)}
        except ParamValidationError as error:
            if len(ids) > 1:
                return self._call_halves(poll, ids)
            problem = SourceProblem(f"Invalid DRS job id {ids[0]!r} ({error})")
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ValidationException" and len(ids) > 1:
                return self._call_halves(poll, ids)
            problem = service_problem(error.response, DESCRIBE_JOBS, _where(target))
        except (BotoCoreError, ResponseParserError, ValueError) as error:
            problem = sdk_problem(error, DESCRIBE_JOBS, _where(target))
        except (AttributeError, LookupError, TypeError):
            problem = SourceProblem(f"DRS in {_where(target)} returned a response without a list of jobs")
        except _EndlessPages:
            problem = SourceProblem(
                f"DRS in {_where(target)} returned {MAX_EMPTY_PAGES} pages in a row without another job"
            )
        return dict.fromkeys(ids, problem)

    def _call_halves(self, poll: _TargetPoll, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        """Split a batch, so that one invalid id does not stop the others."""
        half = len(ids) // 2
        return self._call_batch(poll, ids[:half]) | self._call_batch(poll, ids[half:])

    def _pages(self, poll: _TargetPoll, ids: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        """The jobs of all pages, until all are found or no page has another."""
        client = self._client(poll.target)
        parameters: dict[str, Any] = {"filters": {"jobIDs": list(ids)}}
        missing, empty = set(ids), 0
        while empty < MAX_EMPTY_PAGES:
            self.calls += 1
            response = client.describe_jobs(**parameters)
            poll.dates.append(sdk_date_ms(response))
            found = response["items"]  # a missing list does not mean that there is no job
            yield from found
            before = len(missing)
            missing -= {item["jobID"] for item in found}
            empty = empty + 1 if len(missing) == before else 0
            if not missing or not response.get("nextToken"):
                return
            parameters["nextToken"] = response["nextToken"]
        raise _EndlessPages

    def _add_reasons(self, executions: Sequence[Execution], jobs_by_target: Jobs, at: int) -> Warnings:
        """Add reasons from the logs to jobs that did not succeed; return why a log could not be read."""
        until = self._clock.monotonic() + LOGS_SECONDS
        warnings: dict[tuple[AwsTarget, str], SourceProblem] = {}
        for stored in (job for each in executions for job in each.jobs()):
            target = (stored.region, stored.account)
            job = jobs_by_target[target].get(stored.job_id)
            if not isinstance(job, Job):
                continue
            job = jobs_by_target[target][stored.job_id] = keep_earlier_log(stored, job)
            if not needs_log(stored, job, at):
                continue
            if self._clock.monotonic() > until:
                late = f"the log of {stored.job_id} was not read: no time left"
                warnings[target, stored.job_id] = SourceProblem(late)
                continue
            items, problem = self._log(target, stored.job_id, until)
            jobs_by_target[target][stored.job_id] = apply_log(job, parse_log(items))
            if problem is not None:
                warnings[target, stored.job_id] = problem
        return warnings

    def _log(
        self, target: AwsTarget, job_id: str, until: float
    ) -> tuple[list[Mapping[str, Any]], SourceProblem | None]:
        """The events of a job's log, and the problem if some are missing."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        items: list[Mapping[str, Any]] = []
        parameters: dict[str, Any] = {"jobID": job_id}
        retry_after = None
        try:
            client = self._client(target)
            for _ in range(MAX_LOG_PAGES):
                if self._clock.monotonic() > until:
                    why = f"the log of {job_id} was not read to its end: no time left"
                    return items, SourceProblem(why)
                self.calls += 1
                response = client.describe_job_log_items(**parameters)
                items += [each for each in response["items"] if isinstance(each, Mapping)]
                if not response.get("nextToken"):
                    return items, None
                parameters["nextToken"] = response["nextToken"]
            why = f"the log of {job_id} has more than {MAX_LOG_PAGES} pages; the rest was not read"
        except ClientError as error:
            code, retry_after = (
                error.response.get("Error", {}).get("Code", "unknown"),
                response_retry_after(error.response),
            )
            why = f"the log of {job_id} was not read: {LOG_CALL} returned {code}"
        except (BotoCoreError, ResponseParserError) as error:
            why = f"the log of {job_id} was not read: {error}"
        except (AttributeError, LookupError, TypeError):
            why = f"the log of {job_id} was not read: {LOG_CALL} returned a response without a log"
        return items, SourceProblem(why, retry_after)

    def _client(self, target: AwsTarget) -> Any:
        with self._lock:
            if target not in self._clients:
                self._clients[target] = prepare_client(self._connect(*target))
            return self._clients[target]


@dataclass(frozen=True, slots=True)
class _TargetPoll:
    """The calls of one poll to one target, with the dates of their responses."""

    target: AwsTarget
    dates: list[int | None]


class _EndlessPages(Exception):
    """The pages of the service do not end."""


def drs_client(region: str | None, account: str | None = None) -> Any:
    """A client for DRS, with the options of the declared services."""
    return aws_client("drs", region, account)


def parse_job(item: Mapping[str, Any]) -> Job:
    """Parse a job. Only its id is guaranteed.

    In a job of an unknown type the states of its servers have no certain meaning, so none is an end.
    """
    status, type_ = _status(item, "status"), _status(item, "type")
    kind = JobKind.LAUNCH if type_ is None else JOB_KINDS.get(type_)
    state = JobState.PENDING if status is None else JOB_STATES.get(status, JobState.UNKNOWN)
    return Job(
        job_id=item["jobID"],
        state=JobState.UNKNOWN if kind is None else state,
        items=tuple(
            _parse_server(each, kind)
            for each in item.get("participatingServers") or ()
            if each.get("sourceServerID")
        ),
        source_status=f"type {type_}" if kind is None else status,
        kind=kind or JobKind.LAUNCH,
        created_at=time_ms(item.get("creationDateTime")),
    )


def _parse_server(item: Mapping[str, Any], kind: JobKind | None) -> WorkItem:
    status = _status(item, "launchStatus")
    state = ItemState.PENDING if status is None else SERVER_STATES.get(status, ItemState.UNKNOWN)
    if kind is None:
        state = ItemState.UNKNOWN
    elif kind is JobKind.TERMINATE and state is ItemState.DONE:
        state = ItemState.PENDING  # it still exists
    return WorkItem(
        item_id=str(item["sourceServerID"]),
        state=state,
        instance_id=item.get("recoveryInstanceID"),
        steps=tuple(
            _parse_action(run, number)
            for number, run in enumerate((item.get("launchActionsStatus") or {}).get("runs") or ())
        ),
        source_status=status,
    )


def _parse_action(run: Mapping[str, Any], number: int) -> Step:
    action = run.get("action") or {}
    status = _status(run, "status")
    state = StepState.IN_PROGRESS if status is None else ACTION_STATES.get(status, StepState.UNKNOWN)
    name = str(action.get("name") or action.get("actionId") or f"action {number + 1}")
    return Step(
        name=name,
        run_id=str(run.get("runId") or f"{name}#{number}"),
        state=state,
        reason=run.get("failureReason"),
        source_status=status if state is StepState.UNKNOWN else None,
    )


def _status(item: Mapping[str, Any], name: str) -> str | None:
    """A status as the service reports it, truncated to the length of a record; None: it reports none.

    An empty status is a value that no table has.
    """
    value = item.get(name)
    return None if value is None else storable_text(value, LONGEST_STATUS)


def _ids_by_target(executions: Sequence[Execution]) -> dict[AwsTarget, list[str]]:
    targets: dict[AwsTarget, dict[str, None]] = {}
    for execution in executions:
        for job in execution.jobs():
            targets.setdefault((job.region, job.account), {})[job.job_id] = None
    return {target: list(ids) for target, ids in targets.items()}


def _response_for(
    execution: Execution, jobs_by_target: Jobs, warnings: Warnings, at: int, polled_at: int
) -> SourceResult:
    """The response for one execution, or the problem of one of its jobs: never a partial response."""
    jobs: dict[str, Job] = {}
    missing = set()
    warnings_of_jobs: list[SourceProblem] = []
    for job in execution.jobs():
        target = (job.region, job.account)
        found = jobs_by_target[target].get(job.job_id)
        if isinstance(found, SourceProblem):
            return found
        if found is None:
            missing.add(job.job_id)
        else:
            jobs[job.job_id] = found
        if (target, job.job_id) in warnings:
            warnings_of_jobs.append(warnings[target, job.job_id])
    retry_after = max(
        (each.retry_after_seconds for each in warnings_of_jobs if each.retry_after_seconds), default=None
    )
    return SourceResponse(
        CALL,
        at,
        jobs,
        frozenset(missing),
        next_at=None if retry_after is None else polled_at + round(retry_after * 1000),
        warnings=tuple(each.message for each in warnings_of_jobs),
        polled_at=polled_at,
        retry_after_seconds=retry_after,
    )


def _where(target: AwsTarget) -> str:
    region, account = target
    return (region or "the default region") + (f" of account {account}" if account else "")
