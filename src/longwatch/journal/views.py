"""Runs, events and verifications, as commands, the API and the feed return them. Times are epoch ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from longwatch.journal.deletions import Tombstone
from longwatch.journal.usage_views import CallUsage, UsageView, WaitView, model_call_fields, usage_by_agent
from longwatch.model.failures import Failure, FailureGroup, failure_of
from longwatch.model.json_schema import OPEN, STRICT, JsonSchema
from longwatch.model.prices import NO_PRICES, Prices, totals
from longwatch.model.run import Call, Condition, Run, RunSummary, conditions
from longwatch.model.usage import total_usage

if TYPE_CHECKING:
    from longwatch.journal.verify import ProducerVerification, Verification

StatusWord = Literal["pending", "running", "succeeded", "failed", "partial", "cancelled", "died", "unknown"]
Interval = Annotated[
    Sequence[int | None],
    JsonSchema("Not before, not after; null: that bound is unknown.", minItems=2, maxItems=2),
]
Ranges = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class ConditionView:
    """A condition of the run or execution at this moment."""

    __pydantic_config__ = STRICT

    name: str
    message: str


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt at a run. An attempt that was followed by another before it ended is unknown."""

    __pydantic_config__ = STRICT

    number: Annotated[int, JsonSchema("From 1.")]
    attempt: Annotated[str | None, JsonSchema("Its id; null if its start has none.")]
    status: StatusWord
    started_at: int
    ended_at: int | None
    ended_between: Interval | None
    error: str | None

    @classmethod
    def of(cls, run: RunSummary, number: int) -> AttemptView:
        attempt = run.attempts[number - 1]
        ending = attempt.ending if attempt.is_superseded else run.ending
        return cls(
            number=number,
            attempt=attempt.id,
            status=attempt.status.value,
            started_at=attempt.start[0] if attempt.start is not None and number > 1 else run.started_at,
            ended_at=ending.at if ending is not None else None,
            ended_between=None
            if ending is None or ending.not_before is None
            else (ending.not_before, ending.not_after),
            error=ending.error if ending is not None else None,
        )


@dataclass(frozen=True, kw_only=True)
class FailureView:
    """Why a run failed, and where."""

    __pydantic_config__ = STRICT

    error: Annotated[str, JsonSchema("The first line.")]
    error_class: Annotated[str | None, JsonSchema("The exception, if the error begins with one.")]
    call: Annotated[str | None, JsonSchema("The call that failed with this error.")]
    call_kind: str | None
    agent_name: str | None
    group: Annotated[str, JsonSchema("The same for runs that failed alike.")]

    @classmethod
    def of(cls, failure: Failure) -> FailureView:
        call = failure.call
        return cls(
            error=failure.error,
            error_class=failure.error_class,
            call=call.name if call else None,
            call_kind=call.kind if call else None,
            agent_name=call.agent_name if call else None,
            group=failure.group,
        )


