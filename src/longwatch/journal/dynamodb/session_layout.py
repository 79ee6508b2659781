"""Layout `session` (the session journal): `PK` is `SESSION#{id}`, `SK` is `EVENT#{ISO time with ms and Z}`.

Other producers write other forms of the time: microseconds, an offset instead of Z, a suffix. All of them
sort by their first nineteen characters, so bounds end there. A key that is not a time is read too.
"""

from __future__ import annotations

import re
from hashlib import sha256

from longwatch.clock import iso_from_ms, ms_from_iso
from longwatch.errors import InvalidEvent
from longwatch.journal.dynamodb.layout import NO_TIME, EventNames, IndexNames, Layout, SortKey
from longwatch.journal.dynamodb.other_producers import OtherNames
from longwatch.model.event import MAX_OCCURRED_AT, RESERVED_PREFIX, Event, epoch_ms, error_of
from longwatch.model.run import ENDS, Status
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue, text_in

ERROR_CHARACTERS = 4_096  # of the copy in ErrorMessage; the payload has the whole message
LONGEST_SORT_NAME = 900  # bytes; a sort key is limited to 1,024
NO_MESSAGE = "no message"  # every failure has an ErrorMessage, as required

_SESSION, _EVENT, _AFTER_EVENTS = "SESSION#", "EVENT#", "EVENT$"
_TO_THE_SECOND = len("2026-11-15T10:00:00")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")


class SessionLayout(Layout):
    """Events as the session journal requirements define them, with additional attributes of longwatch."""

    name = "session"
    key_names = ("PK", "SK")
    default_ttl_seconds = None
    names = EventNames(
        marker="Longwatch",
        type="Status",
        payload="Payload",
        event_id="EventId",
        agent_name="AgentName",
        call_id="CallId",
        parent_call_id="ParentCallId",
        producer="Producer",
        number="Number",
        previous_digest="PreviousDigest",
        trace_id="TraceId",
    )
    index_names = IndexNames(
        marker="Longwatch",
        run_id="RunId",
        started_at="StartedAt",
        summary="Summary",
        revision="Revision",
        tombstone="Tombstone",
    )
    other_names = OtherNames(
        types=("Status", "event_type", "type"),
        agents=("AgentName", "agent_name"),
        calls=("CallId", "call_id", "event_id"),
        payloads=("Payload", "payload"),
        errors=("ErrorMessage", "error_message", "error"),
    )
    scanned_names = (
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

    def encode_event(self, event: Event) -> AttributeMap:
        item = super().encode_event(event)
        item["Timestamp"] = {"S": iso_from_ms(event.occurred_at)}
        error = _error_message(event)
        if error is not None:
            item["ErrorMessage"] = {"S": error}
        return item

    def with_key(self, item: AttributeMap, event: Event, key_ms: int) -> AttributeMap:
        if key_ms > MAX_OCCURRED_AT:
            raise InvalidEvent(f"no free key for {event.event_id} before the year 10000")
        return {**item, "SK": {"S": f"{_EVENT}{iso_from_ms(key_ms)}"}}

    def occurred_at(self, item: AttributeMap, key_ms: int) -> int:
        return ms_from_iso(item["Timestamp"]["S"])

    def other_time_ms(self, values: dict[str, object], key: SortKey) -> int:
        stated = _parse_time(values.get("Timestamp"))
        if stated is None:
            return self.stated_ms(key)
        del values["Timestamp"]
        return stated

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

    def key_ms(self, key: SortKey) -> int:
        return _parse_key(str(key))[0]

    def stated_ms(self, key: SortKey) -> int:
        return max(0, _parse_key(str(key))[1])

    def day(self, day: str) -> AttributeValue:
        return {"S": f"RUNS#{day}"}

    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        return {"S": f"RUN#{iso_from_ms(low_ms)}"}, {"S": f"RUN#{iso_from_ms(high_ms)}$"}

    def entry_key(self, day: str, key_ms: int, run_id: str) -> AttributeMap:
        return self.item_key(f"RUNS#{day}", {"S": f"RUN#{iso_from_ms(key_ms)}#{_sort_name(run_id)}"})

    def claim_key(self, run_id: str) -> AttributeMap:
        return self.item_key(f"RUN#{run_id}", {"S": "LISTED"})

    def heartbeat_key(self, process_id: str) -> AttributeMap:
        return self.item_key(f"{RESERVED_PREFIX}heartbeat#{process_id}", {"S": "HEARTBEAT"})


def _sort_name(run_id: str) -> str:
    """The run ID, or its digest if it does not fit into a sort key beside the time."""
    encoded = run_id.encode()
    return run_id if len(encoded) <= LONGEST_SORT_NAME else sha256(encoded).hexdigest()


def _error_message(event: Event) -> str | None:
    """The ErrorMessage that readers of the session journal expect on a failure."""
    error = error_of(event.payload)
    if error is None and (event.type.endswith("_FAILED") or ENDS.get(event.type) is Status.FAILED):
        error = NO_MESSAGE
    return error[:ERROR_CHARACTERS] if error else None


def _parse_key(key: str) -> tuple[int, int]:
    """The position of a sort key by its text alone, and the time that it states, in epoch ms."""
    match = _TIME.match(key, len(_EVENT))
    if match is None:
        return NO_TIME, _parse_time(key.removeprefix(_EVENT)) or NO_TIME
    text, zone = match.groups()
    try:
        return ms_from_iso(text), ms_from_iso(text + (zone or "Z"))
    except ValueError:  # such as the 31st of February
        return NO_TIME, NO_TIME


def _parse_time(value: object) -> int | None:
    """A time of another producer: ISO text, or a number of milliseconds or seconds."""
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
