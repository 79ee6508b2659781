"""Events and run summaries as rows. Only this module knows the columns' order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from longwatch.events import Draft, Event, Order
from longwatch.journal import lifecycles
from longwatch.journal.codec import decode_payload, payload_text
from longwatch.model.attempts import Lifecycle
from longwatch.model.endings import Ending, Status
from longwatch.runs import Origin, RunSummary

EVENT_COLUMNS = (  # in the order of Event's fields
    "run_id, event_id, type, occurred_at, agent_name, payload, call_id, parent_call_id, "
    "producer, number, previous_digest, trace_id, ttl"
)
PAYLOAD, POSITION = 5, -1  # where they are in a row of these columns and the position
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StoredPayload(Mapping[str, object]):
    """A payload that is decoded when somebody looks at it. Most readers of a tail never do."""

    __slots__ = ("_held",)

    _held: str | dict[str, object]  # text until somebody looks

    def _decoded(self) -> dict[str, object]:
        held = self._held
        if isinstance(held, str):
            self._held = held = decode_payload(held)
        return held

    def __getitem__(self, key: str) -> object:
        return self._decoded()[key]

    # Written out, though `Mapping` has one: that one asks for the item and catches its absence, and a fold of
    # a long run is mostly questions for what most payloads do not have.
    def get(self, key: str, default: Any = None) -> Any:
        held = self._held
        return (held if isinstance(held, dict) else self._decoded()).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._decoded()

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def __repr__(self) -> str:
        return repr(self._decoded())


def event_to_row(event: Event) -> tuple[object, ...]:
    """The event's columns, in the order of `EVENT_COLUMNS`."""
    return (
        event.run_id,
        event.event_id,
        event.type,
        event.occurred_at,
        event.agent_name,
        payload_text(event),
        event.call_id,
        event.parent_call_id,
        event.producer,
        event.number,
        event.previous_digest,
        event.trace_id,
        event.ttl,
    )


def event_from_row(row: tuple[Any, ...]) -> Event:
    """The event in a row of `EVENT_COLUMNS` and the position; it was checked when it was appended.

    Written out, field by field: reading a tail is mostly this.
    """
    event: Any = Draft()
    (
        event.run_id,
        event.event_id,
        event.type,
        event.occurred_at,
        event.agent_name,
        text,
        event.call_id,
        event.parent_call_id,
        event.producer,
        event.number,
        event.previous_digest,
        event.trace_id,
        event.ttl,
        _,
    ) = row
    payload = StoredPayload()
    payload._held = text
    event.payload = payload
    event.encoded = text
    event.__class__ = Event
    return cast(Event, event)


def run_to_row(run: RunSummary) -> tuple[object, ...]:
    """What the `runs` table keeps: columns to find it by, and the whole summary as text."""
    search = f"{run.run_id}\n{run.name or ''}".casefold()
    return (run.run_id, run.started_at, run.last_event_at, run.status.value, run.kind, search, run_text(run))


def is_found_alike(run: RunSummary, other: RunSummary) -> bool:
    """Whether two summaries of one run have the same columns to find it by, except for its latest event."""
    return (
        run.started_at == other.started_at
        and run.status is other.status
        and run.kind == other.kind
        and run.name == other.name
    )


def run_text(run: RunSummary) -> str:
    """The whole summary."""
    origin = run.origin
    summary = [
        [origin.inferred, origin.order, origin.kind, origin.name, origin.parent_run_id],
        run.started_at,
        run.last_order,
        run.last_event_type,
        run.events,
        sorted(run.agents),
        run.failed_calls,
        lifecycles.to_json(run.lifecycle),
        run.expired_before,
        run.is_active,
    ]
    return _encode(summary)


def run_from_text(run_id: str, text: str) -> RunSummary:
    """The summary that `run_text` wrote."""
    stored, started_at, last, last_type, events, agents, failed, lifecycle, expired, *rest = json.loads(text)
    origin = Origin(stored[0], _order(stored[1]), stored[2], stored[3], stored[4])
    return RunSummary(
        run_id=run_id,
        origin=origin,
        started_at=started_at,
        last_order=_order(last),
        last_event_type=last_type,
        events=events,
        agents=frozenset(agents),
        failed_calls=failed,
        lifecycle=lifecycles.from_json(lifecycle) if rest else _lifecycle_before(origin, lifecycle),
        expired_before=expired,
        is_active=rest[0] if rest else True,
    )


def _lifecycle_before(origin: Origin, ending: list[Any] | None) -> Lifecycle:
    stated = None if ending is None else Ending(Status(ending[0]), _order(ending[1]), *ending[2:])
    return lifecycles.lifecycle_before(origin, stated)


def _order(value: list[Any]) -> Order:
    at, producer, number, event_id = value
    return (at, producer, number, event_id)