@dataclass(frozen=True, kw_only=True)
class FailureGroupView(FailureView):
    """Runs of a list that failed alike, with the error of the newest."""

    status: StatusWord
    run_ids: Annotated[list[str], JsonSchema("The newest first.")]
    since: Annotated[int, JsonSchema("When the first of them ended, epoch ms.")]

    @classmethod
    def of_group(cls, group: FailureGroup) -> FailureGroupView:
        return cls(
            **vars(FailureView.of(group.failure)),
            status=group.failure.status.value,
            run_ids=list(group.run_ids),
            since=group.since,
        )


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run as one line of a list, with the status of its last attempt. Times are epoch milliseconds."""

    __pydantic_config__ = OPEN

    run_id: str
    status: StatusWord
    kind: str
    name: str | None
    parent_run_id: str | None
    started_at: int
    ended_at: Annotated[int | None, JsonSchema("Null while it is open, and if it died.")]
    ended_between: Annotated[Interval | None, JsonSchema("When it died, in epoch ms; else null.")]
    duration_ms: Annotated[int | None, JsonSchema("Null if it died.")]
    duration_between: Annotated[Interval | None, JsonSchema("How long it ran if it died, in ms; else null.")]
    events: int
    agents: list[str]
    tools: Annotated[list[str], JsonSchema("Names of called tools, at most 30.")]
    tags: list[str]
    user: str | None
    session: Annotated[str | None, JsonSchema("As the program names it: it groups runs.")]
    failed_calls: int
    error: str | None
    failure: Annotated[FailureView | None, JsonSchema("Of a run that failed, died or ended partial.")]
    warning_count: Annotated[int, JsonSchema("Warnings in the terminal event, as of an execution.")]
    last_event_type: str
    last_event_at: int
    expired_before: int | None
    attempts: list[AttemptView]
    usage: Annotated[UsageView | None, JsonSchema("Of all attempts; null without a model call.")]
    waiting: Annotated[list[WaitView], JsonSchema("Open waits, the longest first.")]
    waiting_ms: Annotated[dict[str, int], JsonSchema("Reason → milliseconds of the waits that ended.")]
    conditions: list[ConditionView]

    @classmethod
    def of(
        cls, run: RunSummary, *, now_ms: int, observed: Sequence[Condition] = (), prices: Prices = NO_PRICES
    ) -> Self:
        found = _condition_views(Run(run), now_ms, observed)
        return cls(**summary_fields(run, now_ms=now_ms, prices=prices), conditions=found)


def summary_fields(run: RunSummary, *, now_ms: int, prices: Prices = NO_PRICES) -> dict[str, Any]:
    """The fields of a `RunLine` except its conditions, which hold only at this moment."""
    return {
        "run_id": run.run_id,
        "status": run.status.value,
        "kind": run.kind,
        "name": run.name,
        "parent_run_id": run.parent_run_id,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "ended_between": run.ended_between,
        "duration_ms": run.duration_ms(now_ms),
        "duration_between": run.duration_between,
        "events": run.events,
        "agents": sorted(run.agents),
        "tools": sorted(run.tools),
        "tags": sorted(run.tags),
        "user": run.labels.user,
        "session": run.labels.session,
        "failed_calls": run.failed_calls,
        "error": run.error,
        "failure": FailureView.of(failure) if (failure := failure_of(run)) is not None else None,
        "warning_count": run.warning_count,
        "last_event_type": run.last_event_type,
        "last_event_at": run.last_event_at,
        "expired_before": run.expired_before,
        "attempts": _attempt_views(run),
        "usage": UsageView.of(run.totals.usage, prices),
        "waiting": [WaitView.of(wait) for wait in run.waiting],
        "waiting_ms": dict(sorted(run.totals.waited_ms.items())),
    }


def _attempt_views(run: RunSummary) -> list[AttemptView]:
    return [AttemptView.of(run, number) for number in range(1, len(run.attempts) + 1)]


def _condition_views(run: Run, now_ms: int, observed: Sequence[Condition]) -> list[ConditionView]:
    found = conditions(run, now_ms, observed=observed)
    return [ConditionView(name=each.name, message=each.message) for each in found]


@dataclass(frozen=True, kw_only=True)
class RunList:
    """Runs, newest first."""

    __pydantic_config__ = STRICT

    runs: list[RunLine]
    cursor: Annotated[str | None, JsonSchema("For `after`; null at the end.")]
    hint: Annotated[str | None, JsonSchema("Which runs of other producers may be missing, and what to do.")]
    usage: Annotated[UsageView | None, JsonSchema("Of these runs together; null without a model call.")]
    failures: Annotated[list[FailureGroupView], JsonSchema("Two or more of these runs that failed alike.")]


def usage_of_runs(runs: Iterable[RunSummary], prices: Prices = NO_PRICES) -> UsageView | None:
    """The usage of the runs of a list together."""
    return UsageView.of(total_usage(run.totals.usage for run in runs), prices)


@dataclass(frozen=True, kw_only=True)
class CallView:
    """One agent span, tool call, model call or node."""

    __pydantic_config__ = STRICT

    call_id: str
    kind: str
    name: str
    agent_name: str | None
    parent_call_id: str | None
    status: str
    started_at: int
    ended_at: int | None
    duration_ms: float | None
    error: str | None
    input_preview: Annotated[str | None, JsonSchema("What distinguishes the arguments, on one line.")]
    output_preview: Annotated[str | None, JsonSchema("The beginning of the result, on one line.")]


@dataclass(frozen=True, kw_only=True)
class ModelCallView(CallView):
    """One call of a model. Unknown values are null."""

    model: Annotated[str | None, JsonSchema("As requested.")]
    response_model: Annotated[str | None, JsonSchema("As the provider states it.")]
    provider: str | None
    usage: CallUsage | None
    cost: Annotated[float | None, JsonSchema("US dollars; null without a known price.")]
    finish_reasons: list[str] | None
    time_to_first_token_ms: float | None
    chunk_count: Annotated[int | None, JsonSchema("Of a streamed response.")]


def call_fields(call: Call, *, run_has_ended: bool, prices: Prices = NO_PRICES) -> dict[str, Any]:
    """The fields of a `CallView`. A run may have many calls, and a dict costs a third of an instance."""
    fields = {
        "call_id": call.call_id,
        "kind": call.kind,
        "name": call.name,
        "agent_name": call.agent_name,
        "parent_call_id": call.parent_call_id,
        "status": call.status_in(run_has_ended=run_has_ended),
        "started_at": call.started_at,
        "ended_at": call.end.at if call.end else None,
        "duration_ms": call.duration_ms,
        "error": call.end.error if call.end else None,
        "input_preview": call.input_preview,
        "output_preview": call.output_preview,
    }
    if call.kind == "model" and (facts := call.model) is not None:
        fields |= model_call_fields(facts, prices)
    return fields


@dataclass(frozen=True, kw_only=True)
class ProducerView:
    """One producer's events."""

    __pydantic_config__ = STRICT

    events: int
    stated: int | None
    missing: Ranges


