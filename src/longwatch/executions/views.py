"""Executions as commands, the API and the feed return them. Times are epoch milliseconds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from longwatch.executions.due import deadline_at, next_poll_at, phase_of
from longwatch.executions.explain import conditions_by, explain_execution, silent_at, waiting_for
from longwatch.executions.model import Execution, Job, Stage, Verdict, WorkItem
from longwatch.executions.outcomes import stage_outcome
from longwatch.executions.progress import failure_reason, items_of, progress_of
from longwatch.journal.views import ConditionView, StatusWord
from longwatch.model.json_schema import OPEN, STRICT, JsonSchema

if TYPE_CHECKING:
    from longwatch.executions.cadence.cadence import LearnedCadence
    from longwatch.executions.cadence.eta import Eta
    from longwatch.executions.explain import Fact

ServerWord = Literal[
    "pending", "in_progress", "launched", "failed", "terminated", "cancelled", "ended", "unknown"
]


@dataclass(frozen=True, kw_only=True)
class EtaView:
    """The expected end of an open execution, from past executions of its kind."""

    __pydantic_config__ = OPEN

    text: Annotated[str, JsonSchema("For people, such as `usually 19–22 min, now 24`.")]
    expected_at: Annotated[
        int | None, JsonSchema("Null: too few past executions took as long as this one has.")
    ]
    earliest_at: Annotated[int | None, JsonSchema("Eight of ten end between this and `latest_at`.")]
    latest_at: int | None
    usual_low_ms: int
    usual_middle_ms: int
    usual_high_ms: int
    longest_ms: int
    elapsed_ms: int
    beyond_usual: bool
    samples: Annotated[int, JsonSchema("Past executions that the estimate is based on.")]

    @classmethod
    def of(cls, eta: Eta, now_ms: int) -> EtaView:
        left = eta.left
        return cls(
            text=eta.text(),
            expected_at=now_ms + round(left.middle * 1000) if left else None,
            earliest_at=now_ms + round(left.low * 1000) if left else None,
            latest_at=now_ms + round(left.high * 1000) if left else None,
            usual_low_ms=round(eta.usually.low * 1000),
            usual_middle_ms=round(eta.usually.middle * 1000),
            usual_high_ms=round(eta.usually.high * 1000),
            longest_ms=round(eta.longest * 1000),
            elapsed_ms=round(eta.elapsed * 1000),
            beyond_usual=eta.is_late,
            samples=eta.executions,
        )


@dataclass(frozen=True, kw_only=True)
class ExecutionLine:
    """An execution as one line of a list. Times are epoch milliseconds."""

    __pydantic_config__ = OPEN

    execution_id: str
    plan_id: Annotated[str, JsonSchema("With the execution id it identifies the execution.")]
    run_id: Annotated[str, JsonSchema("The run of its events: `plan/execution`; older runs: its id.")]
    name: str | None
    source: str
    mode: Literal["DRILL", "RECOVERY", "JOB"]
    status: StatusWord
    other_status: Annotated[
        str | None, JsonSchema("Set in the record by another writer, verbatim; else null.")
    ]
    phase: Annotated[
        Literal["pending", "started", "in_progress"] | None, JsonSchema("Null once it has ended.")
    ]
    started_at: int
    ended_at: int | None
    late: bool
    warning_count: Annotated[int, JsonSchema("Warnings of the verdict; `verdict.warnings` has their texts.")]
    total_waves: Annotated[int | None, JsonSchema("Null: the number of waves is unknown.")]
    stored_waves: int
    servers: int
    servers_ended: Annotated[int, JsonSchema("In a final state, good or bad.")]
    servers_done: Annotated[int, JsonSchema("Those of them that succeeded.")]
    servers_failed: int
    progress_text: Annotated[str, JsonSchema("For people, such as `3 of 5 done, 1 failed`.")]
    conditions: list[ConditionView]
    waiting_for: Annotated[
        str | None, JsonSchema("What keeps it open: an item, a launch action, a job or a wave.")
    ]
    eta: EtaView | None
    deadline_at: int | None
    last_polled_at: int | None
    last_answer_at: int | None
    last_change_at: int | None
    last_error: str | None
    failures: int
    silent_at: Annotated[int | None, JsonSchema("When it counts as silent unless a poll returns news.")]
    recheck_at: Annotated[int | None, JsonSchema("When a verdict with assumed facts is checked again.")]
    next_poll_at: int | None
    lease_holder: str | None
    lease_until: int | None
    version: int

    @classmethod
    def of(
        cls, execution: Execution, *, now_ms: int, cadence: LearnedCadence | None = None, **more: Any
    ) -> Self:
        """The view at this time; with lessons, also the ETA. `more` are the fields of a subclass."""
        states = [item.state for _, item in execution.items()]
        verdict, progress = execution.verdict, progress_of(execution)
        eta = cadence.eta_of(execution, now_ms) if cadence and execution.is_open else None
        found = conditions_by(execution, now_ms, eta)
        return cls(
            execution_id=execution.execution_id,
            plan_id=execution.plan_id,
            run_id=execution.run_id,
            name=execution.name,
            source=execution.source,
            mode=execution.mode.value,
            status=execution.status.value,
            other_status=execution.other_status,
            phase=phase_of(execution).value if execution.is_open else None,
            started_at=execution.started_at,
            ended_at=verdict.at if verdict else None,
            late=verdict.late if verdict else False,
            warning_count=len(verdict.warnings) if verdict else 0,
            total_waves=execution.total_stages,
            stored_waves=len(execution.stages),
            servers=len(states),
            servers_ended=sum(state.is_final for state in states),
            servers_done=progress.done,
            servers_failed=progress.failed,
            progress_text=progress.text(),
            conditions=[ConditionView(name=each.name, message=each.message) for each in found],
            waiting_for=waiting_for(execution, now_ms),
            eta=EtaView.of(eta, now_ms) if eta else None,
            deadline_at=deadline_at(execution),
            last_polled_at=execution.last_polled_at,
            last_answer_at=execution.last_answer_at,
            last_change_at=execution.last_change_at,
            last_error=execution.last_error,
            failures=execution.failures,
            silent_at=silent_at(execution, eta) if execution.is_open else None,
            recheck_at=execution.recheck_at,
            next_poll_at=None if execution.closed else next_poll_at(execution),
            lease_holder=execution.lease_holder,
            lease_until=execution.lease_until,
            version=execution.version,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class WaveProgress:
    """Progress of one wave."""

    __pydantic_config__ = STRICT

    name: str
    status: StatusWord
    servers: int
    states: Annotated[dict[str, int], JsonSchema("State of a server → number of servers.")]

    @classmethod
    def of(cls, stage: Stage, execution: Execution) -> WaveProgress:
        states = Counter(item.state.value for item in stage.items())
        return cls(
            name=stage.name,
            status=_wave_status(stage, execution),
            servers=states.total(),
            states=dict(states),
        )


@dataclass(frozen=True, kw_only=True)
class ExecutionListItem(ExecutionLine):
    """An execution in the list, with the progress of each wave."""

    closed: Annotated[bool, JsonSchema("Nothing is left to poll.")]
    message: Annotated[str | None, JsonSchema("Why it ended so, as its verdict states it.")]
    progress: list[WaveProgress]

    @classmethod
    def of(
        cls, execution: Execution, *, now_ms: int, cadence: LearnedCadence | None = None, **more: Any
    ) -> Self:
        return super().of(
            execution,
            now_ms=now_ms,
            cadence=cadence,
            closed=execution.closed,
            message=execution.verdict.message if execution.verdict else None,
            progress=[WaveProgress.of(stage, execution) for stage in execution.stages],
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class ExecutionList:
    """Executions, newest first."""

    __pydantic_config__ = STRICT

    executions: list[ExecutionListItem]
    cursor: Annotated[str | None, JsonSchema("For `after`; null at the end.")]
    hint: Annotated[str | None, JsonSchema("Why the list is empty, and what to do.")]


@dataclass(frozen=True, kw_only=True)
class ActionView:
    """One launch action of a server."""

    __pydantic_config__ = OPEN

    name: str
    state: Literal["in_progress", "succeeded", "failed", "unknown"]
    word: Annotated[str | None, JsonSchema("The source's own word, where the state is unknown.")]
    reason: str | None
    since: int | None


@dataclass(frozen=True, kw_only=True)
class ServerView:
    """One server as of the last response."""

    __pydantic_config__ = OPEN

    server_id: str
    state: ServerWord
    word: Annotated[str | None, JsonSchema("The source's own word for it.")]
    instance_id: str | None
    reason: str | None
    failure_reason: Annotated[str | None, JsonSchema("Why it failed; null if it did not.")]
    since: int | None
    actions: list[ActionView]

    @classmethod
    def of(cls, item: WorkItem, execution: Execution, job: Job | None) -> ServerView:
        return cls(
            server_id=item.item_id,
            state=item.state.value,
            word=item.source_status,
            instance_id=item.instance_id,
            reason=item.reason,
            failure_reason=failure_reason(item, execution, job),
            since=item.since,
            actions=[
                ActionView(
                    name=each.name,
                    state=each.state.value,
                    word=each.source_status,
                    reason=each.reason,
                    since=each.since,
                )
                for each in item.steps
            ],
        )


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job of a wave."""

    __pydantic_config__ = OPEN

    job_id: str
    state: Literal["pending", "started", "finished", "missing", "unknown"]
    word: str | None
    region: str | None
    account: str | None
    since: int | None

    @classmethod
    def of(cls, job: Job) -> JobView:
        return cls(
            job_id=job.job_id,
            state=job.state.value,
            word=job.source_status,
            region=job.region,
            account=job.account,
            since=job.since,
        )


