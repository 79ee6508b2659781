"""The attempts of a run: its starts, its processes and its endings.

Starting a run ID again opens a new attempt. A session (`SESSION_INITIATED`) and the work inside it
(`workflow_start`) are one attempt although each has its own ID for it: a start joins the open attempt if that
has no ending and no start of the same kind. An ending, a process or a call belongs to exactly one attempt:
the one that its event states, else the one that its producer started or joined, else the one that was open at
the time. Clocks differ by up to `CLOCK_SKEW_MS`: an ending without an earlier start, and work that started
before its session, belong to a start that follows within that time. The facts are a set, so any order of
arrival gives the same attempts, and merging the same facts again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from longwatch.model.endings import ENDS, Ending, Status, attempt_id_of
from longwatch.model.event import UNREADABLE, Event, Order
from longwatch.model.process import ProcessIdentity

SESSION_START = "SESSION_INITIATED"
ATTEMPT_STARTS = frozenset({"workflow_start", SESSION_START})
OWNER_TYPES = frozenset({"workflow_start", "turn_started"})  # their process owns the run
JOINED = "process_joined"
CLOSED = "producer_closed"
FACT_TYPES = ATTEMPT_STARTS | OWNER_TYPES | {JOINED, CLOSED, UNREADABLE} | ENDS.keys()

CLOCK_SKEW_MS = 60_000  # largest difference between the clocks of two processes of a run

# Limits of the facts of a run: a run ID that is used every night must not grow forever.
MAX_STARTS = 100
MAX_ENDINGS = 32
MAX_OWNERS = 16
MAX_MEMBERS = 128  # beside the owners
MAX_CLOSED = 256


@dataclass(frozen=True, slots=True)
class Start:
    """An event that starts the run."""

    order: Order
    attempt: str | None = None
    is_session: bool = False  # the start of a session, not of the work inside it


@dataclass(frozen=True, slots=True)
class Member:
    """A process that worked on the run, according to one of its producers."""

    process: ProcessIdentity
    order: Order  # of the event that states it
    is_owner: bool = False
    attempt: str | None = None

    @property
    def producer(self) -> str:
        return self.order[1]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a run."""

    id: str | None  # eight hex digits, or the execution of a session; None if its start has none
    start: Order | None  # None: no start was seen
    ending: Ending | None = None
    members: tuple[Member, ...] = ()  # processes that have not left
    is_superseded: bool = False  # a later attempt has started
    also: str | None = None  # its other ID: a session and the work inside it have one each

    @property
    def status(self) -> Status:
        """Running without an ending, or unknown if a later attempt has started."""
        if self.ending is not None:
            return self.ending.status
        return Status.UNKNOWN if self.is_superseded else Status.RUNNING


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The facts from which the attempts of a run follow."""

    starts: tuple[Start, ...] = ()
    endings: tuple[Ending, ...] = ()
    members: tuple[Member, ...] = ()  # without those that have left
    closed: tuple[tuple[int, str], ...] = ()  # when a producer closed, and which
    dropped: Order | None = None  # the last process beyond the limit
    has_gaps: bool = False  # unreadable events may have stated more facts

    def merged(self, other: Lifecycle) -> Lifecycle:
        """The facts of both. Commutative, associative and idempotent."""
        if other is NO_FACTS or other == NO_FACTS:
            return self
        if self == NO_FACTS:
            return other
        return _normalise(
            {*self.starts, *other.starts},
            {*self.endings, *other.endings},
            {*self.members, *other.members},
            {*self.closed, *other.closed},
            dropped=max((each for each in (self.dropped, other.dropped) if each is not None), default=None),
            has_gaps=self.has_gaps or other.has_gaps,
        )

    def completed(self, stored: Lifecycle) -> Lifecycle:
        """These facts and those stored with the run, which include those of unreadable events."""
        return replace(self.merged(stored), has_gaps=stored.has_gaps)

    def with_ending(self, ending: Ending) -> Lifecycle:
        """These facts and the ending that an observer has determined."""
        return self.merged(Lifecycle(endings=(ending,)))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt, the earliest first; there is always one."""
        if len(self.starts) == 1:  # the usual case, on every append
            start = self.starts[0]
            if all(
                each.order >= start.order or each.attempt == (start.attempt or "") for each in self.endings
            ):
                ending = ending_of(self.endings, self.members) if self.endings else None
                return (Attempt(start.attempt, start.order, ending, self.members),)
        return _attempts(self)

    def named_attempts(self) -> dict[str, str | None]:
        """The last attempt of each producer, as far as starts and processes state one."""
        facts: list[Start | Member] = [*self.starts, *self.members]
        return {each.order[1]: each.attempt for each in sorted(facts, key=lambda each: each.order)}

    @property
    def is_crowded(self) -> bool:
        """Whether more processes joined the last attempt than the limit."""
        start = self.current.start
        return self.dropped is not None and (start is None or self.dropped >= start)

    @property
    def current(self) -> Attempt:
        """The last attempt, which determines the status of the run."""
        return self.attempts[-1]


