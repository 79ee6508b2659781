"""The list of runs: entries in day partitions of the same table, written with nothing but conditional puts.

A run is listed once, under the day and the millisecond at which it began, as far as whoever writes first
knows; that is settled for every process by a small item at a fixed key (the claim). On the way to a taken key
the store tells what is there, so a process that did not start the run merges its part into the entry without
any right to read. The revision in the condition keeps two processes from writing over each other.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import JournalBusy
from longwatch.journal.dynamodb.client import Condition, Table
from longwatch.journal.dynamodb.layouts import VERSION, Layout, text_in, whole_number_in
from longwatch.journal.dynamodb.listing import NEVER, Listing, from_attributes, listings, to_attributes
from longwatch.journal.dynamodb.places import MAX_PROBES, places
from longwatch.model.attempts import FACT_TYPES
from longwatch.model.event import Event
from longwatch.model.run import STARTS
from longwatch.storage.dynamodb.values import AttributeMap

REMEMBERED_RUNS = 1_024
RENEW_SECONDS = 6 * 3600  # an entry that lives this much shorter than its newest event is written again
CLAIM_OUTLIVES_SECONDS = 30 * 24 * 3600  # so that a run that goes on for days stays where it is listed

_DAY = len("2026-11-15")


@dataclass(frozen=True, slots=True)
class Known:
    """What this process knows of a run, and the entry as it last wrote or saw it."""

    listing: Listing
    listed: Listing | None = None
    item: AttributeMap | None = None


class Directory:
    """Keeps the entries of runs. Threads may share it."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._name = secrets.token_hex(4)
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, events: Sequence[Event]) -> None:
        """Take note of events that were just stored, and write the entries that this calls for.

        Nothing is noted of a run whose entry could not be written, so that storing the same events again
        writes it.
        """
        if self._process != os.getpid():
            self._start()
        for run_id, part in listings(events, process=self._name).items():
            with self._lock:
                known = self._known.get(run_id)
            listing = part if known is None else known.listing.after(part)
            known = Known(listing, known.listed if known else None, known.item if known else None)
            if calls_for_entry((event for event in events if event.run_id == run_id), known):
                known = self._write(run_id, known)
            with self._lock:
                self._known[run_id] = known
                self._known.move_to_end(run_id)
                while len(self._known) > REMEMBERED_RUNS:
                    self._known.popitem(last=False)

    def _write(self, run_id: str, known: Known) -> Known:
        """Bring the entry up to date, wherever it is and whoever else writes it."""
        old, listing = known.item, known.listing
        keys = self._keys(run_id, listing)
        key = {name: old[name] for name in self._layout.key_names} if old else next(keys)
        for _ in range(MAX_PROBES - 1):
            there = read_entry(old, self._layout) if old else None
            holder = there.summary.run_id if there else bare_entry(old or {}, self._layout)
            if old and holder != run_id:
                key, old = next(keys), None  # taken by another run that began in the same millisecond
                continue
            if there is not None:
                listing = there.merged(known.listing)
                if listing == there:
                    return Known(known.listing, there, old)
            item, condition = self._entry(key, run_id, listing, old)
            old = self._table.put(item, condition)
            if old is None:
                return Known(known.listing, listing, item)
        raise JournalBusy(f"The entry of run {run_id!r} in the list of runs is written by too many at once.")

    def _claimed_start(self, run_id: str, listing: Listing) -> int:
        """When the run began, as the process said that first wrote an entry for it: perhaps this one."""
        names = self._layout.directory
        claim: AttributeMap = {
            **self._layout.claim_key(run_id),
            names.marker: {"N": str(VERSION)},
            names.run_id: {"S": run_id},
            names.started_at: {"N": str(listing.summary.started_at)},
        }
        if listing.ttl is not None and listing.ttl != NEVER:
            claim["ttl"] = {"N": str(listing.ttl + CLAIM_OUTLIVES_SECONDS)}
        there = self._table.put(claim, self._layout.free)
        start = None if there is None else whole_number_in(there, names.started_at)
        return listing.summary.started_at if start is None else start

    def _keys(self, run_id: str, listing: Listing) -> Iterator[AttributeMap]:
        """Where the entry is or goes, after asking for the claim."""
        start = self._claimed_start(run_id, listing)
        day = iso_from_ms(start)[:_DAY]
        for place in places(start, run_id):
            yield self._layout.entry_key(day, place, run_id)

    def _entry(
        self, key: AttributeMap, run_id: str, listing: Listing, old: AttributeMap | None
    ) -> tuple[AttributeMap, Condition]:
        names = self._layout.directory
        revision = whole_number_in(old, names.revision) or 0 if old else 0
        item: AttributeMap = {
            **key,
            names.marker: {"N": str(VERSION)},
            names.run_id: {"S": run_id},
            names.summary: to_attributes(listing),
            names.revision: {"N": str(revision + 1)},
        }
        if listing.ttl is not None and listing.ttl != NEVER:
            item["ttl"] = {"N": str(listing.ttl)}
        if not old:
            return item, self._layout.free
        unchanged = Condition(
            expression="#revision = :revision",
            names={"#revision": names.revision},
            values={":revision": {"N": str(revision)}},
        )
        return item, unchanged


def calls_for_entry(events: Iterator[Event], known: Known) -> bool:
    """Whether these events of a run change what the list should say of it."""
    for event in events:
        if event.type in STARTS or event.type in FACT_TYPES or event.number == 1:
            return True
        if event.number is None and known.listed is None and event.type != "late_batch":
            return True
    if known.listed is None:
        return False
    ours, listed = known.listing.ttl, known.listed.ttl
    if ours is None or listed is None or listed == NEVER:
        return False
    return ours == NEVER or ours - listed > RENEW_SECONDS


def bare_entry(item: AttributeMap, layout: Layout) -> str | None:
    """The run of an entry that a state machine wrote, which names its session and says no more of it."""
    return None if layout.directory.summary in item else text_in(item, layout.directory.run_id)


def read_entry(item: AttributeMap, layout: Layout) -> Listing | None:
    """What an entry says; None if it is not one of ours."""
    names = layout.directory
    run_id = text_in(item, names.run_id)
    if run_id is None:
        return None
    try:
        return from_attributes(run_id, item[names.summary])
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return None