@dataclass(frozen=True, kw_only=True)
class WaveView:
    """One wave. Its jobs may not exist yet."""

    __pydantic_config__ = OPEN

    name: str
    status: StatusWord
    jobs: list[JobView]
    servers: list[ServerView]

    @classmethod
    def of(cls, stage: Stage, execution: Execution) -> WaveView:
        return cls(
            name=stage.name,
            status=_wave_status(stage, execution),
            jobs=[JobView.of(job) for job in stage.jobs],
            servers=[ServerView.of(item, execution, job) for item, job in items_of(stage)],
        )


@dataclass(frozen=True, kw_only=True)
class EvidenceView:
    """A response that a verdict is based on."""

    __pydantic_config__ = OPEN

    call: str
    at: int
    fields: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class VerdictView:
    """How an execution ended."""

    __pydantic_config__ = OPEN

    status: StatusWord
    at: int
    message: str | None
    late: bool
    warnings: list[str]
    assumed: Annotated[list[str], JsonSchema("Facts that the source has not reported.")]
    corrects: StatusWord | None
    evidence: list[EvidenceView]

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictView:
        return cls(
            status=verdict.status.value,
            at=verdict.at,
            message=verdict.message,
            late=verdict.late,
            warnings=list(verdict.warnings),
            assumed=list(verdict.assumed),
            corrects=verdict.corrects.value if verdict.corrects else None,
            evidence=[
                EvidenceView(call=each.call, at=each.at, fields=_plain(each.fields))
                for each in verdict.evidence
            ],
        )


