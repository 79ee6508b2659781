"""The shapes of executions, for the schema. Answers are written by hand; tests hold them to this."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from longwatch.server.api.run_schemas import ConditionShape, Milliseconds, StatusWord, Strict

ServerWord = Literal[
    "pending", "in_progress", "launched", "failed", "terminated", "cancelled", "ended", "unknown"
]


class EtaShape(BaseModel):
    """What past executions of the kind say about an open one."""

    text: str = Field(description="For people, such as `usually 19–22 min, now 24`.")
    expected_at: Milliseconds | None = Field(description="Null: too few came as far as this one.")
    earliest_at: Milliseconds | None = Field(description="Eight of ten end between this and `latest_at`.")
    latest_at: Milliseconds | None
    usual_low_ms: int
    usual_middle_ms: int
    usual_high_ms: int
    longest_ms: int
    elapsed_ms: int
    beyond_usual: bool
    samples: int = Field(description="Past executions that this rests on.")


class ProgressShape(Strict):
    """How far one wave is."""

    name: str
    status: StatusWord
    servers: int
    states: dict[str, int] = Field(description="State of a server → how many.")


class ExecutionLineShape(BaseModel):
    """An execution as one line of a list. Times are epoch milliseconds."""

    execution_id: str
    plan_id: str = Field(description="With the execution id it identifies the execution.")
    run_id: str = Field(description="The run of its events: `plan/execution`; older runs: its id.")
    name: str | None
    source: str
    mode: Literal["DRILL", "RECOVERY", "JOB"]
    status: StatusWord
    other_status: str | None = Field(description="Set in the record by another writer, verbatim; else null.")
    phase: Literal["pending", "started", "in_progress"] | None = Field(description="Null once it has ended.")
    started_at: Milliseconds
    ended_at: Milliseconds | None
    late: bool
    warning_count: int = Field(description="Warnings of the verdict; `verdict.warnings` has their texts.")
    total_waves: int | None = Field(description="Null: nobody has said whether more come.")
    stored_waves: int
    servers: int
    servers_ended: int = Field(description="In a final state, good or bad.")
    servers_done: int = Field(description="Those of them for which all went well.")
    servers_failed: int
    progress_text: str = Field(description="For people, such as `3 of 5 done, 1 failed`.")
    conditions: list[ConditionShape]
    waiting_for: str | None = Field(
        description="What keeps it open: an item, a launch action, a job or a wave."
    )
    eta: EtaShape | None
    deadline_at: Milliseconds | None
    last_polled_at: Milliseconds | None
    last_answer_at: Milliseconds | None
    last_change_at: Milliseconds | None
    last_error: str | None
    failures: int
    silent_at: Milliseconds | None = Field(description="When it is silent, if no poll brings anything new.")
    next_poll_at: Milliseconds | None
    recheck_at: Milliseconds | None = Field(description="When a verdict with assumed facts is checked again.")
    lease_holder: str | None
    lease_until: Milliseconds | None
    version: int
    closed: bool = Field(description="There is nothing left to ask about.")
    message: str | None = Field(description="Why it ended so, in the words of its verdict.")
    progress: list[ProgressShape]


class ExecutionListShape(Strict):
    """Some executions, newest first."""

    executions: list[ExecutionLineShape]
    cursor: str | None = Field(description="For `after`; null at the end.")
    hint: str | None = Field(description="Why there is nothing, and what to do.")


class ActionShape(BaseModel):
    """One launch action of a server."""

    name: str
    state: Literal["in_progress", "succeeded", "failed", "unknown"]
    word: str | None = Field(description="The source's own word, where the state is unknown.")
    reason: str | None
    since: Milliseconds | None


class ServerShape(BaseModel):
    """One server, as it was last seen."""

    server_id: str
    state: ServerWord
    word: str | None = Field(description="The source's own word for it.")
    instance_id: str | None
    reason: str | None
    failure_reason: str | None = Field(description="Why it failed; null if it did not.")
    since: Milliseconds | None
    actions: list[ActionShape]


class JobShape(BaseModel):
    """One job of a wave."""

    job_id: str
    state: Literal["pending", "started", "finished", "missing", "unknown"]
    word: str | None
    region: str | None
    account: str | None
    since: Milliseconds | None


class WaveShape(BaseModel):
    """One wave. Its jobs may not exist yet."""

    name: str
    status: StatusWord
    jobs: list[JobShape]
    servers: list[ServerShape]


class EvidenceShape(BaseModel):
    """What a verdict rests on."""

    call: str
    at: Milliseconds
    fields: dict[str, Any]


class VerdictShape(BaseModel):
    """How an execution ended."""

    status: StatusWord
    at: Milliseconds
    message: str | None
    late: bool
    warnings: list[str]
    assumed: list[str] = Field(description="Facts that the source has not reported.")
    corrects: StatusWord | None
    evidence: list[EvidenceShape]


class FactShape(Strict):
    """One thing to know."""

    about: str
    text: str
    at: Milliseconds | None


class ExecutionShape(ExecutionLineShape):
    """Everything that is known of one execution."""

    waves: list[WaveShape]
    verdict: VerdictShape | None
    explained: list[FactShape] = Field(description="Why it is still running, or how it ended.")
