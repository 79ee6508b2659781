"""Layout `workflow`, the events table: partition key `workflow_id`, sort key `timestamp` in epoch ms."""

from __future__ import annotations

from decimal import Decimal

from longwatch.journal.dynamodb.layout import NO_TIME, EventNames, IndexNames, Layout, SortKey
from longwatch.journal.dynamodb.other_producers import OtherNames
from longwatch.model.event import MAX_OCCURRED_AT, RESERVED_PREFIX, Event, epoch_ms
from longwatch.storage.dynamodb.values import (
    AttributeMap,
    AttributeValue,
    integer_in,
    number_from,
    text_in,
)


class WorkflowLayout(Layout):
    """Events as the requirements of the events table define them, with additional attributes of longwatch."""

    name = "workflow"
    key_names = ("workflow_id", "timestamp")
    default_ttl_seconds = 24 * 3600
    names = EventNames(
        marker="longwatch",
        type="event_type",
        payload="payload",
        event_id="event_id",
        agent_name="agent_name",
        call_id="call_id",
        parent_call_id="parent_call_id",
        producer="producer",
        number="number",
        previous_digest="previous_digest",
        trace_id="trace_id",
    )
    index_names = IndexNames(
        marker="longwatch",
        run_id="run_id",
        started_at="started_at",
        summary="summary",
        revision="revision",
        tombstone="tombstone",
    )
    other_names = OtherNames(
        types=("event_type", "type"),
        agents=("agent_name",),
        calls=("call_id", "event_id"),
        payloads=("payload",),
        errors=("error_message", "error"),
    )
    scanned_names = (
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

    def with_key(self, item: AttributeMap, event: Event, key_ms: int) -> AttributeMap:
        keyed = {**item, "timestamp": {"N": str(key_ms)}}
        if key_ms != event.occurred_at:
            keyed["occurred_at"] = {"N": str(event.occurred_at)}
        return keyed

    def occurred_at(self, item: AttributeMap, key_ms: int) -> int:
        at = integer_in(item, "occurred_at")
        return key_ms if at is None else at

    def run_of(self, item: AttributeMap) -> str | None:
        run_id = text_in(item, "workflow_id")
        return None if run_id is None or run_id.startswith(RESERVED_PREFIX) else run_id

    def partition(self, run_id: str) -> AttributeValue:
        return {"S": run_id}

    def low(self, ms: int) -> AttributeValue:
        return {"N": str(ms)} if ms > 0 else {"N": "-9.9E125"}

    def high(self, ms: int | None = None) -> AttributeValue:
        return {"N": "9.9E125" if ms is None else f"{ms}.999999"}  # the first is above every possible key

    def sort_value(self, key: SortKey) -> AttributeValue:
        return {"N": str(key)}

    def key_of(self, item: AttributeMap) -> SortKey:
        text = str(item["timestamp"]["N"])
        number = number_from(text)
        return number if isinstance(number, int) else text

    def key_ms(self, key: SortKey) -> int:
        number = key if isinstance(key, int) else int(Decimal(key))
        return number if number >= 0 else NO_TIME

    def stated_ms(self, key: SortKey) -> int:
        return min(epoch_ms(Decimal(key)), MAX_OCCURRED_AT)

    def day(self, day: str) -> AttributeValue:
        return {"S": f"{RESERVED_PREFIX}runs#{day}"}

    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        return {"N": str(low_ms)}, {"N": str(high_ms)}

    def entry_key(self, day: str, key_ms: int, run_id: str) -> AttributeMap:
        return self.item_key(f"{RESERVED_PREFIX}runs#{day}", {"N": str(key_ms)})

    def claim_key(self, run_id: str) -> AttributeMap:
        return self.item_key(f"{RESERVED_PREFIX}run#{run_id}", {"N": "0"})

    def heartbeat_key(self, process_id: str) -> AttributeMap:
        return self.item_key(f"{RESERVED_PREFIX}heartbeat#{process_id}", {"N": "0"})