@dataclass(frozen=True, kw_only=True)
class ExecutionView(ExecutionLine):
    """An execution with its waves and its verdict."""

    waves: list[WaveView]
    verdict: VerdictView | None

    @classmethod
    def of(
        cls, execution: Execution, *, now_ms: int, cadence: LearnedCadence | None = None, **more: Any
    ) -> Self:
        return super().of(
            execution,
            now_ms=now_ms,
            cadence=cadence,
            waves=[WaveView.of(stage, execution) for stage in execution.stages],
            verdict=VerdictView.of(execution.verdict) if execution.verdict else None,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class FactView:
    """One fact about an execution."""

    __pydantic_config__ = STRICT

    about: str
    text: str
    at: int | None


@dataclass(frozen=True, kw_only=True)
class FactList:
    """Why an execution is still running or how it ended, fact by fact."""

    execution_id: str
    plan_id: str
    status: StatusWord
    facts: list[FactView]

    @classmethod
    def of(cls, execution: Execution, facts: Iterable[Fact]) -> FactList:
        return cls(
            execution_id=execution.execution_id,
            plan_id=execution.plan_id,
            status=execution.status.value,
            facts=fact_views(facts),
        )


@dataclass(frozen=True, kw_only=True)
class ExecutionDetails(ExecutionListItem, ExecutionView):
    """Everything that is known of one execution."""

    explained: Annotated[list[FactView], JsonSchema("Why it is still running, or how it ended.")]

    @classmethod
    def of(
        cls, execution: Execution, *, now_ms: int, cadence: LearnedCadence | None = None, **more: Any
    ) -> Self:
        facts = fact_views(explain_execution(execution, now_ms, cadence))
        return super().of(execution, now_ms=now_ms, cadence=cadence, explained=facts, **more)


def fact_views(facts: Iterable[Fact]) -> list[FactView]:
    return [FactView(about=fact.about, text=fact.text, at=fact.at) for fact in facts]


def _wave_status(wave: Stage, execution: Execution) -> StatusWord:
    outcome = stage_outcome(wave, execution.mode, execution.observed_at)
    return outcome.status.value if outcome else "running"


def _plain(fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields of evidence. Values of another writer that JSON cannot express become text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(fields), default=str), parse_constant=str)
    return plain
