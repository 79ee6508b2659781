"""Layout `session` (the session journal): `PK` is `SESSION#{id}`, `SK` is `EVENT#{ISO time with ms and Z}`.

Other producers write other forms of the time: microseconds, an offset instead of Z, something after it. They
all sort by their first nineteen characters, so bounds end there. A key that is no time at all still reads.
"""

from __future__ import annotations

import re
from hashlib import sha256

from longwatch.clock import iso_from_ms, ms_from_iso
from longwatch.errors import InvalidEvent
from longwatch.journal.dynamodb.layout import (
    NO_PLACE,
    VERSION,
    DirectoryNames,
    SortKey,
    StoredEvent,
    first_readable,
    text_in,
    whole_number_in,
    with_texts,
)
from longwatch.journal.dynamodb.other_producers import damaged_event, foreign_event, unreadable_item
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import MAX_OCCURRED_AT, RESERVED_PREFIX, Event, epoch_ms, error_of
from longwatch.model.run import ENDS, Status
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue, from_attribute, to_map

ERROR_CHARACTERS = 4_096  # of the copy in ErrorMessage; the payload has all of it
LONGEST_SORT_NAME = 900  # bytes; a sort key ends at 1,024
NO_MESSAGE = "no message"  # every failure has an ErrorMessage, as required

_SESSION, _EVENT, _AFTER_EVENTS = "SESSION#", "EVENT#", "EVENT$"
_TO_THE_SECOND = len("2026-11-15T10:00:00")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")
_MARKER = {"N": str(VERSION)}

_NAMES = {  # of what is read of a damaged item
    "marker": "Longwatch",
    "event_id": "EventId",
    "producer": "Producer",
    "number": "Number",
}


