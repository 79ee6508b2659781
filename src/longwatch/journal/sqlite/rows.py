"""Events and run summaries as rows. Only this module depends on the order of the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import eq, is_not, itemgetter
from sys import getsizeof
from typing import Any, cast

from longwatch.errors import InvalidInput, JournalDamaged, LongwatchError
from longwatch.journal import lifecycles, run_totals
from longwatch.journal.arrivals import ArrivalCursor
from longwatch.journal.base import PAGE_BYTES
from longwatch.journal.codec import decode_payload, payload_text
from longwatch.model.attempts import Lifecycle
from longwatch.model.endings import Ending, Status
from longwatch.model.event import (
    MAX_OCCURRED_AT,
    MAX_WHOLE,
    Event,
    EventSlots,
    Order,
    parse_event_id,
    unreadable_event,
)
from longwatch.model.failures import failed_calls_from_json, failed_calls_to_json
from longwatch.model.labels import NO_LABELS, labels_from_json, labels_to_json
from longwatch.model.run import Origin, RunSummary
from longwatch.model.totals import NO_TOTALS

EVENT_COLUMNS = (  # in the order of Event's fields
    "run_id, event_id, type, occurred_at, agent_name, payload, call_id, parent_call_id, "
    "producer, number, previous_digest, trace_id, ttl"
)
# The columns of readers. SQLite validates the JSON in half the time of decoding it, and most readers never
# access a payload. `_are_valid` checks everything else, a column at a time.
STORED_COLUMNS = f"{EVENT_COLUMNS}, json_valid(payload), position"
_TEXT_COLUMNS = frozenset(EVENT_COLUMNS.split(", ")) - {"occurred_at", "number", "ttl"}
RAW_COLUMNS = ", ".join(  # the same for values that may not be UTF-8
    f"CAST({name} AS BLOB)" if name in _TEXT_COLUMNS else name
    for name in (*EVENT_COLUMNS.split(", "), "0", "position")
)
RUN_ID, PAYLOAD, IS_JSON, POSITION = 0, 5, -2, -1  # indexes in a row of these columns
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StoredPayload(Mapping[str, object]):
    """A payload that is decoded on first access. Most readers of new events never access it."""

    __slots__ = ("_value",)

    _value: str | dict[str, object]  # text until the first access

    def decode(self) -> dict[str, object]:
        """The payload as a dict, decoded once."""
        value = self._value
        if isinstance(value, str):
            self._value = value = decode_payload(value)
        return value

    def __getitem__(self, key: str) -> object:
        return self.decode()[key]

    # Not that of `Mapping`, which catches a KeyError: a fold of a long run mostly asks for keys that most
    # payloads lack.
    def get(self, key: str, default: Any = None) -> Any:
        value = self._value
        return (value if isinstance(value, dict) else self.decode()).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.decode())

    def __len__(self) -> int:
        return len(self.decode())

    def __repr__(self) -> str:
        return repr(self.decode())


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
    """The event in a valid row of `STORED_COLUMNS`.

    Assigns the fields one by one, like `stored_event`: building a tuple for that would slow down every read.
    """
    event: Any = EventSlots()
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
        _,
    ) = row
    payload = StoredPayload()
    payload._value = text
    event.payload = payload
    event.encoded = text
    event.__class__ = Event
    return cast(Event, event)


_TEXT, _TEXT_OR_NONE = frozenset({str}), frozenset({str, type(None)})
_WHOLE, _WHOLE_OR_NONE = frozenset({int}), frozenset({int, type(None)})
_TYPES = (  # of each column; STRICT tables are checked when they are written, not when they are read
    *(_TEXT, _TEXT, _TEXT, _WHOLE, _TEXT_OR_NONE, _TEXT, _TEXT_OR_NONE, _TEXT_OR_NONE),
    *(_TEXT_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE, _TEXT_OR_NONE, _WHOLE_OR_NONE, _WHOLE, _WHOLE),
)


def events_from_rows(rows: Sequence[tuple[Any, ...]]) -> list[Event]:
    """The events in rows of `STORED_COLUMNS`: one that cannot be decoded is an unreadable event."""
    if _are_valid(rows):
        return [event_from_row(row) for row in rows]
    found: list[Event] = []
    before = None  # time of the previous event, for an unreadable one without a time
    for row in rows:
        event = event_from_row(row) if _are_valid([row]) else read_damaged_row(row, otherwise_at=before)
        before = event.occurred_at
        found.append(event)
    return found


def _are_valid(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether each row is certainly an event; False if a payload may contain a tagged value.

    Joining, adding and comparing reject values of another type, at a fraction of the cost of checking each
    one.
    """
    if not rows:
        return True
    columns = list(zip(*rows, strict=True))
    times, payloads, producers, numbers = columns[3], columns[PAYLOAD], columns[8], columns[9]
    try:
        "".join(chain(*columns[:3], filter(_is_given, chain(columns[4], *columns[6:9], *columns[10:12]))))
        whole = sum(filter(_is_given, chain(times, numbers, columns[12], columns[POSITION])))
        return (
            all(columns[IS_JSON])
            and type(whole) is int
            and min(times) >= 0
            and max(times) <= MAX_OCCURRED_AT
            and min(filter(_is_given, numbers), default=1) > 0
            and all(map(eq, map(_is_given, numbers), map(_is_given, producers)))
            and "" not in columns[0]
            and "" not in columns[2]
            and set(map(_first, payloads)) == {"{"}
            and not any('"$' in text for text in payloads if "$" in text)
        )
    except TypeError:
        return False


_is_given = partial(is_not, None)
_first = itemgetter(0)


