"""Producers number the events of one recorder in one process for one run, and chain their digests.

Only the writer thread uses them, so nothing here is locked.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from longwatch.errors import InvalidEvent
from longwatch.journal.codec import digest, encode_payload
from longwatch.model.attempts import ATTEMPT_STARTS, FACT_TYPES
from longwatch.model.endings import STARTS
from longwatch.model.event import MAX_OCCURRED_AT, MAX_SLOT_DRIFT_MS, Event, numbered_event_id, stored_event
from longwatch.model.usage import TOKEN_FIELDS
from longwatch.recording.capture import DECIDING_FIELDS, FULL, Capture, encodable, error_text
from longwatch.recording.membership import JOINED
from longwatch.recording.redaction import may_hold_secret, redact, redact_text
from longwatch.recording.scope import EventDraft
from longwatch.recording.secret_names import SecretNames
from longwatch.recording.truncation import fit_payload, stored_size

log = logging.getLogger("longwatch")

PRODUCER_CLOSED = "producer_closed"
GIST_CHARACTERS = 2_000
LEAST_ROOM_BYTES = 500  # for the other fields, if the fixed ones fill a small event
CALL_TYPES = frozenset({"tool_call", "agent_start", "agent_end", "node_start", "node_stop"})
MODEL_CALL_FIELDS = (
    *("status", "model", "provider", "operation", "response_model", "response_id", "same_as", "adds_usage"),
    "recorded_by",
    *TOKEN_FIELDS,
)
WAIT_TYPES = frozenset({"waiting_started", "waiting_ended"})
MAX_OPEN = 20_000  # producers; about 10 MB
FIELDS = tuple(Event.__dataclass_fields__)
MAX_CHECKED = 1_000  # names can come from data, so the cache is bounded


class Producer:
    """Turns the drafts of one run into numbered events, in the order in which they were queued."""

    __slots__ = ("_checked", "_max_payload_bytes", "_number", "_previous", "_slot", "name", "run_id")

    def __init__(self, run_id: str, *, max_payload_bytes: int) -> None:
        self.run_id = run_id
        self.name = os.urandom(6).hex()
        self._max_payload_bytes = max_payload_bytes
        self._number = 0
        self._slot = -1  # of the last event
        self._previous: str | None = None
        self._checked: set[tuple[str, str | None, str | None]] = set()

    def event(self, draft: EventDraft, *, ttl_seconds: int | None) -> Event:
        """The next event of this producer. `InvalidEvent` leaves the numbers as they are."""
        payload, text = clean_payload(draft.payload, self._max_payload_bytes, draft.weight, draft.fixed)
        number = self._number + 1
        at, last_slot = draft.occurred_at, self._slot
        slot = at if at > last_slot else next_slot(at, last_slot)
        values = (
            draft.run_id,
            numbered_event_id(slot, self.name, number),
            draft.type,
            draft.occurred_at,
            draft.agent_name,
            payload,
            draft.call_id,
            draft.parent_call_id,
            self.name,
            number,
            self._previous,
            draft.trace_id,
            draft.occurred_at // 1000 + ttl_seconds if ttl_seconds else None,
            text,
        )
        # Types and names repeat, so each combination is checked once.
        names = (draft.type, draft.agent_name, draft.trace_id)
        if (
            names in self._checked
            and 0 <= draft.occurred_at <= MAX_OCCURRED_AT
            and (draft.call_id is None or draft.call_id.isascii())
            and (draft.parent_call_id is None or draft.parent_call_id.isascii())
        ):
            event = stored_event(values)
        else:
            event = Event(**dict(zip(FIELDS, values, strict=True)))  # type: ignore[arg-type]
            if len(self._checked) < MAX_CHECKED:
                self._checked.add(names)
        self._number, self._slot = number, slot
        self._previous = digest(event)
        return event

    def closing_event(self, occurred_at: int, *, ttl_seconds: int | None) -> Event:
        """The last event, which states the number of events including itself."""
        draft = EventDraft(self.run_id, PRODUCER_CLOSED, occurred_at, {"count": self._number + 1})
        return self.event(draft, ttl_seconds=ttl_seconds)


class Producers:
    """The producers of one recorder, by run. Their number is bounded, for runs that are never closed."""

    def __init__(
        self,
        *,
        max_payload_bytes: int,
        join_fields: Callable[[str], dict[str, object] | None] = lambda _: None,
    ) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._join_fields = (
            join_fields  # the fields of its `process_joined`; None if the process started the run
        )
        self._open: dict[str, Producer] = {}
        self._retired: list[Producer] = []

    @property
    def are_open(self) -> bool:
        return bool(self._open)

    def name_of(self, run_id: str) -> str | None:
        """The name of the run's producer; None if it has no events yet."""
        producer = self._open.get(run_id)
        return producer.name if producer is not None else None

    def add(self, draft: EventDraft, events: list[Event], *, ttl_seconds: int | None) -> None:
        """Append the next event of the draft's run. A new producer starts with `process_joined`."""
        producer = self._open.get(draft.run_id)
        if producer is not None:
            events.append(producer.event(draft, ttl_seconds=ttl_seconds))
            return
        producer = Producer(draft.run_id, max_payload_bytes=self._max_payload_bytes)
        drafts = [draft] if _names_process(draft) else [*self._join_draft(draft), draft]
        events += [producer.event(each, ttl_seconds=ttl_seconds) for each in drafts]
        if len(self._open) >= MAX_OPEN:
            self._retired.append(self._open.pop(next(iter(self._open))))
        self._open[draft.run_id] = producer

    def _join_draft(self, draft: EventDraft) -> list[EventDraft]:
        """The draft that names this process, with the time of its first event."""
        fields = self._join_fields(draft.run_id)
        return (
            []
            if fields is None
            else [
                EventDraft(draft.run_id, JOINED, draft.occurred_at, {}, trace_id=draft.trace_id, fixed=fields)
            ]
        )

    def close_run(self, run_id: str, occurred_at: int, *, ttl_seconds: int | None) -> list[Event]:
        """Close the run's producer; returns its closing event, if it has a producer."""
        producer = self._open.pop(run_id, None)
        return [] if producer is None else [producer.closing_event(occurred_at, ttl_seconds=ttl_seconds)]

    def close_retired(self, now_ms: Callable[[], int], *, ttl_seconds: int | None) -> list[Event]:
        """Close the producers that were evicted; returns their closing events."""
        if not self._retired:
            return []
        close_retired, self._retired = self._retired, []
        return [each.closing_event(now_ms(), ttl_seconds=ttl_seconds) for each in close_retired]

    def close_all(self, occurred_at: int, *, ttl_seconds: int | None) -> list[Event]:
        """Close every producer; returns their closing events."""
        producers, self._open = self._open, {}
        return [each.closing_event(occurred_at, ttl_seconds=ttl_seconds) for each in producers.values()]