NO_FACTS = Lifecycle()


def lifecycle_of(events: Iterable[Event]) -> Lifecycle:
    """The facts that these events state."""
    starts: set[Start] = set()
    endings: set[Ending] = set()
    members: set[Member] = set()
    closed: set[tuple[int, str]] = set()
    has_gaps = False
    for event in events:
        if event.type not in FACT_TYPES:
            continue
        has_gaps = has_gaps or event.type == UNREADABLE
        if event.type == CLOSED:
            if event.producer is not None:
                closed.add((event.occurred_at, event.producer))
            continue
        if event.type in ENDS or event.type == UNREADABLE:
            ending = Ending.of(event)
            if ending is not None:
                endings.add(ending)
            continue
        attempt = attempt_id_of(event)
        if event.type in ATTEMPT_STARTS:
            starts.add(Start(event.order, attempt, event.type == SESSION_START))
        process = ProcessIdentity.of(event.payload.get("process"))
        if process is not None:
            members.add(Member(process, event.order, event.type in OWNER_TYPES, attempt))
    return _normalise(starts, endings, members, closed, has_gaps=has_gaps)


def _normalise(
    starts: set[Start],
    endings: set[Ending],
    members: set[Member],
    closed: set[tuple[int, str]],
    *,
    dropped: Order | None = None,
    has_gaps: bool = False,
) -> Lifecycle:
    """The facts in canonical form: sorted, without processes that have left, and limited."""
    left = {producer for _, producer in closed}
    by_order = sorted(members, key=lambda each: (each.order, each.process.id, each.is_owner))
    owners = [each for each in by_order if each.is_owner]
    others = [each for each in by_order if not each.is_owner and each.producer not in left]
    if len(others) > MAX_MEMBERS:
        last = others[-MAX_MEMBERS - 1].order
        dropped = last if dropped is None else max(dropped, last)
    return Lifecycle(
        starts=tuple(sorted(starts, key=_start_key)[-MAX_STARTS:]),
        endings=_limit_endings(endings),
        members=(*owners[-MAX_OWNERS:], *others[-MAX_MEMBERS:]),
        closed=tuple(sorted(closed)[-MAX_CLOSED:]),
        dropped=dropped,
        has_gaps=has_gaps,
    )


def _start_key(start: Start) -> tuple[Order, str, bool]:
    return start.order, start.attempt or "", start.is_session


def _limit_endings(endings: set[Ending]) -> tuple[Ending, ...]:
    ordered = sorted(endings, key=lambda each: (each.order, each.status, each.not_after or 0))
    if len(ordered) <= MAX_ENDINGS:
        return tuple(ordered)
    best = _best(ordered)
    newest = ordered[-MAX_ENDINGS:]
    return tuple(newest) if best is None or best in newest else (best, *newest)


@dataclass(slots=True)
class _Draft:
    """An attempt while its facts are collected."""

    id: str | None = None
    start: Order | None = None
    endings: list[Ending] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    kinds: set[bool] = field(default_factory=set)  # is_session of its starts
    also: str | None = None

    def begin(self, start: Start) -> None:
        """Add a start; the first one sets the time of the attempt."""
        self.kinds.add(start.is_session)
        if self.start is None:
            self.start = start.order

    def takes(self, start: Start) -> bool:
        """Whether a start with another attempt ID belongs to this attempt; see the module docstring."""
        return start.is_session not in self.kinds and not self.is_over(start)

    def merge(self, named: _Draft) -> None:
        """Add the ID and the endings of a draft that belongs to this attempt."""
        self.id, self.also = (self.id, named.id) if self.id is not None else (named.id, None)
        self.endings += named.endings

    def is_over(self, start: Start) -> bool:
        """Whether a start without an attempt ID opens an attempt: only if this one has ended.

        Within one millisecond a start may sort after the ending of its own attempt. With a late clock, the
        ending of an attempt, or all of the work inside a session, precedes the start.
        """
        now = start.order[0]
        if self.start is None:
            return all(each.order[0] < now - CLOCK_SKEW_MS for each in self.endings)
        if start.is_session and start.is_session not in self.kinds and self.start[0] >= now - CLOCK_SKEW_MS:
            return False
        return any(each.order[0] < now for each in self.endings)

    def attempt(self, *, is_superseded: bool) -> Attempt:
        members = tuple(self.members)
        ending = ending_of(self.endings, members)
        return Attempt(self.id, self.start, ending, members, is_superseded, self.also)