class SessionLayout:
    """Events as the session journal requirements have them, and the attributes of our own beside those."""

    name = "session"
    key_names = ("PK", "SK")
    default_ttl_seconds: int | None = None
    free = PutCondition(expression="attribute_not_exists(PK)")
    directory = DirectoryNames(
        marker="Longwatch", run_id="RunId", started_at="StartedAt", summary="Summary", revision="Revision"
    )
    types = (
        "PK",
        "SK",
        "Status",
        "event_type",
        "Timestamp",
        "AgentName",
        "Longwatch",
        "EventId",
        "Producer",
        "Number",
        "ttl",
        "Payload.status",
        "Payload.name",
        "Payload.kind",
    )

    def item(self, event: Event) -> AttributeMap:
        item: AttributeMap = {
            "PK": self.partition(event.run_id),
            "Status": {"S": event.type},
            "Timestamp": {"S": iso_from_ms(event.occurred_at)},
            "Payload": to_map(event.payload),
            "Longwatch": _MARKER,
            "EventId": {"S": event.event_id},
        }
        if event.number is not None:
            item["Number"] = {"N": str(event.number)}
        if event.ttl is not None:
            item["ttl"] = {"N": str(event.ttl)}
        return with_texts(
            item,
            {
                "ErrorMessage": _error_message(event),
                "AgentName": event.agent_name,
                "CallId": event.call_id,
                "ParentCallId": event.parent_call_id,
                "Producer": event.producer,
                "PreviousDigest": event.previous_digest,
                "TraceId": event.trace_id,
            },
        )

    def placed(self, item: AttributeMap, event: Event, place: int) -> AttributeMap:
        if place > MAX_OCCURRED_AT:
            raise InvalidEvent(f"no free key for {event.event_id} before the year 10000")
        return {**item, "SK": {"S": f"{_EVENT}{iso_from_ms(place)}"}}

    def stored(self, item: AttributeMap, run_id: str) -> StoredEvent:
        key = self.key_of(item)
        place, at = _times(key)
        return first_readable(
            lambda: self._ours(item, run_id, key, place),
            lambda: StoredEvent(damaged_event(run_id, key, max(0, at), item, **_NAMES), key, place, place),
            lambda: StoredEvent(self._foreign(item, run_id, key, at), key, place, place),
            lambda: StoredEvent(unreadable_item(run_id, key, max(0, at), item), key, place, place),
        )

    def _ours(self, item: AttributeMap, run_id: str, key: str, place: int) -> StoredEvent:
        int(item["Longwatch"]["N"])  # a KeyError here: somebody else wrote it
        payload = from_attribute(item["Payload"]) if "Payload" in item else {}
        event = Event(
            run_id=run_id,
            event_id=item["EventId"]["S"],
            type=item["Status"]["S"],
            occurred_at=ms_from_iso(item["Timestamp"]["S"]),
            agent_name=text_in(item, "AgentName"),
            payload=payload,  # type: ignore[arg-type]  # the event itself refuses what is no map
            call_id=text_in(item, "CallId"),
            parent_call_id=text_in(item, "ParentCallId"),
            producer=text_in(item, "Producer"),
            number=whole_number_in(item, "Number"),
            previous_digest=text_in(item, "PreviousDigest"),
            trace_id=text_in(item, "TraceId"),
            ttl=whole_number_in(item, "ttl"),
        )
        return StoredEvent(event, key, place, min(place, event.occurred_at))

    def _foreign(self, item: AttributeMap, run_id: str, key: str, at: int) -> Event:
        values = {
            name: from_attribute(attribute) for name, attribute in item.items() if name not in ("PK", "SK")
        }
        told = _told_time(values.get("Timestamp"))
        if told is not None:
            at = told
            del values["Timestamp"]
        return foreign_event(
            run_id,
            key,
            max(0, at),
            values,
            types=("Status", "event_type", "type"),
            agents=("AgentName", "agent_name"),
            calls=("CallId", "call_id", "event_id"),
            payloads=("Payload", "payload"),
            errors=("ErrorMessage", "error_message", "error"),
        )

    def run_of(self, item: AttributeMap) -> str | None:
        partition, sort = text_in(item, "PK"), text_in(item, "SK")
        if partition is None or sort is None or not sort.startswith(_EVENT):
            return None
        run_id = partition.removeprefix(_SESSION)
        return None if run_id == partition or not run_id or run_id.startswith(RESERVED_PREFIX) else run_id

    def partition(self, run_id: str) -> AttributeValue:
        return {"S": f"{_SESSION}{run_id}"}

    def low(self, ms: int) -> AttributeValue:
        return {
            "S": f"{_EVENT}{iso_from_ms(min(ms, MAX_OCCURRED_AT))[:_TO_THE_SECOND]}" if ms > 0 else _EVENT
        }

    def high(self, ms: int | None = None) -> AttributeValue:
        if ms is None:
            return {"S": _AFTER_EVENTS}
        return {"S": f"{_EVENT}{iso_from_ms(min(ms, MAX_OCCURRED_AT))[:_TO_THE_SECOND]}~"}

    def sort_value(self, key: SortKey) -> AttributeValue:
        return {"S": str(key)}

    def key_of(self, item: AttributeMap) -> str:
        return str(item["SK"]["S"])

    def place_of(self, key: SortKey) -> int:
        return _times(str(key))[0]

    def day(self, day: str) -> AttributeValue:
        return {"S": f"RUNS#{day}"}

    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        return {"S": f"RUN#{iso_from_ms(low_ms)}"}, {"S": f"RUN#{iso_from_ms(high_ms)}$"}

    def entry_key(self, day: str, place: int, run_id: str) -> AttributeMap:
        return {"PK": self.day(day), "SK": {"S": f"RUN#{iso_from_ms(place)}#{_sort_name(run_id)}"}}

    def claim_key(self, run_id: str) -> AttributeMap:
        return {"PK": {"S": f"RUN#{run_id}"}, "SK": {"S": "LISTED"}}

    def heartbeat_key(self, process_id: str) -> AttributeMap:
        return {"PK": {"S": f"{RESERVED_PREFIX}heartbeat#{process_id}"}, "SK": {"S": "HEARTBEAT"}}


def _sort_name(run_id: str) -> str:
    """The run id, or its digest where it would not fit into a sort key beside the time."""
    encoded = run_id.encode()
    return run_id if len(encoded) <= LONGEST_SORT_NAME else sha256(encoded).hexdigest()


def _error_message(event: Event) -> str | None:
    """What readers of the session journal expect on a failure."""
    error = error_of(event.payload)
    if error is None and (event.type.endswith("_FAILED") or ENDS.get(event.type) is Status.FAILED):
        error = NO_MESSAGE
    return error[:ERROR_CHARACTERS] if error else None


def _times(key: str) -> tuple[int, int]:
    """Where a sort key stands, by its text alone, and the time that it means."""
    match = _TIME.match(key, len(_EVENT))
    if match is None:
        return NO_PLACE, _told_time(key.removeprefix(_EVENT)) or NO_PLACE
    text, zone = match.groups()
    try:
        return ms_from_iso(text), ms_from_iso(text + (zone or "Z"))
    except ValueError:  # the 31st of February
        return NO_PLACE, NO_PLACE


def _told_time(value: object) -> int | None:
    """A time as somebody wrote it: ISO text, or a number of milliseconds or seconds."""
    try:
        if isinstance(value, str):
            ms = epoch_ms(int(value)) if value.isdigit() else ms_from_iso(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            ms = epoch_ms(value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return ms if 0 <= ms <= MAX_OCCURRED_AT else None