def next_slot(occurred_at: int, last_slot: int) -> int:
    """The millisecond in an event's id: its own time, or the millisecond after the producer's last event.

    So events of one producer never compete for a DynamoDB key, and can be put in parallel. If the clock was
    set back, or an event is recorded long after it happened, the slot starts again at the event's own time.
    """
    slot = max(occurred_at, last_slot + 1)
    return slot if slot - occurred_at <= MAX_SLOT_DRIFT_MS else occurred_at


def unredacted_fields(type: str) -> Container[str]:
    """The fields of this type of event that decide what a run or a call is and how it ended.

    `redact_keys` does not apply to them. In other events the same names belong to the program.
    """
    if type in STARTS or type in FACT_TYPES:
        return DECIDING_FIELDS
    if type == "model_call":
        return MODEL_CALL_FIELDS
    return ("status",) if type in CALL_TYPES else ("reason",) if type in WAIT_TYPES else ()


def clean_payload(
    payload: dict[str, object], max_bytes: int, weight: int = 0, fixed: Mapping[str, object] | None = None
) -> tuple[dict[str, object], str]:
    """Redact and truncate a captured payload; returns it with its text. `weight` comes from its capture.

    The `fixed` fields are added unchanged; the other fields are truncated to the room that is left.
    """
    if fixed:
        fixed_fields, text = _encoded_fields(fixed)
        room = max(LEAST_ROOM_BYTES, max_bytes - stored_size(fixed_fields, text))
        rest, _ = clean_payload(
            {key: payload[key] for key in payload if key not in fixed_fields}, room, weight
        )
        whole = {**rest, **fixed_fields}
        return whole, encode_payload(whole)
    try:
        text = encode_payload(payload)
    except InvalidEvent:  # a short text that capture did not check has a lone surrogate
        payload, text = make_storable(payload)
    if may_hold_secret(text, len(payload)):
        clean = {redact_text(str(key)): redact(value) for key, value in payload.items()}
        if clean != payload:
            payload, text = clean, encode_payload(clean)
    fitted, text = fit_payload(payload, text, max_bytes, weight)
    return dict(fitted) if fitted is not payload else payload, text


def _encoded_fields(fields: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """The fields and their text; a host name or path that is not UTF-8 is escaped."""
    try:
        return dict(fields), encode_payload(fields)
    except InvalidEvent:
        return make_storable(fields)


def encode_event(event: Event) -> Event:
    """The event with its payload as text, which every store accepts."""
    if event.encoded is not None:
        return event
    try:
        return replace(event, encoded=encode_payload(event.payload))
    except InvalidEvent:
        payload, text = make_storable(event.payload)
        return replace(event, payload=payload, encoded=text)


def make_storable(payload: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Convert a payload to values that journals can store; at worst, to the beginning of its text."""
    try:
        fixed_fields = {encodable(str(key)): item for key, item in payload.items()}
        fitted = Capture(FULL, SecretNames()).fields(fixed_fields)
        return fitted, encode_payload(fitted)
    except Exception as error:  # noqa: BLE001 - the event itself must not be lost
        log.warning("longwatch: cannot store a payload, so its text is stored: %s", error_text(error))
        gist: dict[str, object] = {"unstorable": encodable(redact_text(repr(payload))[:GIST_CHARACTERS])}
        return gist, encode_payload(gist)


def _names_process(draft: EventDraft) -> bool:
    """Whether the event names its process. A start without one belongs to a process elsewhere."""
    return draft.type in ATTEMPT_STARTS or draft.type == JOINED