@dataclass(frozen=True, kw_only=True)
class RunDetails(RunLine):
    """A folded run. The calls are those of the shown attempt."""

    counts: Annotated[dict[str, int], JsonSchema("Event type → number of events.")]
    producers: dict[str, ProducerView]
    calls: list[ModelCallView | CallView]
    usage_by_agent: Annotated[
        dict[str, UsageView], JsonSchema("Agent → usage of the models that it called itself.")
    ]
    attempt: Annotated[int, JsonSchema("The number of the shown attempt.")]

    @classmethod
    def of_attempt(
        cls,
        run: Run,
        shown: Run,
        *,
        now_ms: int,
        attempt: int | None = None,
        observed: Sequence[Condition] = (),
        prices: Prices = NO_PRICES,
    ) -> Self:
        """One attempt at a run, by default the last. `shown` is the run at that attempt; `observed` are
        conditions of the processes of the last one.
        """
        attempts = len(run.summary.attempts)
        number = attempts if attempt is None else attempt
        has_ended = shown.summary.ending is not None
        fields = summary_fields(shown.summary, now_ms=now_ms, prices=prices)
        fields["attempts"] = _attempt_views(run.summary)
        calls = shown.ordered_calls()
        return cls(
            **fields,
            conditions=_condition_views(shown, now_ms, observed if number == attempts else ()),
            counts=dict(sorted(shown.counts.items())),
            producers={
                name: ProducerView(
                    events=len(tally.seen),
                    stated=tally.count,
                    missing=tally.missing(),
                )
                for name, tally in sorted(shown.producers.items())
            },
            calls=cast(
                "list[ModelCallView | CallView]",
                [call_fields(call, run_has_ended=has_ended, prices=prices) for call in calls],
            ),
            usage_by_agent={
                name: UsageView.of_totals(totals(usage, prices))
                for name, usage in usage_by_agent(calls).items()
            },
            attempt=number,
        )


@dataclass(frozen=True, kw_only=True)
class EventView:
    """One event, as `longwatch export` writes it."""

    __pydantic_config__ = STRICT

    run_id: str
    event_id: str
    type: str
    occurred_at: int
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    producer: str | None = None
    number: int | None = None
    previous_digest: str | None = None
    trace_id: str | None = None
    ttl: int | None = None
    payload: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Events in their order, and the cursor to resume from."""

    __pydantic_config__ = STRICT

    events: list[EventView]
    cursor: str
    more: bool


@dataclass(frozen=True, kw_only=True)
class AppendedEvents:
    """The events that an append stored, now or earlier."""

    __pydantic_config__ = STRICT

    stored: int
    event_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class ProducerVerificationView:
    """Whether the events of one producer are complete and unaltered."""

    __pydantic_config__ = STRICT

    producer: str
    answer: str
    events: int
    stated: int | None
    missing: Ranges
    altered: Ranges
    unreadable: Ranges
    expired_up_to: int

    @classmethod
    def of(cls, found: ProducerVerification) -> ProducerVerificationView:
        return cls(
            producer=found.producer,
            answer=found.answer.value,
            events=found.events,
            stated=found.stated,
            missing=found.missing,
            altered=found.altered.ranges,
            unreadable=found.unreadable.ranges,
            expired_up_to=found.expired_up_to,
        )


@dataclass(frozen=True, kw_only=True)
class TombstoneView:
    """What is left of a deleted run. `digest` covers its removed events in order of arrival."""

    __pydantic_config__ = STRICT

    deleted_at: int
    by: str
    events: int
    digest: str

    @classmethod
    def of(cls, stone: Tombstone) -> TombstoneView:
        return cls(deleted_at=stone.deleted_at, by=stone.by, events=stone.events, digest=stone.digest)


@dataclass(frozen=True, kw_only=True)
class VerificationView:
    """Whether every event of a run is stored as it was written."""

    __pydantic_config__ = STRICT

    run_id: str
    answer: Literal["complete", "open", "expired", "deleted", "missing", "altered"]
    expired_before: int | None
    deleted: TombstoneView | None
    unnumbered: int
    unreadable: list[int | str]
    uncounted: int
    producers: list[ProducerVerificationView]

    @classmethod
    def of(cls, run_id: str, found: Verification) -> VerificationView:
        return cls(
            run_id=run_id,
            answer=found.answer.value,
            expired_before=found.expired_before,
            deleted=None if found.tombstone is None else TombstoneView.of(found.tombstone),
            unnumbered=found.unnumbered,
            unreadable=list(found.unreadable),
            uncounted=found.uncounted,
            producers=[ProducerVerificationView.of(each) for each in found.producers],
        )
