"""Deletes runs from a table. The tombstone of a run is its last item: every read to the end finds it.

It is put on the condition that there is none, which decides who deletes the run and hides it at once. Copies
replace the run's claim and its entry in the list, both written conditionally by recorders: the response to
such a put is the tombstone. The events are removed in batches, each counted before it is removed, so that an
interrupted deletion can be resumed. An entry is replaced and not removed: its key has to stay occupied.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from longwatch.clock import Clock, iso_from_ms
from longwatch.journal.deletions import Tombstone
from longwatch.journal.dynamodb.key_placement import keys_from
from longwatch.journal.dynamodb.layout import MARKER, Layout
from longwatch.journal.dynamodb.table import KeyRange, Table
from longwatch.model.event import RESERVED_PREFIX, RUN_DELETED, Event
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue, integer_in, text_in

BATCH = 200  # events counted and removed at once
CACHED_TOMBSTONES = 1_024

_DAY = len("2026-11-15")


@dataclass(frozen=True, slots=True)
class StoredTombstone:
    """A tombstone, and how far the removal of the events is."""

    stone: Tombstone
    is_purged: bool = False
    counted_to: AttributeValue | None = None  # sort key of the last event that was counted

    def to_attribute(self) -> AttributeValue:
        """The value of the attribute that marks an item as deleted."""
        values: dict[str, AttributeValue] = {
            "deleted_at": {"N": str(self.stone.deleted_at)},
            "by": {"S": self.stone.by},
            "events": {"N": str(self.stone.events)},
            "digest": {"S": self.stone.digest},
            "is_purged": {"BOOL": self.is_purged},
        }
        return {"M": values if self.counted_to is None else {**values, "counted_to": self.counted_to}}


def stored_tombstone(item: AttributeMap, layout: Layout) -> StoredTombstone | None:
    """The tombstone in an item; None for any other item."""
    attribute = item.get(layout.index_names.tombstone)
    values = attribute.get("M") if attribute is not None else None
    if not isinstance(values, dict):
        return None
    stone = Tombstone(
        run_id=text_in(item, layout.index_names.run_id) or "",
        deleted_at=integer_in(values, "deleted_at") or 0,
        by=text_in(values, "by") or "unknown",
        events=integer_in(values, "events") or 0,
        digest=text_in(values, "digest") or "",
    )
    return StoredTombstone(
        stone, is_purged=values.get("is_purged") == {"BOOL": True}, counted_to=values.get("counted_to")
    )


def raise_if_deleted(item: AttributeMap, layout: Layout) -> None:
    """Raise `RunDeleted` if the item is a tombstone or a copy of one."""
    found = stored_tombstone(item, layout)
    if found is not None:
        raise found.stone.error


class TableDeletions:
    """The deleted runs of one table. Thread-safe."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._known: OrderedDict[str, Tombstone] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, events: Iterable[Event]) -> dict[str, Tombstone]:
        """The tombstones of these events' runs that this process has seen."""
        if not self._known:
            return {}
        with self._lock:
            return {each.run_id: self._known[each.run_id] for each in events if each.run_id in self._known}

    def note(self, stones: Iterable[Tombstone]) -> None:
        """Remember these tombstones, so that later events of their runs are rejected without a put."""
        with self._lock:
            for stone in stones:
                self._known[stone.run_id] = stone
            while len(self._known) > CACHED_TOMBSTONES:
                self._known.popitem(last=False)

    def find(self, run_id: str) -> StoredTombstone | None:
        """The tombstone of a run."""
        if not run_id or run_id.startswith(RESERVED_PREFIX):
            return None
        last = self._layout.high()
        key_range = KeyRange(partition=self._layout.partition(run_id), low=last, high=last)
        items = self._table.query(key_range).items
        return stored_tombstone(items[0], self._layout) if items else None

    def add(self, stone: Tombstone) -> StoredTombstone:
        """Hide a run for good. Raises `RunDeleted` if another process has done so."""
        found = StoredTombstone(stone)
        existing = self._table.put(self._item(found), self._layout.key_is_free)
        if existing is not None:
            raise_if_deleted(existing, self._layout)
        return found

    def purge(self, found: StoredTombstone) -> Tombstone:
        """Remove the events that are left of a deleted run, also those that came after its deletion."""
        stone = found.stone
        self.note([stone])
        self._replace_listing(stone)
        if found.is_purged or found.counted_to is not None:
            for items in self._events(stone.run_id, high=None if found.is_purged else found.counted_to):
                self._remove(items)
        if found.is_purged:
            return stone
        now = self._clock.now_ms() // 1000
        for items in self._events(stone.run_id, low=found.counted_to):
            removed = [self._layout.read_event(item, stone.run_id).event for item in items]
            current = [event for event in removed if event.ttl is None or event.ttl > now]
            found = replace(
                found,
                stone=found.stone.with_removed(current),
                counted_to=items[-1][self._layout.key_names[1]],
            )
            self._table.overwrite(self._item(found))
            self._remove(items)
        found = replace(found, is_purged=True, counted_to=None)
        self._table.overwrite(self._item(found))
        return found.stone

    def _replace_listing(self, stone: Tombstone) -> None:
        """Replace the claim and the entry of the run by copies of its tombstone."""
        names, run_id = self._layout.index_names, stone.run_id
        copy: AttributeMap = {
            names.marker: MARKER,
            names.run_id: {"S": run_id},
            names.tombstone: StoredTombstone(stone).to_attribute(),
        }
        claim = {**self._layout.claim_key(run_id), **copy}
        existing = self._table.put(claim, self._layout.key_is_free)
        start = integer_in(existing, names.started_at) if existing else None
        if start is None:  # it was never listed
            return
        self._table.overwrite({**claim, names.started_at: {"N": str(start)}})
        for key_ms in keys_from(start, run_id):
            entry = {**self._layout.entry_key(iso_from_ms(start)[:_DAY], key_ms, run_id), **copy}
            taken = self._table.put(entry, self._layout.key_is_free)
            if taken is not None and text_in(taken, names.run_id) == run_id:
                self._table.overwrite(entry)
                return
            if taken is None:
                return

    def _events(
        self, run_id: str, *, low: AttributeValue | None = None, high: AttributeValue | None = None
    ) -> Iterator[list[AttributeMap]]:
        """The items of a run without its tombstone, a batch at a time."""
        layout = self._layout
        key_range: KeyRange | None = KeyRange(
            partition=layout.partition(run_id),
            low=low or layout.low(0),
            high=high or layout.high(),
            limit=BATCH,
        )
        while key_range is not None:
            page = self._table.query(key_range)
            items = [item for item in page.items if stored_tombstone(item, layout) is None]
            if items:
                yield items
            key_range = None if page.next is None else replace(key_range, start=page.next)

    def _remove(self, items: Iterable[AttributeMap]) -> None:
        self._table.delete([{name: item[name] for name in self._layout.key_names} for item in items])

    def _item(self, found: StoredTombstone) -> AttributeMap:
        partition, sort = self._layout.key_names
        names = self._layout.index_names
        return {
            partition: self._layout.partition(found.stone.run_id),
            sort: self._layout.high(),
            names.marker: MARKER,
            names.run_id: {"S": found.stone.run_id},
            self._layout.names.type: {"S": RUN_DELETED},
            names.tombstone: found.to_attribute(),
        }
