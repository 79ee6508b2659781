"""A run is the fold of its events. Everything here is pure, and any order of arrival gives the same run.

`model.summary` has the part that lists show, `model.calls` has agent spans and tool calls. This module
exports their names too, so that readers of runs need one import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from longwatch.errors import InvalidInput
from longwatch.model.attempts import ATTEMPT_STARTS, JOINED, Attempt, Joins, Lifecycle, Start, joined_at
from longwatch.model.calls import NO_CALLS, Call, Calls, Mark
from longwatch.model.endings import attempt_id_of
from longwatch.model.event import UNREADABLE, Event, Order, number_of
from longwatch.model.liveness import Condition
from longwatch.model.numbering import NO_NUMBERS, NumberSet, with_line
from longwatch.model.summary import ENDS, STARTS, STATUS_WORDS, Ending, Origin, RunSummary, Status, summarise

__all__ = [
    "ENDS",
    "SILENT_AFTER_MS",
    "STARTS",
    "STATUS_WORDS",
    "Attempt",
    "Call",
    "Calls",
    "Condition",
    "Ending",
    "Mark",
    "Origin",
    "ProducerNumbers",
    "Run",
    "RunSummary",
    "Status",
    "conditions",
    "fold",
    "summarise",
]

SILENT_AFTER_MS = 60_000
LINE_TYPES = frozenset({"block", "block_delta", "turn_line", "turn_result", "output"})  # of an agent's output


@dataclass(frozen=True, slots=True)
class ProducerNumbers:
    """The numbers seen of one producer, and the count that it stated."""

    seen: NumberSet = NO_NUMBERS
    count: int | None = None  # stated when the producer closed

    def missing(self) -> tuple[tuple[int, int], ...]:
        """The ranges of missing numbers."""
        return tuple(self.seen.gaps(up_to=self.count))

    def merged(self, other: ProducerNumbers) -> ProducerNumbers:
        """The numbers of both; of two counts the higher one."""
        counts = [count for count in (self.count, other.count) if count is not None]
        return ProducerNumbers(self.seen | other.seen, max(counts, default=None))


@dataclass(frozen=True, slots=True)
class Run:
    """The fold of all events of a run."""

    summary: RunSummary
    all_calls: Calls = NO_CALLS  # of every attempt; `calls` has those of the last one
    counts: Mapping[str, int] = field(default_factory=dict)  # event type -> how many
    producers: Mapping[str, ProducerNumbers] = field(default_factory=dict)
    joined: Mapping[str, Joins] = field(default_factory=dict)  # producer -> the attempts that it stated
    lines: NumberSet = NO_NUMBERS  # of the agent's output in a turn

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @property
    def status(self) -> Status:
        return self.summary.status

    @property
    def calls(self) -> Mapping[str, Call]:
        """Every call of the last attempt by its ID, or by its first event without one."""
        return self._calls_in(len(self.summary.attempts) - 1).by_id()

    def at_attempt(self, number: int, own: Run | None = None) -> Run:
        """The run as if its attempt of this number, from 1, were the only one.

        `own` is the fold of its events (`attempt_of`); without it they are not counted.
        An earlier attempt without an ending is unknown: the next one started before it reported an outcome.
        """
        attempts = self.summary.attempts
        if not 1 <= number <= len(attempts):
            plural = "" if len(attempts) == 1 else "s"
            raise InvalidInput(
                f"Run {self.run_id!r} has {len(attempts)} attempt{plural}, not {number}. "
                f"Use a number from 1 to {len(attempts)}."
            )
        if len(attempts) == 1:
            return self
        attempt = attempts[number - 1]
        calls = self._calls_in(number - 1)
        start = attempt.start or (self.summary.started_at, "", 0, "")
        seen = self.summary if own is None else own.summary
        last = seen.last_order
        if own is None and attempt.is_superseded:
            last = max(start, calls.last_order or start)
        ending = attempt.ending if attempt.ending or not attempt.is_superseded else _superseded(last)
        lifecycle = Lifecycle(
            starts=(Start(start, attempt.id),),
            endings=() if ending is None else (ending,),
            members=attempt.members,
        )
        summary = replace(
            seen,
            origin=self.summary.origin,
            started_at=self.summary.started_at if number == 1 else start[0],
            last_order=last,
            lifecycle=lifecycle,
            expired_before=self.summary.expired_before,
        )
        counts = {} if own is None else own.counts
        # A producer may work on several attempts: only all of its numbers show which are missing.
        present = self.producers if own is None else own.producers
        producers = {name: each for name, each in self.producers.items() if name in present}
        return replace(self, summary=summary, all_calls=calls, counts=counts, producers=producers, joined={})

    def attempt_of(self) -> Callable[[Event], int]:
        """A function that returns the number of an event's attempt, from 1."""
        attempts = self.summary.attempts
        named, starts = _numbers(attempts), [attempt.start for attempt in attempts]

        def number(event: Event) -> int:
            is_start = event.type in ATTEMPT_STARTS
            if is_start or event.type == JOINED or event.type in ENDS:
                found = named.get(attempt_id_of(event))
                if found is not None:
                    return found
            joins = () if is_start else self.joined.get(event.producer or "", ())
            found = named.get(joined_at(joins, event.order))
            return found if found is not None else _open_at(starts, event.order) + 1

        return number

    def _calls_in(self, index: int) -> Calls:
        if len(self.summary.attempts) == 1:
            return self.all_calls
        return self.all_calls.only(self.is_in_attempt(index + 1))

    def is_in_attempt(self, number: int) -> Callable[[Order], bool]:
        """A function that decides by order whether an event without an attempt ID belongs to this attempt."""
        attempts = self.summary.attempts
        named, starts = _numbers(attempts), [attempt.start for attempt in attempts]

        def belongs(order: Order) -> bool:
            found = named.get(joined_at(self.joined.get(order[1], ()), order))
            return (found if found is not None else _open_at(starts, order) + 1) == number

        return belongs

    @property
    def model_calls(self) -> list[Call]:
        return [call for call in self.ordered_calls() if call.kind == "model"]

    @property
    def tool_calls(self) -> list[Call]:
        return [call for call in self.ordered_calls() if call.kind == "tool"]

    @property
    def agent_spans(self) -> list[Call]:
        return [call for call in self.ordered_calls() if call.kind == "agent"]

    def ordered_calls(self) -> list[Call]:
        """All calls, in the order of their starts."""
        return sorted(self.calls.values(), key=lambda call: (call.started_at, call.first.order))


