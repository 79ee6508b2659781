"""AWS Elastic Disaster Recovery: what `DescribeJobs` says, in our words.

A job's status has no word for failure: COMPLETED only means that it has finished. How it went is in its
servers, and why it went wrong in its log. Jobs are kept for each region and account, so each of these places
is asked by a call of its own. Asking takes the rights to `drs:DescribeJobs` and, for reasons, to
`drs:DescribeJobLogItems`; nothing else is ever called.
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
JOBS_AT_ONCE = 200  # ids in one call; the service takes 1,000, and its answers are paged in any case
MOST_EMPTY_PAGES = 100  # in a row, without a job that is new: a service that never stops is a problem
MOST_LOG_PAGES = 200
LOGS_SECONDS = 20.0  # for all logs of one question: leases must not run out over reasons

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
DESCRIBE_JOBS = AwsCall(service="DRS", signed_as="drs", operation="DescribeJobs")  # as problems name it

Jobs = dict[AwsTarget, dict[str, Job | SourceProblem]]
"""What each place said of each job."""
Warnings = Mapping[tuple[AwsTarget, str], SourceProblem]
"""Why the log of a job could not be read."""
ConnectClient = Callable[[str | None, str | None], Any]
"""A boto3 client for DRS in this region, with the rights in this account."""


class DrsSource:
    """A `Source` that asks DRS. `connect` makes the client for a place; jobs of other accounts need one."""

    name = "drs"

    def __init__(self, connect: ConnectClient | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._connect = connect or drs_client
        self._clock = clock
        self._clients: dict[AwsTarget, Any] = {}
        self._lock = threading.Lock()
        self.calls = 0  # made so far

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        local, dates = self._clock.now_ms(), list[int | None]()
        told = {
            target: self._call_target(_Inquiry(target, dates), ids)
            for target, ids in _by_place(executions).items()
        }
        at, is_dated = observed_at(local, dates), any(each is not None for each in dates)
        warnings = self._add_reasons(executions, told, at)
        answers = {each.key: _answer(each, told, warnings, at, local) for each in executions}
        return {
            key: replace(each, is_dated=is_dated) if isinstance(each, SourceResponse) else each
            for key, each in answers.items()
        }

    def check(self) -> SourceProblem | None:
        return credentials_problem(DESCRIBE_JOBS) if self._connect is drs_client else None

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _call_target(self, inquiry: _Inquiry, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        found: dict[str, Job | SourceProblem] = {}
        for begin in range(0, len(ids), JOBS_AT_ONCE):
            found |= self._call_batch(inquiry, ids[begin : begin + JOBS_AT_ONCE])
        return found

    def _call_batch(self, inquiry: _Inquiry, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        try:
            from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
            from botocore.parsers import ResponseParserError
        except ImportError:
            return dict.fromkeys(ids, SourceProblem(str(MissingExtra("Asking DRS", "aws")), lasting=True))
        target = inquiry.target
        try:
            return {item["jobID"]: parse_job(item) for item in self._pages(inquiry, ids)}
        except ParamValidationError as error:
            if len(ids) > 1:
                return self._call_halves(inquiry, ids)
            problem = SourceProblem(f"{ids[0]!r} is no job of DRS ({error})")
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ValidationException" and len(ids) > 1:
                return self._call_halves(inquiry, ids)
            problem = service_problem(error.response, DESCRIBE_JOBS, _where(target))
        except (BotoCoreError, ResponseParserError, ValueError) as error:
            problem = sdk_problem(error, DESCRIBE_JOBS, _where(target))
        except (AttributeError, LookupError, TypeError):
            problem = SourceProblem(f"DRS in {_where(target)} returned a response without a list of jobs")
        except _EndlessPages:
            problem = SourceProblem(
                f"DRS in {_where(target)} answered with {MOST_EMPTY_PAGES} pages in a row without another job"
            )
        return dict.fromkeys(ids, problem)

    def _call_halves(self, inquiry: _Inquiry, ids: Sequence[str]) -> dict[str, Job | SourceProblem]:
        """One id that is refused must not stop the others."""
        half = len(ids) // 2
        return self._call_batch(inquiry, ids[:half]) | self._call_batch(inquiry, ids[half:])

    def _pages(self, inquiry: _Inquiry, ids: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        """The jobs of all pages, however many there are, until all are found or no page brings another."""
        client = self._client(inquiry.target)
        asked: dict[str, Any] = {"filters": {"jobIDs": list(ids)}}
        missing, empty = set(ids), 0
        while empty < MOST_EMPTY_PAGES:
            self.calls += 1
            answer = client.describe_jobs(**asked)
            inquiry.dates.append(sdk_date_ms(answer))
            found = answer["items"]  # without a list of jobs it does not say that there is none
            yield from found
            before = len(missing)
            missing -= {item["jobID"] for item in found}
            empty = empty + 1 if len(missing) == before else 0
            if not missing or not answer.get("nextToken"):
                return
            asked["nextToken"] = answer["nextToken"]
        raise _EndlessPages

    def _add_reasons(self, executions: Sequence[Execution], told: Jobs, at: int) -> Warnings:
        """Put into jobs that did not go well what their logs say; return what could not be read, and why."""
        until = self._clock.monotonic() + LOGS_SECONDS
        warnings: dict[tuple[AwsTarget, str], SourceProblem] = {}
        for known in (job for each in executions for wave in each.stages for job in wave.jobs):
            target = (known.region, known.account)
            job = told[target].get(known.job_id)
            if not isinstance(job, Job):
                continue
            job = told[target][known.job_id] = keep_earlier_log(known, job)
            if not needs_log(known, job, at):
                continue
            if self._clock.monotonic() > until:
                late = f"the log of {known.job_id} was not read: no time is left"
                warnings[target, known.job_id] = SourceProblem(late)
                continue
            items, problem = self._log(target, known.job_id, until)
            told[target][known.job_id] = apply_log(job, parse_log(items))
            if problem is not None:
                warnings[target, known.job_id] = problem
        return warnings

    def _log(
        self, target: AwsTarget, job_id: str, until: float
    ) -> tuple[list[Mapping[str, Any]], SourceProblem | None]:
        """The events of a job's log, and what is wrong if these are not all."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        items: list[Mapping[str, Any]] = []
        asked: dict[str, Any] = {"jobID": job_id}
        wish = None
        try:
            client = self._client(target)
            for _ in range(MOST_LOG_PAGES):
                if self._clock.monotonic() > until:
                    why = f"the log of {job_id} was not read to its end: no time is left"
                    return items, SourceProblem(why)
                self.calls += 1
                answer = client.describe_job_log_items(**asked)
                items += [each for each in answer["items"] if isinstance(each, Mapping)]
                if not answer.get("nextToken"):
                    return items, None
                asked["nextToken"] = answer["nextToken"]
            why = f"the log of {job_id} has more than {MOST_LOG_PAGES} pages; the rest was not read"
        except ClientError as error:
            code, wish = (
                error.response.get("Error", {}).get("Code", "unknown"),
                response_retry_after(error.response),
            )
            why = f"the log of {job_id} was not read: {LOG_CALL} answered {code}"
        except (BotoCoreError, ResponseParserError) as error:
            why = f"the log of {job_id} was not read: {error}"
        except (AttributeError, LookupError, TypeError):
            why = f"the log of {job_id} was not read: {LOG_CALL} returned a response without a log"
        return items, SourceProblem(why, wish)

    def _client(self, target: AwsTarget) -> Any:
        with self._lock:
            if target not in self._clients:
                self._clients[target] = prepare_client(self._connect(*target))
            return self._clients[target]


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """The calls of one poll in one place, with the dates of their responses."""

    target: AwsTarget
    dates: list[int | None]


