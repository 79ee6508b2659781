"""What an entry of the run list says about its run. Entries are projections: they may be written over.

Every process that records a run knows a part of it. Parts merge in any order, and merging one twice changes
nothing, so a write that may or may not have happened is simply made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from longwatch.journal import lifecycles
from longwatch.model.attempts import Lifecycle
from longwatch.model.endings import Ending, Status
from longwatch.model.event import Event, Order, tool_status
from longwatch.model.run import Origin, RunSummary, summarise
from longwatch.storage.dynamodb.values import AttributeValue, from_attribute, to_map

MOST_AGENTS = 100
MOST_PRODUCERS = 100  # beyond, their events are not counted in the list; `find_run` counts them all
LONGEST_TEXT = 500  # characters of a name or an error message
NEVER = 0  # as a time to live: some event of the run never expires


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of a run, as somebody saw it."""

    summary: RunSummary
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # producer -> events, failed calls
    ttl: int | None = None  # epoch seconds, NEVER, or None: not known yet

    @property
    def run(self) -> RunSummary:
        """The summary with the counts of all that were merged."""
        return replace(
            self.summary,
            events=sum(events for events, _ in self.counts.values()),
            failed_calls=sum(failed for _, failed in self.counts.values()),
        )

    def merged(self, other: Listing) -> Listing:
        """What both parts say. Commutative, associative, and the same again if done again."""
        summary = self.summary.merged(other.summary)
        counts = dict(self.counts)
        for producer, (events, failed) in other.counts.items():
            if producer in counts or len(counts) < MOST_PRODUCERS:
                before = counts.get(producer, (0, 0))
                counts[producer] = max(events, before[0]), max(failed, before[1])
        return Listing(
            replace(
                summary,
                events=0,
                failed_calls=0,
                agents=frozenset(sorted(summary.agents)[:MOST_AGENTS]),
            ),
            counts,
            _later(self.ttl, other.ttl),
        )

    def after(self, more: Listing) -> Listing:
        """This part and what the same process saw next: like `merged`, but failed calls add up."""
        merged = self.merged(more)
        counts = dict(merged.counts)
        for producer in self.counts.keys() & more.counts.keys():
            mine, theirs = self.counts[producer], more.counts[producer]
            events = mine[0] + theirs[0] if producer.startswith("~") else max(mine[0], theirs[0])
            counts[producer] = events, mine[1] + theirs[1]
        return replace(merged, counts=counts)


def listings(events: Iterable[Event], *, process: str) -> dict[str, Listing]:
    """One listing for each run among these events, which this process has just stored.

    A numbered event tells how many its producer has written. Events without a number are counted under the
    name of the process.
    """
    group = list(events)
    found: dict[str, Listing] = {}
    for run_id, summary in summarise(group).items():
        counts: dict[str, tuple[int, int]] = {}
        ttl: int | None = None
        for event in group:
            if event.run_id != run_id:
                continue
            name = event.producer if event.producer is not None else f"~{process}"
            count, failed = counts.get(name, (0, 0))
            count = max(count, event.number) if event.number is not None else count + 1
            failed += event.type == "tool_call" and tool_status(event.payload) == "failed"
            counts[name] = count, failed
            if event.type != "late_batch":  # it stays for ever, and should not keep the run listed for ever
                ttl = _later(ttl, NEVER if event.ttl is None else event.ttl)
        found[run_id] = Listing(_short(summary), counts, ttl)
    return found


def _short(run: RunSummary) -> RunSummary:
    """The summary without what an entry does not need or could not hold."""
    endings = tuple(
        each if each.error is None else replace(each, error=each.error[:LONGEST_TEXT])
        for each in run.lifecycle.endings
    )
    return replace(
        run,
        origin=replace(run.origin, name=run.origin.name[:LONGEST_TEXT] if run.origin.name else None),
        agents=frozenset(sorted(name[:LONGEST_TEXT] for name in run.agents)[:MOST_AGENTS]),
        lifecycle=replace(run.lifecycle, endings=endings),
        events=0,
        failed_calls=0,
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
        }
    )


def from_attributes(run_id: str, attribute: AttributeValue) -> Listing:
    """The listing that `to_attributes` wrote. Raises an ordinary error if it is none."""
    said: dict[str, object] = from_attribute(attribute)  # type: ignore[assignment]
    agents: list[str] = said["agents"]  # type: ignore[assignment]
    counts: dict[str, list[int]] = said["counts"]  # type: ignore[assignment]
    ttl = said["ttl"]
    origin = Origin(
        inferred=bool(said["inferred"]),
        order=_order(said["origin"]),
        kind=str(said["kind"]),
        name=_text(said["name"]),
        parent_run_id=_text(said["parent_run_id"]),
    )
    summary = RunSummary(
        run_id=run_id,
        origin=origin,
        started_at=_whole(said["started_at"]),
        last_order=_order(said["last"]),
        last_event_type=str(said["last_event_type"]),
        events=0,
        agents=frozenset(agents),
        lifecycle=_lifecycle(said, origin),
        is_active=bool(said.get("is_active", True)),
        activity=tuple((at, producer) for at, producer in json.loads(str(said.get("activity", "[]")))),
    )
    return Listing(
        summary,
        {name: (_whole(events), _whole(failed)) for name, (events, failed) in counts.items()},
        None if ttl is None else _whole(ttl),
    )


def _lifecycle(said: Mapping[str, object], origin: Origin) -> Lifecycle:
    """The lifecycle of an entry; one of before has a single ending instead."""
    text = said.get("lifecycle")
    if isinstance(text, str):
        return lifecycles.from_json(json.loads(text))
    ending: dict[str, object] | None = said["ending"]  # type: ignore[assignment]
    if ending is None:
        return lifecycles.lifecycle_before(origin, None)
    stated = Ending(
        status=Status(str(ending["status"])),
        order=_order(ending["order"]),
        own_word=bool(ending["own_word"]),
        error=_text(ending["error"]),
        correction=bool(ending.get("correction")),
    )
    return lifecycles.lifecycle_before(origin, stated)


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return NEVER if NEVER in (one, other) else max(one, other)


def _order(value: object) -> Order:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is no order")
    at, producer, number, event_id = value
    return _whole(at), str(producer), _whole(number), str(event_id)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
