"""Layout `workflow`, the events table: partition key `workflow_id`, sort key `timestamp` in epoch ms."""

from __future__ import annotations

from decimal import Decimal

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
from longwatch.model.event import MAX_OCCURRED_AT, RESERVED_PREFIX, Event, epoch_ms
from longwatch.storage.dynamodb.values import (
    AttributeMap,
    AttributeValue,
    from_attribute,
    number_from,
    to_map,
)

DAY_SECONDS = 24 * 3600
HIGHEST = {"N": "9.9E125"}  # above every number that a key can be

_MARKER = {"N": str(VERSION)}

_NAMES = {  # of what is read of a damaged item
    "marker": "longwatch",
    "event_id": "event_id",
    "producer": "producer",
    "number": "number",
}


class WorkflowLayout:
    """Events as the events table requirements have them, and the attributes of our own beside those."""

    name = "workflow"
    key_names = ("workflow_id", "timestamp")
    default_ttl_seconds: int | None = DAY_SECONDS
    free = PutCondition(expression="attribute_not_exists(workflow_id)")
    directory = DirectoryNames(
        marker="longwatch", run_id="run_id", started_at="started_at", summary="summary", revision="revision"
    )
    types = (
        "workflow_id",
        "timestamp",
        "event_type",
        "type",
        "agent_name",
        "longwatch",
        "event_id",
        "occurred_at",
        "producer",
        "number",
        "ttl",
        "payload.status",
        "payload.name",
        "payload.kind",
    )

    def item(self, event: Event) -> AttributeMap:
        item: AttributeMap = {
            "workflow_id": {"S": event.run_id},
            "event_type": {"S": event.type},
            "payload": to_map(event.payload),
            "longwatch": _MARKER,
            "event_id": {"S": event.event_id},
        }
        if event.number is not None:
            item["number"] = {"N": str(event.number)}
        if event.ttl is not None:
            item["ttl"] = {"N": str(event.ttl)}
        return with_texts(
            item,
            {
                "agent_name": event.agent_name,
                "call_id": event.call_id,
                "parent_call_id": event.parent_call_id,
                "producer": event.producer,
                "previous_digest": event.previous_digest,
                "trace_id": event.trace_id,
            },
        )

    def placed(self, item: AttributeMap, event: Event, place: int) -> AttributeMap:
        placed = {**item, "timestamp": {"N": str(place)}}
        if place != event.occurred_at:
            placed["occurred_at"] = {"N": str(event.occurred_at)}
        return placed

    def stored(self, item: AttributeMap, run_id: str) -> StoredEvent:
        key = self.key_of(item)
        place = self.place_of(key)
        return first_readable(
            lambda: self._ours(item, run_id, key, place),
            lambda: StoredEvent(
                damaged_event(run_id, str(key), _time_in(key), item, **_NAMES), key, place, place
            ),
            lambda: StoredEvent(self._foreign(item, run_id, key, _time_in(key)), key, place, place),
            lambda: StoredEvent(unreadable_item(run_id, str(key), _time_in(key), item), key, place, place),
        )

    def _ours(self, item: AttributeMap, run_id: str, key: SortKey, place: int) -> StoredEvent:
        int(item["longwatch"]["N"])  # a KeyError here: somebody else wrote it
        at = whole_number_in(item, "occurred_at")
        payload = from_attribute(item["payload"]) if "payload" in item else {}
        event = Event(
            run_id=run_id,
            event_id=item["event_id"]["S"],
            type=item["event_type"]["S"],
            occurred_at=place if at is None else at,
            agent_name=text_in(item, "agent_name"),
            payload=payload,  # type: ignore[arg-type]  # the event itself refuses what is no map
            call_id=text_in(item, "call_id"),
            parent_call_id=text_in(item, "parent_call_id"),
            producer=text_in(item, "producer"),
            number=whole_number_in(item, "number"),
            previous_digest=text_in(item, "previous_digest"),
            trace_id=text_in(item, "trace_id"),
            ttl=whole_number_in(item, "ttl"),
        )
        return StoredEvent(event, key, place, min(place, event.occurred_at))

    def _foreign(self, item: AttributeMap, run_id: str, key: SortKey, at: int) -> Event:
        values = {
            name: from_attribute(attribute)
            for name, attribute in item.items()
            if name not in ("workflow_id", "timestamp")
        }
        return foreign_event(
            run_id,
            str(key),
            at,
            values,
            types=("event_type", "type"),
            agents=("agent_name",),
            calls=("call_id", "event_id"),
            payloads=("payload",),
            errors=("error_message", "error"),
        )

    def run_of(self, item: AttributeMap) -> str | None:
        run_id = text_in(item, "workflow_id")
        return None if run_id is None or run_id.startswith(RESERVED_PREFIX) else run_id

    def partition(self, run_id: str) -> AttributeValue:
        return {"S": run_id}

    def low(self, ms: int) -> AttributeValue:
        return {"N": str(ms)} if ms > 0 else {"N": "-9.9E125"}

    def high(self, ms: int | None = None) -> AttributeValue:
        return HIGHEST if ms is None else {"N": f"{ms}.999999"}

    def sort_value(self, key: SortKey) -> AttributeValue:
        return {"N": str(key)}

    def key_of(self, item: AttributeMap) -> SortKey:
        text = str(item["timestamp"]["N"])
        number = number_from(text)
        return number if isinstance(number, int) else text

    def place_of(self, key: SortKey) -> int:
        number = key if isinstance(key, int) else int(Decimal(key))
        return number if number >= 0 else NO_PLACE

    def day(self, day: str) -> AttributeValue:
        return {"S": f"{RESERVED_PREFIX}runs#{day}"}

    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        return {"N": str(low_ms)}, {"N": str(high_ms)}

    def entry_key(self, day: str, place: int, run_id: str) -> AttributeMap:
        return {"workflow_id": self.day(day), "timestamp": {"N": str(place)}}

    def claim_key(self, run_id: str) -> AttributeMap:
        return {"workflow_id": {"S": f"{RESERVED_PREFIX}run#{run_id}"}, "timestamp": {"N": "0"}}

    def heartbeat_key(self, process_id: str) -> AttributeMap:
        return {"workflow_id": {"S": f"{RESERVED_PREFIX}heartbeat#{process_id}"}, "timestamp": {"N": "0"}}


def _time_in(key: SortKey) -> int:
    """Epoch ms that the key of an item of another producer tells."""
    return min(epoch_ms(Decimal(key)), MAX_OCCURRED_AT)
