"""How events lie in a table: what every layout answers, and which layouts there are.

The layouts alone know the names of attributes. Items that other producers wrote are read as well as they can
be: one odd item never spoils a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from longwatch.errors import InvalidJournalUrl, LongwatchError
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import Event
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue

VERSION = 1  # of our items, in the attribute that marks them as ours

SortKey = int | str
"""What names an item inside its partition, as a cursor can hold it."""

NO_PLACE = -1
"""The place of an item whose key is no time at all."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event and where it was found."""

    event: Event
    key: SortKey
    place: int  # epoch ms where the item stands among the others, or NO_PLACE
    at: int  # epoch ms that its writer's clock showed, which is never later than the place; or NO_PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryNames:
    """What a layout calls the attributes of the entries that list runs."""

    marker: str
    run_id: str
    started_at: str
    summary: str
    revision: str


class Layout(Protocol):
    """One way to lay out events in a table."""

    @property
    def name(self) -> str: ...

    @property
    def key_names(self) -> tuple[str, str]:
        """The attributes that are the partition key and the sort key."""

    @property
    def default_ttl_seconds(self) -> int | None:
        """How long events live unless the recorder's settings say otherwise."""

    @property
    def free(self) -> PutCondition:
        """Holds where a place is free."""

    def item(self, event: Event) -> AttributeMap:
        """The event as an item that has no place yet. Raises `InvalidEvent` for values it cannot hold."""

    def placed(self, item: AttributeMap, event: Event, place: int) -> AttributeMap:
        """The item at a place."""

    def stored(self, item: AttributeMap, run_id: str) -> StoredEvent:
        """The event in an item, whoever wrote it. Never raises."""

    def run_of(self, item: AttributeMap) -> str | None:
        """The run that an item of the table belongs to; None if it is no event."""

    def partition(self, run_id: str) -> AttributeValue: ...

    def low(self, ms: int) -> AttributeValue:
        """A sort key that lies at or just before everything of this millisecond and later."""

    def high(self, ms: int | None = None) -> AttributeValue:
        """A sort key just after everything up to this millisecond; without one, after everything."""

    def sort_value(self, key: SortKey) -> AttributeValue:
        """The sort key of an item that was found before."""

    def key_of(self, item: AttributeMap) -> SortKey:
        """The name of an item inside its partition."""

    def place_of(self, key: SortKey) -> int:
        """The millisecond at which an item of this name stands, or NO_PLACE."""

    @property
    def types(self) -> tuple[str, ...]:
        """Attributes that a scan for runs needs: keys and types, no payloads."""

    @property
    def directory(self) -> DirectoryNames: ...

    def day(self, day: str) -> AttributeValue:
        """The partition that lists the runs of one day, which is written 2026-11-15."""

    def day_range(self, low_ms: int, high_ms: int) -> tuple[AttributeValue, AttributeValue]:
        """Sort keys around the entries of runs that began from one millisecond to the other."""

    def entry_key(self, day: str, place: int, run_id: str) -> AttributeMap:
        """The whole key of the entry for this run."""

    def claim_key(self, run_id: str) -> AttributeMap:
        """The whole key of the item that says where a run is listed."""

    def heartbeat_key(self, process_id: str) -> AttributeMap:
        """The whole key of the item that holds the last heartbeat of a process."""


def layout_named(name: str) -> Layout:
    """The layout of this name."""
    from longwatch.journal.dynamodb.session_layout import SessionLayout
    from longwatch.journal.dynamodb.workflow_layout import WorkflowLayout

    match name:
        case "workflow":
            return WorkflowLayout()
        case "session":
            return SessionLayout()
        case _:
            raise InvalidJournalUrl(f"Unknown layout {name!r}. Use layout=workflow or layout=session.")


def text_in(item: AttributeMap, name: str) -> str | None:
    """The text of an attribute, if it has any."""
    attribute = item.get(name)
    if attribute is None:
        return None
    text = attribute.get("S")
    return text if isinstance(text, str) else None


def whole_number_in(item: AttributeMap, name: str) -> int | None:
    """The whole number of an attribute of ours, if it is there."""
    attribute = item.get(name)
    return None if attribute is None else int(attribute["N"])


def with_texts(item: AttributeMap, texts: Mapping[str, str | None]) -> AttributeMap:
    """The item and those of these texts that there are."""
    for name, text in texts.items():
        if text is not None:
            item[name] = {"S": text}
    return item


def first_readable(*readings: Callable[[], StoredEvent]) -> StoredEvent:
    """The first of these readings that works. The last one must."""
    *hopeful, certain = readings
    for reading in hopeful:
        try:
            return reading()
        except (LongwatchError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            continue  # an item can be wrong in every way that a table lets it
    return certain()


def shown(item: AttributeMap) -> dict[str, Any]:
    """An item that nothing is known about, as something a payload can hold."""
    return {str(name): _shown(attribute) for name, attribute in item.items()}


def _shown(attribute: object) -> object:
    from longwatch.storage.dynamodb.values import from_attribute

    try:
        return from_attribute(attribute)  # type: ignore[arg-type]
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return str(attribute)