class _EndlessPages(Exception):
    """The service did not come to an end."""


def drs_client(region: str | None, account: str | None = None) -> Any:
    """A client for DRS, as those of the declared services are."""
    return aws_client("drs", region, account)


def parse_job(item: Mapping[str, Any]) -> Job:
    """A job as DRS describes it. Only its id is sure to be there.

    What the states of servers mean in a job of a type that is not known, nobody can say: none is an end.
    """
    word, kind_word = _word(item, "status"), _word(item, "type")
    kind = JobKind.LAUNCH if kind_word is None else JOB_KINDS.get(kind_word)
    state = JobState.PENDING if word is None else JOB_STATES.get(word, JobState.UNKNOWN)
    return Job(
        job_id=item["jobID"],
        state=JobState.UNKNOWN if kind is None else state,
        items=tuple(
            _server_from(each, kind)
            for each in item.get("participatingServers") or ()
            if each.get("sourceServerID")
        ),
        source_status=f"type {kind_word}" if kind is None else word,
        kind=kind or JobKind.LAUNCH,
        created_at=time_ms(item.get("creationDateTime")),
    )


def _server_from(item: Mapping[str, Any], kind: JobKind | None) -> WorkItem:
    word = _word(item, "launchStatus")
    state = ItemState.PENDING if word is None else SERVER_STATES.get(word, ItemState.UNKNOWN)
    if kind is None:
        state = ItemState.UNKNOWN
    elif kind is JobKind.TERMINATE and state is ItemState.DONE:
        state = ItemState.PENDING  # it is still there
    return WorkItem(
        item_id=str(item["sourceServerID"]),
        state=state,
        instance_id=item.get("recoveryInstanceID"),
        steps=tuple(
            _action_from(run, number)
            for number, run in enumerate((item.get("launchActionsStatus") or {}).get("runs") or ())
        ),
        source_status=word,
    )


