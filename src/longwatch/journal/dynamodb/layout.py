"""How events are arranged in a table: what the two layouts share, and what each has to define.

Only layouts know the names of attributes. Items of other producers are read as far as possible: an invalid
item never fails a page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from longwatch.errors import InvalidJournalUrl, LongwatchError
from longwatch.journal.dynamodb.other_producers import (
    OtherNames,
    damaged_event,
    read_other_event,
    unreadable_item,
)
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import Event
from longwatch.storage.dynamodb.values import (
    AttributeMap,
    AttributeValue,
    from_attribute,
    integer_in,
    text_in,
    to_map,
)

VERSION = 1  # in the attribute that marks an item of longwatch
MARKER = {"N": str(VERSION)}

SortKey = int | str
"""Identifies an item inside its partition, in a form that a cursor can hold."""

NO_TIME = -1
"""The position of an item whose sort key is not a time."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event and the position of its item."""

    event: Event
    key: SortKey
    key_ms: int  # epoch ms in the sort key, or NO_TIME
    written_ms: int  # epoch ms of the writer's clock, never later than `key_ms`; or NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNames:
    """A layout's attribute names for the fields of an event."""

    marker: str
    type: str
    payload: str
    event_id: str
    agent_name: str
    call_id: str
    parent_call_id: str
    producer: str
    number: str
    previous_digest: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNames:
    """A layout's attribute names in the items that list runs."""

    marker: str
    run_id: str
    started_at: str
    summary: str
    revision: str
    tombstone: str