def _numbers(attempts: Sequence[Attempt]) -> dict[str | None, int]:
    """The number of each attempt, from 1, by its IDs."""
    every = enumerate(attempts, start=1)
    return {name: number for number, each in every for name in (each.id, each.also) if name}


def _superseded(last: Order) -> Ending:
    """The ending of an attempt without one once a later attempt has started, after its last event."""
    return Ending(Status.UNKNOWN, last, own_word=False, not_before=last[0])


def _open_at(starts: Sequence[Order | None], order: Order) -> int:
    """The index of the attempt that was open at this time: the last one that had started."""
    return max((at for at, start in enumerate(starts) if at and start and start <= order), default=0)


def fold(events: Iterable[Event], onto: Run | None = None) -> Run | None:
    """Fold events of one run, each once, onto an earlier fold. None without any event."""
    group = list(events)
    if not group:
        return onto
    run_ids = {event.run_id for event in group} | ({onto.run_id} if onto else set())
    if len(run_ids) > 1:
        raise ValueError(f"events of several runs cannot be folded into one: {sorted(run_ids)}")
    summary = summarise(group)[group[0].run_id]
    if onto is None:
        return Run(
            summary,
            NO_CALLS.plus(group),
            _count_types({}, group),
            _add_numbers({}, group),
            _add_joins({}, group),
            _add_lines(NO_NUMBERS, group),
        )
    return Run(
        summary=onto.summary.merged(summary),
        all_calls=onto.all_calls.plus(group),
        counts=_count_types(onto.counts, group),
        producers=_add_numbers(onto.producers, group),
        joined=_add_joins(onto.joined, group),
        lines=_add_lines(onto.lines, group),
    )


def _add_joins(before: Mapping[str, Joins], events: Iterable[Event]) -> Mapping[str, Joins]:
    joined = dict(before)
    for event in events:
        if event.producer is None or (event.type != JOINED and event.type not in ATTEMPT_STARTS):
            continue
        attempt = attempt_id_of(event)
        if attempt is not None:
            joins = joined.get(event.producer, ())
            joined[event.producer] = tuple(sorted({*joins, (event.order, attempt)}))
    return joined


def _add_lines(lines: NumberSet, events: Iterable[Event]) -> NumberSet:
    for event in events:
        if event.type in LINE_TYPES:
            lines = with_line(lines, event.payload)
    return lines


def _count_types(before: Mapping[str, int], events: Iterable[Event]) -> dict[str, int]:
    counts = dict(before)
    for event in events:
        counts[event.type] = counts.get(event.type, 0) + 1
    return counts


def _add_numbers(
    before: Mapping[str, ProducerNumbers], events: Iterable[Event]
) -> dict[str, ProducerNumbers]:
    numbers: dict[str, list[int]] = {}
    stated: dict[str, int] = {}
    for event in events:
        if event.producer is None or event.number is None:
            continue
        numbers.setdefault(event.producer, []).append(event.number)
        count = number_of(event.payload, "count") if event.type == "producer_closed" else None
        if count is not None:
            stated[event.producer] = max(stated.get(event.producer, 0), int(count))
    producers = dict(before)
    for producer, seen in numbers.items():
        added = ProducerNumbers(NumberSet.of(seen), stated.get(producer))
        earlier = producers.get(producer)
        producers[producer] = earlier.merged(added) if earlier else added
    return producers


def conditions(
    run: Run, now_ms: int, *, silent_after_ms: int = SILENT_AFTER_MS, observed: Sequence[Condition] = ()
) -> list[Condition]:
    """The conditions of the run at this moment: computed, never stored.

    `observed` are the conditions of its processes, which do not follow from its events.
    """
    found: list[Condition] = []
    quiet_ms = now_ms - run.summary.attempt_active_at
    waits = run.summary.waiting
    found += [Condition("waiting", wait.text, since=wait.since) for wait in waits]
    if run.summary.ending is None and quiet_ms > silent_after_ms and not waits:
        found.append(Condition("silent", f"no event for {quiet_ms // 1000} s; the run is still open"))
    unreadable = run.counts.get(UNREADABLE, 0)
    if unreadable:
        events = "event" if unreadable == 1 else "events"
        found.append(Condition("unreadable", f"{unreadable} {events} cannot be read; run `longwatch doctor`"))
    found += [each for each in observed if not (unreadable and each.name == "unreadable")]
    for producer, numbers in sorted(run.producers.items()):
        for low, high in numbers.missing():
            span = f"{low}" if low == high else f"{low}–{high}"
            found.append(Condition("missing", f"missing {span} of producer {producer}"))
    for low, high in run.lines.gaps():
        span = f"line {low}" if low == high else f"lines {low}–{high}"
        found.append(Condition("missing", f"missing {span} of the agent's output"))
    return found
