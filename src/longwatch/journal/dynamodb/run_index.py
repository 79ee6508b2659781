"""The index of runs: items in day partitions of the same table, written with conditional puts.

Every process that records a run has seen a part of it. Parts merge in any order, and merging one twice
changes nothing, so a write whose result is unknown is repeated.

A run is listed once, under the day and the millisecond at which it started as far as the first writer knows.
A small item at a fixed key (the claim) settles that for every process. A put under a taken key returns the
item there, so a process that did not start the run merges its part into the entry without the permission to
read. The revision in the condition keeps two processes from overwriting each other.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import JournalBusy, RunDeleted
from longwatch.journal import lifecycles
from longwatch.journal.deletions import Tombstone
from longwatch.journal.dynamodb.deletions import raise_if_deleted
from longwatch.journal.dynamodb.key_placement import MAX_PROBES, keys_from
from longwatch.journal.dynamodb.layout import MARKER, Layout
from longwatch.journal.dynamodb.table import PutCondition, Table
from longwatch.journal.run_totals import totals_from_json, totals_to_json, waits_from_json, waits_to_json
from longwatch.model.attempts import FACT_TYPES, Lifecycle
from longwatch.model.endings import Ending, Status
from longwatch.model.event import Event, Order, tool_status
from longwatch.model.failures import failed_calls_from_json, failed_calls_to_json
from longwatch.model.labels import NO_LABELS, TAGGED, labels_from_json, labels_to_json
from longwatch.model.run import STARTS, Origin, RunSummary, summarise
from longwatch.model.totals import NO_TOTALS, TOTAL_TYPES, RunTotals, totals_of
from longwatch.model.waiting import WAIT_TYPES
from longwatch.storage.dynamodb.values import (
    AttributeMap,
    AttributeValue,
    from_attribute,
    integer_in,
    text_in,
    to_map,
)

MAX_AGENTS = 100
MAX_PRODUCERS = 100  # events of further ones are not counted in the list; `find_run` counts them all
MAX_TEXT = 500  # characters of a name or an error message
NEVER = 0  # as ttl: an event of the run never expires


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of a run, as one process has seen it."""

    summary: RunSummary
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # producer -> events, failed calls
    totals: Mapping[str, RunTotals] = field(default_factory=dict)  # by producer
    ttl: int | None = None  # epoch seconds, NEVER, or None: unknown

    @property
    def run(self) -> RunSummary:
        """The summary with the counts of all merged parts."""
        return replace(
            self.summary,
            events=sum(events for events, _ in self.counts.values()),
            failed_calls=sum(failed for _, failed in self.counts.values()),
            totals=reduce(RunTotals.plus, self.totals.values(), NO_TOTALS),
        )

    def merged(self, other: Listing) -> Listing:
        """Both parts together. Commutative, associative and idempotent."""
        summary = self.summary.merged(other.summary)
        counts = dict(self.counts)
        for producer, (events, failed) in other.counts.items():
            if producer in counts or len(counts) < MAX_PRODUCERS:
                before = counts.get(producer, (0, 0))
                counts[producer] = max(events, before[0]), max(failed, before[1])
        return Listing(
            replace(
                summary,
                events=0,
                failed_calls=0,
                totals=NO_TOTALS,
                agents=frozenset(sorted(summary.agents)[:MAX_AGENTS]),
            ),
            counts,
            _merge_totals(self.totals, other.totals, RunTotals.highest),
            _later(self.ttl, other.ttl),
        )

    def after(self, more: Listing) -> Listing:
        """This part and the next one of the same process: like `merged`, but calls and totals add up."""
        merged = self.merged(more)
        counts = dict(merged.counts)
        for producer in self.counts.keys() & more.counts.keys():
            mine, theirs = self.counts[producer], more.counts[producer]
            events = mine[0] + theirs[0] if producer.startswith("~") else max(mine[0], theirs[0])
            counts[producer] = events, mine[1] + theirs[1]
        return replace(merged, counts=counts, totals=_merge_totals(self.totals, more.totals, RunTotals.plus))