Joins = tuple[tuple[Order, str], ...]  # when a producer stated an attempt, and which; sorted


def joined_at(joins: Joins, order: Order) -> str | None:
    """The attempt of a producer at this time: the last one it had stated, else its first."""
    found = joins[0][1] if joins else None
    for at, attempt in joins:
        if at <= order:
            found = attempt
    return found


def _attempts(facts: Lifecycle) -> tuple[Attempt, ...]:
    drafts = _Drafts(facts.starts)
    ordered: list[Start | Ending] = sorted([*facts.starts, *facts.endings], key=lambda each: each.order)
    for fact in ordered:
        if isinstance(fact, Start):
            drafts.begin(fact)
        else:
            drafts.end(fact)
    for member in facts.members:
        drafts.add(member)
    return drafts.attempts()


class _Drafts:
    """The attempts of a run while its facts are processed in order."""

    def __init__(self, starts: Iterable[Start]) -> None:
        self._drafts: list[_Draft] = []
        self._by_id: dict[str, _Draft] = {}  # an ending may sort before its start
        self._joins: dict[str, Joins] = {}  # of producers that start the run
        for start in starts:
            if start.attempt is not None:
                self._by_id.setdefault(start.attempt, _Draft(start.attempt))
                producer = start.order[1]
                self._joins[producer] = (*self._joins.get(producer, ()), (start.order, start.attempt))

    def begin(self, start: Start) -> None:
        """Open an attempt with this start, unless it belongs to the one that is open."""
        current = self._drafts[-1] if self._drafts else None
        if start.attempt is None:
            if current is None or current.is_over(start):
                current = _Draft()
                self._drafts.append(current)
            current.begin(start)
            return
        named = self._by_id[start.attempt]
        if named.start is None and current is not None and current.takes(start):
            current.merge(named)
            named = self._by_id[start.attempt] = current
        elif named.start is None:
            self._drafts.append(named)
        named.begin(start)

    def end(self, ending: Ending) -> None:
        """Add an ending to the attempt that it states, else that its producer started, else the open one."""
        producer = ending.order[1]
        started = joined_at(self._joins.get(producer, ()), ending.order) if producer else None
        (self._by_name(ending.attempt) or self._by_name(started) or self._open()).endings.append(ending)

    def add(self, member: Member) -> None:
        """Add a process to the attempt that it states, else to the one that was open at its time."""
        (self._by_name(member.attempt) or self._at(member.order)).members.append(member)

    def attempts(self) -> tuple[Attempt, ...]:
        self._open()
        return tuple(each.attempt(is_superseded=each is not self._drafts[-1]) for each in self._drafts)

    def _by_name(self, attempt: str | None) -> _Draft | None:
        return None if attempt is None else self._by_id.get(attempt)

    def _open(self) -> _Draft:
        if not self._drafts:
            self._drafts.append(_Draft())
        return self._drafts[-1]

    def _at(self, order: Order) -> _Draft:
        found = self._drafts[0] if self._drafts else self._open()
        for draft in self._drafts[1:]:
            if draft.start is not None and draft.start <= order:
                found = draft
        return found


def ending_of(endings: Iterable[Ending], members: Iterable[Member]) -> Ending | None:
    """The ending that counts. `died` counts only while it covers every process that has not left."""
    stated = list(endings)
    best = _best(each for each in stated if each.status is not Status.DIED)
    if best is not None:
        return best
    present = {each.process.id for each in members}
    return _merge_deaths([each for each in stated if each.processes is None or each.processes >= present])


def _best(endings: Iterable[Ending]) -> Ending | None:
    best: Ending | None = None
    for ending in endings:
        if ending.beats(best):
            best = ending
    return best


def _merge_deaths(deaths: list[Ending]) -> Ending | None:
    """One death from several observers: the intersection of their intervals."""
    if not deaths:
        return None
    first = min(deaths, key=lambda each: (each.order, sorted(each.processes or ())))
    before = [each.not_before for each in deaths if each.not_before is not None]
    after = [each.not_after for each in deaths if each.not_after is not None]
    return replace(first, not_before=max(before, default=None), not_after=min(after, default=None))