def _action_from(run: Mapping[str, Any], number: int) -> Step:
    action = run.get("action") or {}
    word = _word(run, "status")
    state = StepState.IN_PROGRESS if word is None else ACTION_STATES.get(word, StepState.UNKNOWN)
    name = str(action.get("name") or action.get("actionId") or f"action {number + 1}")
    return Step(
        name=name,
        run_id=str(run.get("runId") or f"{name}#{number}"),
        state=state,
        reason=run.get("failureReason"),
        source_status=word if state is StepState.UNKNOWN else None,
    )


def _word(item: Mapping[str, Any], name: str) -> str | None:
    """A status as the service reports it, cut to a length that a record can hold; None: it reports none.

    An empty one is a value that no table has.
    """
    said = item.get(name)
    return None if said is None else storable_text(said, LONGEST_STATUS)


def _by_place(executions: Sequence[Execution]) -> dict[AwsTarget, list[str]]:
    places: dict[AwsTarget, dict[str, None]] = {}
    for execution in executions:
        for wave in execution.stages:
            for job in wave.jobs:
                places.setdefault((job.region, job.account), {})[job.job_id] = None
    return {target: list(ids) for target, ids in places.items()}


def _answer(execution: Execution, told: Jobs, warnings: Warnings, at: int, polled_at: int) -> SourceResult:
    """The answer for one execution: whole, or a problem. A part of it could be taken for the whole."""
    jobs: dict[str, Job] = {}
    missing = set()
    warned: list[SourceProblem] = []
    for job in (job for wave in execution.stages for job in wave.jobs):
        target = (job.region, job.account)
        found = told[target].get(job.job_id)
        if isinstance(found, SourceProblem):
            return found
        if found is None:
            missing.add(job.job_id)
        else:
            jobs[job.job_id] = found
        if (target, job.job_id) in warnings:
            warned.append(warnings[target, job.job_id])
    wish = max((each.retry_after_seconds for each in warned if each.retry_after_seconds), default=None)
    return SourceResponse(
        CALL,
        at,
        jobs,
        frozenset(missing),
        next_at=None if wish is None else polled_at + round(wish * 1000),
        warnings=tuple(each.message for each in warned),
        polled_at=polled_at,
        retry_after_seconds=wish,
    )


def _where(target: AwsTarget) -> str:
    region, account = target
    return (region or "the default region") + (f" of account {account}" if account else "")