def listings(events: Iterable[Event], *, process: str) -> dict[str, Listing]:
    """One listing for each run among these events, which this process has just stored.

    The number of an event counts the events of its producer. Events without a number are counted under the
    name of the process.
    """
    group = list(events)
    found: dict[str, Listing] = {}
    for run_id, summary in summarise(group).items():
        counts: dict[str, tuple[int, int]] = {}
        counted: dict[str, list[Event]] = {}
        ttl: int | None = None
        for event in group:
            if event.run_id != run_id:
                continue
            name = event.producer if event.producer is not None else f"~{process}"
            count, failed = counts.get(name, (0, 0))
            count = max(count, event.number) if event.number is not None else count + 1
            failed += event.type == "tool_call" and tool_status(event.payload) == "failed"
            counts[name] = count, failed
            if event.type in TOTAL_TYPES:
                counted.setdefault(name, []).append(event)
            if event.type != "late_batch":  # it never expires, and should not keep the run listed forever
                ttl = _later(ttl, NEVER if event.ttl is None else event.ttl)
        totals = {name: totals_of(events) for name, events in counted.items()}
        found[run_id] = Listing(_shorten(summary), counts, totals, ttl)
    return found


def _merge_totals(
    one: Mapping[str, RunTotals],
    other: Mapping[str, RunTotals],
    merge: Callable[[RunTotals, RunTotals], RunTotals],
) -> Mapping[str, RunTotals]:
    totals = dict(one)
    for producer, theirs in other.items():
        if producer in totals:
            totals[producer] = merge(totals[producer], theirs)
        elif len(totals) < MAX_PRODUCERS:
            totals[producer] = theirs
    return totals


def _shorten(run: RunSummary) -> RunSummary:
    """The summary without what an entry does not need or cannot hold."""
    endings = tuple(
        each if each.error is None else replace(each, error=each.error[:MAX_TEXT])
        for each in run.lifecycle.endings
    )
    return replace(
        run,
        origin=replace(run.origin, name=run.origin.name[:MAX_TEXT] if run.origin.name else None),
        agents=frozenset(sorted(name[:MAX_TEXT] for name in run.agents)[:MAX_AGENTS]),
        tools=frozenset(name[:MAX_TEXT] for name in run.tools),
        lifecycle=replace(run.lifecycle, endings=endings),
        events=0,
        failed_calls=0,
        totals=NO_TOTALS,
    )


def to_attributes(listing: Listing) -> AttributeValue:
    """The listing as a map for an item."""
    run = listing.summary
    origin = run.origin
    return to_map(
        {
            "kind": origin.kind,
            "name": origin.name,
            "parent_run_id": origin.parent_run_id,
            "inferred": origin.inferred,
            "origin": origin.order,
            "status": run.status.value,
            "started_at": run.started_at,
            "last": run.last_order,
            "last_event_type": run.last_event_type,
            "agents": sorted(run.agents),
            "lifecycle": json.dumps(lifecycles.to_json(run.lifecycle), separators=(",", ":")),
            "is_active": run.is_active,
            "activity": json.dumps(run.activity, separators=(",", ":")),
            "counts": {name: list(counts) for name, counts in listing.counts.items()},
            "ttl": listing.ttl,
            **_optional_attributes(listing),
        }
    )


def _optional_attributes(listing: Listing) -> dict[str, object]:
    """Totals, waits, labels, tools and failed calls as text, in the entries of runs that have some."""
    totals = {name: totals_to_json(each) for name, each in listing.totals.items()}
    run = listing.summary
    found = {
        "totals": totals,
        "waits": waits_to_json(run.waits),
        "labels": labels_to_json(run.labels) if run.labels else [],
        "tools": sorted(run.tools),
        "failed_calls": failed_calls_to_json(run.last_failed_calls),
    }
    return {name: json.dumps(value, separators=(",", ":")) for name, value in found.items() if value}


