"""Events of an append request: validated, completed and stored once.

A table recognises an event by its id and its time. So an event with an id must have its time as well. If the
server derives the id from an idempotency key, it uses the time of an earlier append with that key.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from longwatch.errors import EventConflict, InvalidEvent, InvalidInput
from longwatch.journal.base import Journal
from longwatch.journal.codec import MAX_LEVELS, TOO_DEEP, from_wire, payload_text
from longwatch.journal.fold_reader import FoldReader
from longwatch.model.event import MAX_OCCURRED_AT, MAX_WHOLE, Event, new_event_id
from longwatch.recording.capture import FULL, CaptureLimits, capture_fields
from longwatch.recording.outbox import announcements
from longwatch.recording.producers import clean_payload, unredacted_fields
from longwatch.recording.secret_names import SecretNames
from longwatch.server.errors import MOST_DETAILS, ApiError
from longwatch.server.responses import JSON_TYPE, LINES_TYPE
from longwatch.settings import MAX_PAYLOAD_BYTES

KEYED = "key-"  # prefix of ids that are derived from an idempotency key
LOCKS = 64
# Events are stored whole: values that nest deeper than captured objects may are not truncated.
WHOLE = CaptureLimits(characters=FULL.characters, items=FULL.items, depth=MAX_LEVELS + 1, total=FULL.total)

_TEXT_SCHEMA = {"type": "string", "minLength": 1}
EVENT_SCHEMA: Mapping[str, Any] = {  # what the server can fill in may be left out
    "type": "object",
    "additionalProperties": False,
    "required": ["type"],
    "dependentRequired": {"event_id": ["occurred_at"], "producer": ["number"], "number": ["producer"]},
    "properties": {
        "type": {**_TEXT_SCHEMA, "description": "What happened, such as `tool_call`."},
        "event_id": {
            **_TEXT_SCHEMA,
            "description": "Identifies this event; by default the server makes one.",
        },
        "occurred_at": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_OCCURRED_AT,
            "description": "Epoch ms; by default the server's time.",
        },
        "run_id": {**_TEXT_SCHEMA, "description": "Must be the run of the URL, if given."},
        "agent_name": _TEXT_SCHEMA,
        "call_id": _TEXT_SCHEMA,
        "parent_call_id": _TEXT_SCHEMA,
        "producer": {**_TEXT_SCHEMA, "description": "Only with `number`."},
        "number": {"type": "integer", "minimum": 1, "maximum": MAX_WHOLE},
        "previous_digest": _TEXT_SCHEMA,
        "trace_id": _TEXT_SCHEMA,
        "ttl": {"type": "integer", "minimum": 0, "maximum": MAX_WHOLE},
        "payload": {"type": "object"},
    },
}


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """One event of an append."""

    event: Event
    is_dated: bool  # False: its time is the server's, which differs if the append is repeated


@dataclass(frozen=True, slots=True)
class KeyedTimes:
    """The times of a run's events whose ids are derived from keys."""

    times: Mapping[str, int] = field(default_factory=dict)

    def plus(self, events: Iterable[Event]) -> KeyedTimes:
        """These and those of more events."""
        found = {event.event_id: event.occurred_at for event in events if event.event_id.startswith(KEYED)}
        return KeyedTimes({**self.times, **found}) if found else self


class EventIntake:
    """Stores appended events. Threads may share it.

    It redacts secrets as the recorder does. Events that a producer has numbered do not change: they come from
    a recorder, and their digests would not match.
    """

    def __init__(self, journal: Journal, secrets: SecretNames) -> None:
        self._journal = journal
        self._secrets = secrets
        self._keyed = FoldReader[KeyedTimes](journal)
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def append(self, given: Sequence[IncomingEvent], *, now_ms: int) -> None:
        """Store each event once, and announce old events to the followers of a table."""
        if not given:
            return
        given = [replace(each, event=self._without_secrets(each.event)) for each in given]
        if all(each.is_dated or not each.event.event_id.startswith(KEYED) for each in given):
            self.store([each.event for each in given], now_ms)
            return
        run_id = given[0].event.run_id
        with self._locks[hash(run_id) % LOCKS]:  # concurrent repetitions of an append run one after the other
            times = self._keyed.read(run_id, KeyedTimes).times
            self.store([_with_earlier_time(each, times) for each in given], now_ms)

    def _without_secrets(self, event: Event) -> Event:
        if event.producer is not None:
            return event
        copy, weight = capture_fields(event.payload, WHOLE, self._secrets, unredacted_fields(event.type))
        payload, text = clean_payload(copy, MAX_PAYLOAD_BYTES, weight)
        return event if payload == event.payload else replace(event, payload=payload, encoded=text)

    def store(self, events: Sequence[Event], now_ms: int) -> None:
        """Store redacted events once each. A repeated batch is announced again: the first may have failed."""
        try:
            self._journal.append(events)
        except EventConflict:
            self._announce(events, now_ms)  # the other events are stored
            raise
        self._announce(events, now_ms)

    def _announce(self, events: Sequence[Event], now_ms: int) -> None:
        if self._journal.announce_after_ms is not None:
            oldest = now_ms - self._journal.announce_after_ms
            late = [event for event in events if event.occurred_at < oldest]
            if late:
                self._journal.append(announcements(late, now_ms))