class Layout(ABC):
    """One arrangement of events in a table."""

    name: str
    key_names: tuple[str, str]  # partition key and sort key
    default_ttl_seconds: int | None  # unless the recorder's settings name a time
    names: EventNames
    index_names: IndexNames
    other_names: OtherNames
    scanned_names: tuple[str, ...]  # attributes that a scan for runs reads: keys and types, no payloads

    def __init__(self) -> None:
        self.key_is_free = PutCondition(expression=f"attribute_not_exists({self.key_names[0]})")

    def encode_event(self, event: Event) -> AttributeMap:
        """The event as an item without its sort key. Raises `InvalidEvent` for values it cannot hold."""
        names = self.names
        item: AttributeMap = {
            self.key_names[0]: self.partition(event.run_id),
            names.type: {"S": event.type},
            names.payload: to_map(event.payload),
            names.marker: MARKER,
            names.event_id: {"S": event.event_id},
        }
        if event.number is not None:
            item[names.number] = {"N": str(event.number)}
        if event.ttl is not None:
            item["ttl"] = {"N": str(event.ttl)}
        for name, text in (
            (names.agent_name, event.agent_name),
            (names.call_id, event.call_id),
            (names.parent_call_id, event.parent_call_id),
            (names.producer, event.producer),
            (names.previous_digest, event.previous_digest),
            (names.trace_id, event.trace_id),
        ):
            if text is not None:
                item[name] = {"S": text}
        return item

    def read_event(self, item: AttributeMap, run_id: str) -> StoredEvent:
        """The event in an item of any producer. Never raises."""
        key = self.key_of(item)
        key_ms = self.key_ms(key)
        readers: tuple[Callable[[], StoredEvent], ...] = (
            lambda: self._read_own(item, run_id, key, key_ms),
            lambda: StoredEvent(
                damaged_event(run_id, str(key), self.stated_ms(key), item, self.names), key, key_ms, key_ms
            ),
            lambda: StoredEvent(self._read_other(item, run_id, key), key, key_ms, key_ms),
        )
        for read in readers:
            try:
                return read()
            except (LongwatchError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
                continue  # an item can be invalid in every way that a table permits
        return StoredEvent(unreadable_item(run_id, str(key), self.stated_ms(key), item), key, key_ms, key_ms)

    def _read_own(self, item: AttributeMap, run_id: str, key: SortKey, key_ms: int) -> StoredEvent:
        names = self.names
        int(item[names.marker]["N"])  # KeyError: an item of another producer
        payload = from_attribute(item[names.payload]) if names.payload in item else {}
        event = Event(
            run_id=run_id,
            event_id=item[names.event_id]["S"],
            type=item[names.type]["S"],
            occurred_at=self.occurred_at(item, key_ms),
            agent_name=text_in(item, names.agent_name),
            payload=payload,  # type: ignore[arg-type]  # an event rejects anything but a map
            call_id=text_in(item, names.call_id),
            parent_call_id=text_in(item, names.parent_call_id),
            producer=text_in(item, names.producer),
            number=integer_in(item, names.number),
            previous_digest=text_in(item, names.previous_digest),
            trace_id=text_in(item, names.trace_id),
            ttl=integer_in(item, "ttl"),
        )
        return StoredEvent(event, key, key_ms, min(key_ms, event.occurred_at))

    def _read_other(self, item: AttributeMap, run_id: str, key: SortKey) -> Event:
        values = {
            name: from_attribute(attribute) for name, attribute in item.items() if name not in self.key_names
        }
        at = self.other_time_ms(values, key)
        return read_other_event(run_id, str(key), at, values, self.other_names)

    def other_time_ms(self, values: dict[str, object], key: SortKey) -> int:
        """When an event of another producer happened; removes the value that states it."""
        return self.stated_ms(key)

    def item_key(self, partition: str, sort: AttributeValue) -> AttributeMap:
        return {self.key_names[0]: {"S": partition}, self.key_names[1]: sort}

    @abstractmethod
    def with_key(self, item: AttributeMap, event: Event, key_ms: int) -> AttributeMap:
        """The item with the sort key of this millisecond."""

    @abstractmethod
    def occurred_at(self, item: AttributeMap, key_ms: int) -> int:
        """When the event in an item of longwatch happened."""

    @abstractmethod
    def run_of(self, item: AttributeMap) -> str | None:
        """The run that an item of the table belongs to; None if it is not an event."""

    @abstractmethod
    def partition(self, run_id: str) -> AttributeValue: ...

    @abstractmethod
    def low(self, ms: int) -> AttributeValue:
        """A sort key at or just before all events from this millisecond on."""

    @abstractmethod
    def high(self, ms: int | None = None) -> AttributeValue:
        """A sort key just after all events up to this millisecond; without one, after all events."""

    @abstractmethod
    def sort_value(self, key: SortKey) -> AttributeValue:
        """The sort key of an item that was read before."""

    @abstractmethod
    def key_of(self, item: AttributeMap) -> SortKey: ...

    @abstractmethod
    def key_ms(self, key: SortKey) -> int:
        """The position of an item with this key in epoch ms, or NO_TIME."""

    @abstractmethod
    def stated_ms(self, key: SortKey) -> int:
        """The time that the key of another producer's item states, in epoch ms."""

    @abstractmethod
    def day(self, day: str) -> AttributeValue:
        """The partition that lists the runs of one day, such as 2026-11-15."""

    @abstractmethod
    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        """Sort keys around the entries of runs that started from one millisecond to the other."""

    @abstractmethod
    def entry_key(self, day: str, key_ms: int, run_id: str) -> AttributeMap:
        """The whole key of this run's entry."""

    @abstractmethod
    def claim_key(self, run_id: str) -> AttributeMap:
        """The whole key of the item that states under which start a run is listed."""

    @abstractmethod
    def heartbeat_key(self, process_id: str) -> AttributeMap:
        """The whole key of the item with the last heartbeat of a process."""


def layout_named(name: str) -> Layout:
    from longwatch.journal.dynamodb.session_layout import SessionLayout
    from longwatch.journal.dynamodb.workflow_layout import WorkflowLayout

    match name:
        case "workflow":
            return WorkflowLayout()
        case "session":
            return SessionLayout()
        case _:
            raise InvalidJournalUrl(f"Unknown layout {name!r}. Use layout=workflow or layout=session.")