def from_attributes(run_id: str, attribute: AttributeValue) -> Listing:
    """The listing that `to_attributes` wrote. Raises a built-in error for any other value."""
    values: dict[str, object] = from_attribute(attribute)  # type: ignore[assignment]
    agents: list[str] = values["agents"]  # type: ignore[assignment]
    counts: dict[str, list[int]] = values["counts"]  # type: ignore[assignment]
    ttl = values["ttl"]
    origin = Origin(
        inferred=bool(values["inferred"]),
        order=_order(values["origin"]),
        kind=str(values["kind"]),
        name=_text(values["name"]),
        parent_run_id=_text(values["parent_run_id"]),
    )
    summary = RunSummary(
        run_id=run_id,
        origin=origin,
        started_at=_whole(values["started_at"]),
        last_order=_order(values["last"]),
        last_event_type=str(values["last_event_type"]),
        events=0,
        agents=frozenset(agents),
        lifecycle=_lifecycle(values, origin),
        is_active=bool(values.get("is_active", True)),
        activity=tuple((at, producer) for at, producer in json.loads(str(values.get("activity", "[]")))),
        waits=waits_from_json(json.loads(str(values.get("waits", "[]")))),
        labels=labels_from_json(json.loads(str(values["labels"]))) if "labels" in values else NO_LABELS,
        tools=frozenset(json.loads(str(values.get("tools", "[]")))),
        last_failed_calls=failed_calls_from_json(json.loads(str(values.get("failed_calls", "[]")))),
    )
    totals: dict[str, list[object]] = json.loads(str(values.get("totals", "{}")))
    return Listing(
        summary,
        {name: (_whole(events), _whole(failed)) for name, (events, failed) in counts.items()},
        {name: totals_from_json(each) for name, each in totals.items()},
        None if ttl is None else _whole(ttl),
    )


def _lifecycle(values: Mapping[str, object], origin: Origin) -> Lifecycle:
    """The lifecycle of an entry; entries of earlier versions have a single ending instead."""
    text = values.get("lifecycle")
    if isinstance(text, str):
        return lifecycles.from_json(json.loads(text))
    ending: dict[str, object] | None = values["ending"]  # type: ignore[assignment]
    if ending is None:
        return lifecycles.lifecycle_from_ending(origin, None)
    stated = Ending(
        status=Status(str(ending["status"])),
        order=_order(ending["order"]),
        own_word=bool(ending["own_word"]),
        error=_text(ending["error"]),
        correction=bool(ending.get("correction")),
    )
    return lifecycles.lifecycle_from_ending(origin, stated)


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return NEVER if NEVER in (one, other) else max(one, other)


def _order(value: object) -> Order:
    if not isinstance(value, list | tuple):
        raise TypeError(f"invalid order {value!r}")
    at, producer, number, event_id = value
    return _whole(at), str(producer), _whole(number), str(event_id)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"invalid integer {value!r}")
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)


CACHED_RUNS = 1_024
CHECK_SECONDS = 60.0  # after this time a recorder notices that its run was deleted
RENEW_SECONDS = 6 * 3600  # an entry that expires this much before its newest event is rewritten
CLAIM_EXTRA_SECONDS = 30 * 24 * 3600  # so that a run of many days keeps its entry

_DAY = len("2026-11-15")


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """What this process has seen of a run, and the entry as it last wrote or received it."""

    listing: Listing
    listed: Listing | None = None
    item: AttributeMap | None = None
    checked_at: float | None = None  # on the monotonic clock: the run was not deleted then