def _with_earlier_time(given: IncomingEvent, times: Mapping[str, int]) -> Event:
    at = None if given.is_dated else times.get(given.event.event_id)
    if at is None:
        return given.event
    event = given.event
    ttl = None if event.ttl is None else event.ttl + at // 1000 - event.occurred_at // 1000
    return replace(event, occurred_at=at, ttl=ttl)


def parse_events(
    body: bytes,
    content_type: str,
    *,
    run_id: str,
    key: str,
    now_ms: int,
    ttl_seconds: int | None,
    most: int,
) -> list[IncomingEvent]:
    """The events in a body. The error for invalid events has details of each, up to a limit."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (JSON_TYPE, LINES_TYPE):
        raise ApiError(
            415,
            "unsupported_media_type",
            f"Unsupported content type {content_type[:80]!r}. Send events as {JSON_TYPE} or {LINES_TYPE}.",
        )
    items = list(_lines(body) if media_type == LINES_TYPE else _listed(body))
    if len(items) > most:
        raise ApiError(413, "too_many_events", f"{len(items)} events in one request. Send at most {most}.")
    batch_id = _batch_id(run_id, key, now_ms)
    given: list[IncomingEvent] = []
    mistakes: list[tuple[str, str]] = []
    for position, (where, item) in enumerate(items):
        try:
            given.append(
                _event(
                    item, position, run_id=run_id, batch_id=batch_id, now_ms=now_ms, ttl_seconds=ttl_seconds
                )
            )
        except (InvalidInput, InvalidEvent) as error:
            mistakes.append((where, str(error)))
    if mistakes:
        raise ApiError(
            422,
            "invalid_event",
            f"Invalid events: {len(mistakes)} of {len(items)}. None was stored. "
            f"The details describe the first {min(len(mistakes), MOST_DETAILS)}.",
            details=mistakes,
        )
    return given


def _listed(body: bytes) -> Iterator[tuple[str, Any]]:
    value = _decode(body)
    if not isinstance(value, dict) or not isinstance(value.get("events"), list) or len(value) > 1:
        raise ApiError(
            422,
            "invalid_request",
            'The body must be {"events": [...]} and nothing else.',
            details=[("events", "must be an array")],
        )
    for position, item in enumerate(value["events"]):
        yield f"events[{position}]", item


def _lines(body: bytes) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", _decode(line, where=f"Line {number}")


def _decode(body: bytes, *, where: str = "The body") -> Any:
    """One JSON value. Python's NaN and Infinity are invalid."""
    try:
        return json.loads(body.decode(), parse_constant=_reject)
    except UnicodeDecodeError as error:
        raise ApiError(400, "not_utf8", f"{where} is not UTF-8: {error.reason}.") from error
    except RecursionError as error:
        raise ApiError(422, "invalid_event", f"{where} cannot be stored: {TOO_DEEP}.") from error
    except ValueError as error:
        raise ApiError(400, "not_json", f"{where} is not valid JSON: {str(error)[:200]}.") from error


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _event(
    item: Any, position: int, *, run_id: str, batch_id: str, now_ms: int, ttl_seconds: int | None
) -> IncomingEvent:
    if not isinstance(item, dict):
        raise InvalidInput("an event must be a JSON object")
    if item.get("run_id") not in (None, run_id):
        raise InvalidInput(f"run_id must be {run_id[:60]!r} as in the URL, or absent")
    is_dated = item.get("occurred_at") is not None
    complete = {**item, "run_id": run_id}
    if not is_dated:
        complete["occurred_at"] = now_ms
    if item.get("event_id") is not None and not is_dated:
        raise InvalidInput(
            "an event with an event_id needs an occurred_at as well, or a repeated append would not be "
            "recognised; omit both, and send an Idempotency-Key"
        )
    if item.get("event_id") is None:
        # The events may have the same millisecond; their ids keep them in order.
        complete["event_id"] = f"{batch_id}{position:08x}"
    event = from_wire(complete)
    if len(payload_text(event).encode()) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(f"the payload has more than {MAX_PAYLOAD_BYTES} bytes; shorten or split it")
    if event.ttl is None and ttl_seconds is not None:
        event = replace(event, ttl=event.occurred_at // 1000 + ttl_seconds)
    return IncomingEvent(event, is_dated)


def _batch_id(run_id: str, key: str, now_ms: int) -> str:
    """The prefix of the ids of one append: the same for the same key, else unique."""
    if not key:
        return new_event_id(now_ms)[:24]
    identity = f"{run_id}\0{key}".encode(errors="surrogatepass")
    return f"{KEYED}{sha256(identity).hexdigest()[:20]}"