def read_damaged_row(row: tuple[Any, ...], *, otherwise_at: int | None = None) -> Event:
    """The event in a row that may be damaged in any way; text may be bytes."""
    values: dict[str, Any] = dict(zip(_NAMES, map(_decode_value, row), strict=False))
    text = values.pop("payload")
    try:
        if not isinstance(text, str):
            raise InvalidInput("the payload is not UTF-8 text")
        for name, types in zip(_NAMES, _TYPES, strict=False):
            if name != "payload" and type(values[name]) not in types:
                raise InvalidInput(f"{name} has the wrong type")
        payload = decode_payload(text)
        return Event(**values, payload=payload, encoded=text)
    except LongwatchError as error:
        return _unreadable(values, row[POSITION], str(error), otherwise_at)


_NAMES = tuple(EVENT_COLUMNS.split(", "))


def _decode_value(value: object) -> object:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _unreadable(values: Mapping[str, Any], position: int, reason: str, otherwise_at: int | None) -> Event:
    event_id, producer, number = values["event_id"], values["producer"], values["number"]
    event_id = event_id if isinstance(event_id, str) and event_id else None
    parsed = parse_event_id(event_id) if event_id is not None else None
    if not (isinstance(producer, str) and type(number) is int and 0 < number <= MAX_WHOLE):
        producer, number = parsed[1:] if parsed is not None else (None, None)
    at = values["occurred_at"]
    if not (type(at) is int and 0 <= at <= MAX_OCCURRED_AT):
        at = parsed[0] if parsed is not None else otherwise_at or 0
    run_id = values["run_id"]
    return unreadable_event(
        run_id if isinstance(run_id, str) and run_id else UNKNOWN_RUN,
        position,
        reason,
        occurred_at=at,
        event_id=event_id,
        producer=producer,
        number=number,
    )


UNKNOWN_RUN = "unknown run"  # of an unreadable event whose row lacks even that


class PageSize:
    """Counts the payload bytes of the rows of a page."""

    __slots__ = ("_bytes", "_seen")

    def __init__(self, seen: ArrivalCursor) -> None:
        self._seen = seen  # rows that the reader has handled do not count
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= PAGE_BYTES

    def reaches_end(self, row: tuple[Any, ...]) -> bool:
        """Count this row; True if it is the last of the page."""
        if row[POSITION] not in self._seen:
            self._bytes += getsizeof(row[PAYLOAD])  # as `payload_size` does
        return self._bytes >= PAGE_BYTES


def run_to_row(run: RunSummary) -> tuple[object, ...]:
    """The row of a run: columns to find it by, and the whole summary as text."""
    search = f"{run.run_id}\n{run.name or ''}".casefold()
    return (
        run.run_id,
        run.started_at,
        run.last_event_at,
        run.status.value,
        run.kind,
        search,
        encode_run(run),
    )


def has_same_columns(run: RunSummary, other: RunSummary) -> bool:
    """Whether two summaries of one run differ in no indexed column except its latest event."""
    return (
        run.started_at == other.started_at
        and run.status is other.status
        and run.kind == other.kind
        and run.name == other.name
    )


def encode_run(run: RunSummary) -> str:
    """The whole summary as text."""
    origin = run.origin
    summary: list[object] = [
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
        run.activity,
    ]
    further = _further_fields(run)
    if run.totals or run.waits or further:  # many runs have none, and their rows stay as they were
        summary += [run_totals.totals_to_json(run.totals), run_totals.waits_to_json(run.waits)]
    if further:
        summary.append(further)
    return _encode(summary)


def _further_fields(run: RunSummary) -> dict[str, object]:
    """Fields that were added later, by name, without those that are empty."""
    further: dict[str, object] = {}
    if run.labels:
        further["labels"] = labels_to_json(run.labels)
    if run.tools:
        further["tools"] = sorted(run.tools)
    if run.last_failed_calls:
        further["failed_calls"] = failed_calls_to_json(run.last_failed_calls)
    return further


def decode_run(run_id: str, text: str) -> RunSummary:
    """The summary that `encode_run` wrote; raises `JournalDamaged` for anything else."""
    try:
        return _run_from_text(run_id, text)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise JournalDamaged(f"The summary of run {run_id!r} cannot be read ({error}).") from error


def _run_from_text(run_id: str, text: str) -> RunSummary:
    stored, started_at, last, last_type, events, agents, failed, lifecycle, expired, *rest = json.loads(text)
    origin = Origin(stored[0], _order(stored[1]), stored[2], stored[3], stored[4])
    further: dict[str, Any] = rest[4] if len(rest) > 4 else {}
    return RunSummary(
        run_id=run_id,
        origin=origin,
        started_at=started_at,
        last_order=_order(last),
        last_event_type=last_type,
        events=events,
        agents=frozenset(agents),
        failed_calls=failed,
        lifecycle=lifecycles.from_json(lifecycle) if rest else _earlier_lifecycle(origin, lifecycle),
        expired_before=expired,
        is_active=rest[0] if rest else True,
        activity=tuple((at, producer) for at, producer in rest[1]) if len(rest) > 1 else (),
        totals=run_totals.totals_from_json(rest[2]) if len(rest) > 2 else NO_TOTALS,
        waits=run_totals.waits_from_json(rest[3]) if len(rest) > 3 else (),
        labels=labels_from_json(further["labels"]) if "labels" in further else NO_LABELS,
        tools=frozenset(further.get("tools", ())),
        last_failed_calls=failed_calls_from_json(further.get("failed_calls", ())),
    )


def _earlier_lifecycle(origin: Origin, ending: list[Any] | None) -> Lifecycle:
    stated = None if ending is None else Ending(Status(ending[0]), _order(ending[1]), *ending[2:])
    return lifecycles.lifecycle_from_ending(origin, stated)


def _order(value: list[Any]) -> Order:
    at, producer, number, event_id = value
    return (at, producer, number, event_id)