class RunIndex:
    """Writes the entries of runs. Thread-safe."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._name = secrets.token_hex(4)
        self._runs: OrderedDict[str, IndexedRun] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, events: Sequence[Event]) -> list[Tombstone]:
        """Update the entries after these events were stored, where they change.

        Returns the tombstones of deleted runs among them. Where no entry changes, the claim is put again now
        and then: its condition fails, and the response is the claim or the tombstone that replaced it.

        A run whose entry cannot be written stays as it was in the cache, so that storing the same events
        again writes the entry.
        """
        if self._process != os.getpid():
            self._reset()
        deleted: list[Tombstone] = []
        for run_id, part in listings(events, process=self._name).items():
            with self._lock:
                before = self._runs.get(run_id)
            if before is None:
                run = IndexedRun(part)
            else:
                run = replace(before, listing=before.listing.after(part))
            now = self._clock.monotonic()
            try:
                if changes_entry((event for event in events if event.run_id == run_id), run):
                    run = replace(self._write(run_id, run), checked_at=now)
                elif run.checked_at is None or now - run.checked_at >= CHECK_SECONDS:
                    self._claimed_start(run_id, run.listing)
                    run = replace(run, checked_at=now)
            except RunDeleted as error:
                deleted.append(Tombstone(run_id=run_id, deleted_at=error.deleted_at, by=error.deleted_by))
                continue
            with self._lock:
                self._runs[run_id] = run
                self._runs.move_to_end(run_id)
                while len(self._runs) > CACHED_RUNS:
                    self._runs.popitem(last=False)
        return deleted

    def _write(self, run_id: str, run: IndexedRun) -> IndexedRun:
        """Merge this process's part into the entry, whichever process wrote it last."""
        old, listing = run.item, run.listing
        keys = self._keys(run_id, listing)
        key = {name: old[name] for name in self._layout.key_names} if old else next(keys)
        for _ in range(MAX_PROBES - 1):
            stored = read_entry(old, self._layout) if old else None
            holder = stored.summary.run_id if stored else bare_entry(old or {}, self._layout)
            if old and holder != run_id:
                key, old = next(keys), None  # taken by another run that started in the same millisecond
                continue
            raise_if_deleted(old or {}, self._layout)
            if stored is not None:
                listing = stored.merged(run.listing)
                if listing == stored:
                    return IndexedRun(run.listing, stored, old)
            item, condition = self._entry(key, run_id, listing, old)
            old = self._table.put(item, condition)
            if old is None:
                return IndexedRun(run.listing, listing, item)
        raise JournalBusy(
            f"Too many processes update the entry of run {run_id!r} in the list of runs at once. Retry."
        )

    def _claimed_start(self, run_id: str, listing: Listing) -> int:
        """When the run started according to its claim, which this process writes if there is none."""
        names = self._layout.index_names
        claim: AttributeMap = {
            **self._layout.claim_key(run_id),
            names.marker: MARKER,
            names.run_id: {"S": run_id},
            names.started_at: {"N": str(listing.summary.started_at)},
        }
        if listing.ttl is not None and listing.ttl != NEVER:
            claim["ttl"] = {"N": str(listing.ttl + CLAIM_EXTRA_SECONDS)}
        existing = self._table.put(claim, self._layout.key_is_free)
        raise_if_deleted(existing or {}, self._layout)
        start = None if existing is None else integer_in(existing, names.started_at)
        return listing.summary.started_at if start is None else start

    def _keys(self, run_id: str, listing: Listing) -> Iterator[AttributeMap]:
        """The possible keys of the entry, by the start in its claim."""
        start = self._claimed_start(run_id, listing)
        day = iso_from_ms(start)[:_DAY]
        for key_ms in keys_from(start, run_id):
            yield self._layout.entry_key(day, key_ms, run_id)

    def _entry(
        self, key: AttributeMap, run_id: str, listing: Listing, old: AttributeMap | None
    ) -> tuple[AttributeMap, PutCondition]:
        names = self._layout.index_names
        revision = integer_in(old, names.revision) or 0 if old else 0
        item: AttributeMap = {
            **key,
            names.marker: MARKER,
            names.run_id: {"S": run_id},
            names.summary: to_attributes(listing),
            names.revision: {"N": str(revision + 1)},
        }
        if listing.ttl is not None and listing.ttl != NEVER:
            item["ttl"] = {"N": str(listing.ttl)}
        if not old:
            return item, self._layout.key_is_free
        unchanged = PutCondition(
            expression="#revision = :revision",
            names={"#revision": names.revision},
            values={":revision": {"N": str(revision)}},
        )
        return item, unchanged


def changes_entry(events: Iterator[Event], run: IndexedRun) -> bool:
    """Whether these events of a run change its entry."""
    for event in events:
        if event.type in STARTS or event.type in FACT_TYPES or event.number == 1:
            return True
        if event.type in WAIT_TYPES or event.type == TAGGED:
            return True
        if event.number is None and run.listed is None and event.type != "late_batch":
            return True
    if run.listed is None:
        return False
    ours, listed = run.listing.ttl, run.listed.ttl
    if ours is None or listed is None or listed == NEVER:
        return False
    return ours == NEVER or ours - listed > RENEW_SECONDS


def bare_entry(item: AttributeMap, layout: Layout) -> str | None:
    """The run of an entry that a state machine wrote, which only names its session."""
    return None if layout.index_names.summary in item else text_in(item, layout.index_names.run_id)


def read_entry(item: AttributeMap, layout: Layout) -> Listing | None:
    """The listing of an entry; None if longwatch did not write it."""
    names = layout.index_names
    run_id = text_in(item, names.run_id)
    if run_id is None:
        return None
    try:
        return from_attributes(run_id, item[names.summary])
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return None
