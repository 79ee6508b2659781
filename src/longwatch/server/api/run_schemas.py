"""The shapes of the runs API, for its schema. Answers are written by hand; tests hold them to this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

StatusWord = Literal["pending", "running", "succeeded", "failed", "partial", "cancelled", "died", "unknown"]
Milliseconds = int


class Strict(BaseModel):
    """Nothing but what is named here."""

    model_config = ConfigDict(extra="forbid")


class ConditionShape(Strict):
    """Something that is true of the run at this moment."""

    name: str
    message: str


Interval = Annotated[
    list[int | None],
    Field(min_length=2, max_length=2, description="Not before, not after; null: that bound is not known."),
]


class AttemptShape(Strict):
    """One attempt at a run. One that was followed by another before it ended is unknown."""

    number: int = Field(description="From 1.")
    attempt: str | None = Field(description="Its id; null if its start names none.")
    status: StatusWord
    started_at: Milliseconds
    ended_at: Milliseconds | None
    ended_between: Interval | None
    error: str | None


class RunShape(BaseModel):
    """A run as one line of a list: how its last attempt stands. Times are epoch milliseconds."""

    run_id: str
    status: StatusWord
    kind: str
    name: str | None
    parent_run_id: str | None
    started_at: Milliseconds
    ended_at: Milliseconds | None = Field(description="Null while it is open, and if it died.")
    ended_between: Interval | None = Field(description="When it died, in epoch ms; else null.")
    duration_ms: int | None = Field(description="Null if it died.")
    duration_between: Interval | None = Field(description="How long it ran if it died, in ms; else null.")
    events: int
    agents: list[str]
    failed_calls: int
    error: str | None
    warning_count: int = Field(description="Warnings in the terminal event, as of an execution.")
    last_event_type: str
    last_event_at: Milliseconds
    expired_before: Milliseconds | None
    attempts: list[AttemptShape]
    conditions: list[ConditionShape]


class RunListShape(Strict):
    """Some runs, newest first."""

    runs: list[RunShape]
    cursor: str | None = Field(description="For `after`; null at the end.")
    hint: str | None = Field(description="Which runs of other producers may be missing, and what to do.")


class CallShape(Strict):
    """One agent span, tool call or node."""

    call_id: str
    kind: str
    name: str
    agent_name: str | None
    parent_call_id: str | None
    status: str
    started_at: Milliseconds
    ended_at: Milliseconds | None
    duration_ms: float | None
    error: str | None


class TallyShape(Strict):
    """One producer's events."""

    events: int
    stated: int | None
    missing: list[list[int]]


class WholeRunShape(RunShape):
    """A folded run. The calls are those of the attempt that is shown."""

    attempt: int = Field(description="The number of the attempt that is shown.")
    counts: dict[str, int] = Field(description="Event type → how many.")
    producers: dict[str, TallyShape]
    calls: list[CallShape]


class EventShape(Strict):
    """One event, as `longwatch export` writes it."""

    run_id: str
    event_id: str
    type: str
    occurred_at: Milliseconds
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    producer: str | None = None
    number: int | None = None
    previous_digest: str | None = None
    trace_id: str | None = None
    ttl: int | None = None
    payload: dict[str, Any]


class EventPageShape(Strict):
    """Some events in their order, and where to go on from."""

    events: list[EventShape]
    cursor: str
    more: bool


class StoredShape(Strict):
    """What became of an append."""

    stored: int
    event_ids: list[str]


class ProducerVerificationShape(Strict):
    """What can be said of one producer's events."""

    producer: str
    answer: str
    events: int
    stated: int | None
    missing: list[list[int]]
    altered: list[list[int]]
    unreadable: list[list[int]]
    expired_up_to: int


class VerificationShape(Strict):
    """Whether every event of a run is there and as it was written."""

    run_id: str
    answer: Literal["complete", "open", "expired", "missing", "altered"]
    expired_before: Milliseconds | None
    unnumbered: int
    unreadable: list[int | str]
    uncounted: int
    producers: list[ProducerVerificationShape]


class HealthShape(Strict):
    """Whether the server and its journal answer."""

    status: Literal["ok"]
    journal: str


def new_event_schema() -> dict[str, Any]:
    """One event of an append: what the server can fill in may be left out."""
    whole = {"type": "integer", "minimum": 0, "maximum": 253_402_300_799_999}
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["type"],
        "dependentRequired": {"event_id": ["occurred_at"], "producer": ["number"], "number": ["producer"]},
        "properties": {
            "type": {**text, "description": "What happened, such as `tool_call`."},
            "event_id": {**text, "description": "Names this event; left out, the server makes one."},
            "occurred_at": {**whole, "description": "Epoch ms; left out, the server's time."},
            "run_id": {**text, "description": "Must be the run of the address, if given."},
            "agent_name": text,
            "call_id": text,
            "parent_call_id": text,
            "producer": {**text, "description": "Only with `number`."},
            "number": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
            "previous_digest": text,
            "trace_id": text,
            "ttl": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
            "payload": {"type": "object"},
        },
    }
