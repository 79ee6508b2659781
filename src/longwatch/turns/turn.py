"""Folds the events of a turn into its blocks in order, its status, and its last change.

Any order of arrival gives the same turn, and a repeated event counts once.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from longwatch.model.endings import CORRECTIONS
from longwatch.model.event import UNREADABLE, Event, Order, number_of, run_duration_ms, text_of
from longwatch.model.numbering import NO_NUMBERS, NumberSet, with_line
from longwatch.model.process import ProcessIdentity
from longwatch.model.run import ENDS, Ending, Status
from longwatch.model.usage import NO_USAGE, USAGE_TYPES, Usage, UsageCounter
from longwatch.model.waiting import WAIT_TYPES, Wait, Waits, merge_waits
from longwatch.turns.dialects.messages import AgentReport, BlockKind, Reported, apply_denials
from longwatch.turns.streaming import DELTA, StreamingBlock, TextDelta

LONGEST_POSITION_ID = 200  # characters of an event id in a position
NOT_NUMBERED = 2**63  # blocks without a line number come last
CLAIMS = frozenset({"turn_claimed", "turn_end_claimed"})  # they decide races, and do not change the turn
EXECUTION_TYPES = frozenset({"turn_started", "block", DELTA, "turn_line", "turn_result", "output"})

_WIRE_STATUSES: Mapping[Status, str] = {  # the wire has four statuses only
    Status.PENDING: "pending",
    Status.RUNNING: "running",
    Status.SUCCEEDED: "completed",
}

_REPORT_FIELDS = frozenset({"reported", "error_message", "line_number", "after_line", "item"})
_FIELDS: Mapping[str, tuple[str, ...]] = {  # kind of block -> its fields
    BlockKind.THINKING: ("text",),
    BlockKind.CONTENT: ("text",),
    BlockKind.TOOL_USE: ("tool_use_id", "tool_name", "parameters"),
    BlockKind.TOOL_RESULT: ("tool_use_id", "result", "error"),
}


@dataclass(frozen=True, slots=True)
class Block:
    id: str  # of its event
    name: str  # identifies a repeated block, see `part_of`
    kind: str
    content: Mapping[str, object]
    line_number: int
    item: int  # its index in the line
    order: Order

    @property
    def created_at(self) -> int:
        return self.order[0]

    @property
    def sort_key(self) -> tuple[int, int, Order]:
        """By line, index in the line, and order of the event."""
        return (self.line_number, self.item, self.order)

    @classmethod
    def of(cls, event: Event, name: str) -> Block | None:
        """The block of an event; None if its kind is unknown."""
        payload = event.payload
        kind = text_of(payload, "kind") or ""
        names = _FIELDS.get(kind)
        if names is None:
            return None
        content = {name: payload.get(name) for name in names}
        if "truncated" in payload:
            content["truncated"] = payload["truncated"]
        return cls(
            id=event.event_id,
            name=name,
            kind=kind,
            content=content,
            line_number=_int_of(payload, "line_number", NOT_NUMBERED),
            item=_int_of(payload, "item", 0),
            order=event.order,
        )


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The executor of a turn."""

    order: Order
    executor: str | None = None
    process: ProcessIdentity | None = None


@dataclass(frozen=True, slots=True)
class TurnReport:
    """The agent's report, and the order of its event."""

    order: Order
    report: AgentReport

    @classmethod
    def of(cls, event: Event) -> TurnReport:
        """The report in a `turn_result`."""
        fields = {name: value for name, value in event.payload.items() if name not in _REPORT_FIELDS}
        word = text_of(event.payload, "reported")
        reported = Reported(word) if word in set(Reported) else Reported.UNCLEAR
        return cls(event.order, AgentReport(reported, text_of(event.payload, "error_message"), fields))

    def beats(self, other: TurnReport | None) -> bool:
        """Whether this report counts rather than the other: the more severe one, then the first."""
        if other is None:
            return True
        mine, theirs = self.report.reported.severity, other.report.reported.severity
        return mine > theirs if mine != theirs else self.order < other.order


@dataclass(frozen=True, slots=True)
class Creation:
    order: Order
    project_id: str
    conversation_id: str
    number: int
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class TurnState:
    """A turn, folded from its events."""

    turn_id: str
    creation: Creation | None = None
    start: TurnStart | None = None
    began_at: int | None = None  # the first event of its execution
    blocks: tuple[Block, ...] = ()
    deltas: tuple[TextDelta, ...] = ()  # after the last finished block, by line
    finished_line: int = 0  # the highest number of a line with a block of the main agent
    report: TurnReport | None = None
    denied: frozenset[str] = frozenset()  # tools, in addition to those that the agent reports
    ending: Ending | None = None  # as reported to readers
    correction: Ending | None = None  # an outcome after the ending; it changes no response
    last: Order | None = None
    lines: NumberSet = NO_NUMBERS  # of the agent's output that were fed, including blank ones
    seen: frozenset[str] = frozenset()  # ids of events, and keys of the parts of lines
    usage: Usage = field(default=NO_USAGE, hash=False)  # of models, as far as the agent has reported it
    waits: Waits = ()

    @property
    def status(self) -> Status:
        if self.ending is not None:
            return self.ending.status
        return Status.PENDING if self.began_at is None else Status.RUNNING

    @property
    def waiting(self) -> tuple[Wait, ...]:
        """The open waits of a turn that has not ended, the longest first."""
        if self.has_ended:
            return ()
        return tuple(sorted((wait for wait in self.waits if wait.is_open), key=lambda wait: wait.since or 0))

    @property
    def wire_status(self) -> str:
        """pending, running, completed or failed."""
        return wire_status_of(self.status)

    @property
    def has_ended(self) -> bool:
        return self.ending is not None

    @property
    def highest_line(self) -> int:
        return self.lines.highest

    @property
    def missing_lines(self) -> tuple[tuple[int, int], ...]:
        """The first and the last number of every gap before the highest line; numbers begin with 0 or 1."""
        return tuple(self.lines.gaps())

    @property
    def block_count(self) -> int:
        return len(self.blocks)

    @property
    def streaming(self) -> StreamingBlock | None:
        """The block whose message has not ended; also that of a turn which ended before its message did."""
        return StreamingBlock.of(self.deltas)

    @property
    def error(self) -> str | None:
        """Why the turn failed or was stopped."""
        if self.ending is None or self.ending.status is Status.SUCCEEDED:
            return None
        return self.ending.error or self.ending.status.value

    @property
    def created_at(self) -> int | None:
        return None if self.creation is None else self.creation.order[0]

    @property
    def started_at(self) -> int | None:
        return self.began_at

    @property
    def completed_at(self) -> int | None:
        if self.ending is None:
            return None
        return (
            self.ending.at if self.ending.at is not None else self.ending.not_after or self.ending.not_before
        )

    @property
    def duration_ms(self) -> int | None:
        """From the creation to the ending; None while the turn is open."""
        created_at, completed_at = self.created_at, self.completed_at
        if created_at is None or completed_at is None:
            return None
        return run_duration_ms(created_at, completed_at)

    @property
    def last_updated(self) -> int | None:
        return None if self.last is None else self.last[0]

    @property
    def last_event_id(self) -> str | None:
        return None if self.last is None else self.last[3]

    @property
    def process(self) -> ProcessIdentity | None:
        return None if self.start is None else self.start.process

    def plus(self, events: Iterable[Event]) -> TurnState:
        """The turn with these events applied."""
        fold = _Fold(self)
        for event in events:
            fold.add(event)
        return fold.state()


def wire_status_of(status: Status) -> str:
    """pending, running, completed or failed: every ending but success counts as failed."""
    return _WIRE_STATUSES.get(status, "failed")


def report_of_turn(state: TurnState) -> AgentReport | None:
    """The agent's report so far, given the tools that it was denied."""
    return apply_denials(state.report.report, state.denied) if state.report is not None else None


def turn_state(events: Iterable[Event]) -> TurnState:
    """The turn of these events, which belong to one run."""
    given = list(events)
    return TurnState(given[0].run_id if given else "").plus(given)


def position_of(state: TurnState, *more: str) -> str:
    """A token for what is stored of a turn: the ids of its creation, start and ending, and further ones."""
    found = (each.order[3] for each in (state.creation, state.start, state.ending) if each is not None)
    # An id from another producer may have any characters, and the token becomes a header.
    ids = (event_id for event_id in (*found, *more) if len(event_id) <= LONGEST_POSITION_ID)
    return ",".join(quote(event_id, safe="") for event_id in ids)


def has_position(state: TurnState, position: str) -> bool:
    """Whether this state includes every event of the token."""
    ids = (unquote(event_id) for event_id in position.split(",") if event_id)
    return all((part_of(state.turn_id, event_id) or event_id) in state.seen for event_id in ids)


def tag_of(state: TurnState) -> str:
    """A short text that changes with every change of the turn, equal on every server."""
    ending = state.ending.order if state.ending is not None else None
    last = f"{len(state.seen)}\0{state.last}\0{ending}"
    digest = hashlib.blake2b(last.encode(errors="replace"), digest_size=8).hexdigest()
    return f"{state.wire_status}-{state.block_count}-{digest}"


def blocks_cursor(state: TurnState, count: int | None = None) -> str:
    """A token for the first `count` blocks, by default all, equal on every server: how many, and which."""
    blocks = state.blocks[:count]
    ids = "\0".join(block.id for block in blocks)
    return f"{len(blocks)}-{hashlib.blake2b(ids.encode(errors='replace'), digest_size=8).hexdigest()}"


def blocks_before(state: TurnState, cursor: str) -> int:
    """The number of blocks that a client with this `blocks_cursor` has; 0 if one of them has moved since."""
    count = int(cursor.partition("-")[0])
    return count if blocks_cursor(state, count) == cursor else 0


def part_of(turn_id: str, event_id: str) -> str | None:
    """Identifies the part of a line that an event came from; None if it was not fed as a line.

    The ids of fed lines are `{turn}-{line number}-{item}-{key}`. Two feeders may store a line without a
    number under two numbers at the same time; its key shows that it is one line.
    """
    parts = event_id.removeprefix(f"{turn_id}-").split("-")
    return f"{parts[2]}-{parts[1]}" if len(parts) == 3 and parts[0].isdigit() else None


class _Fold:
    """Adds events to a turn."""

    def __init__(self, state: TurnState) -> None:
        self._before = state
        self._creation = state.creation
        self._start = state.start
        self._began_at = state.began_at
        self._blocks: list[Block] | None = None  # copied when there is a new one
        self._deltas = state.deltas
        self._finished_line = state.finished_line
        self._report = state.report
        self._denied = state.denied
        self._ending = state.ending
        self._correction = state.correction
        self._last = state.last
        self._lines = state.lines
        self._usage = state.usage
        self._waits = state.waits
        self._names: set[str] = set()

    def add(self, event: Event) -> None:
        if event.type in CLAIMS:
            return  # the claimed event follows
        name = part_of(event.run_id, event.event_id) or event.event_id
        is_new = name not in self._before.seen and name not in self._names
        self._names.add(name)
        if self._last is None or event.order > self._last:
            self._last = event.order
        self._lines = with_line(self._lines, event.payload)
        if event.type in WAIT_TYPES:
            self._waits = merge_waits(self._waits, (Wait.of(event),))
        elif event.type in USAGE_TYPES and is_new:
            counter = UsageCounter()
            counter.add(event)
            self._usage = self._usage.plus(counter.usage())
        if event.type in EXECUTION_TYPES and (self._began_at is None or event.occurred_at < self._began_at):
            self._began_at = event.occurred_at
        if event.type == "block":
            self._add_block(event, name, is_new=is_new)
        elif event.type == DELTA:
            self._add_delta(event, is_new=is_new)
        elif event.type == "turn_created":
            self._add_creation(event)
        elif event.type == "turn_started":
            self._add_start(event)
        elif event.type == "turn_result":
            report = TurnReport.of(event)
            if report.beats(self._report):
                self._report = report
        elif event.type in ENDS or event.type == UNREADABLE:
            self._add_ending(event)

    def state(self) -> TurnState:
        before = self._before
        if not self._names:
            return before
        return TurnState(
            turn_id=before.turn_id,
            creation=self._creation,
            start=self._start,
            began_at=self._began_at,
            blocks=before.blocks if self._blocks is None else tuple(self._blocks),
            deltas=self._deltas,
            finished_line=self._finished_line,
            report=self._report,
            denied=self._denied,
            ending=self._ending,
            correction=self._correction,
            last=self._last,
            lines=self._lines,
            seen=before.seen if self._names <= before.seen else before.seen | self._names,
            usage=self._usage,
            waits=self._waits,
        )

    def _add_block(self, event: Event, name: str, *, is_new: bool) -> None:
        denied = text_of(event.payload, "denied")
        if denied is not None:
            self._denied |= {denied}
        block = Block.of(event, name)
        if block is None:
            return
        if event.parent_call_id is None and self._finished_line < block.line_number < NOT_NUMBERED:
            self._finished_line = block.line_number
            self._deltas = tuple(each for each in self._deltas if each.line_number > block.line_number)
        blocks = self._blocks if self._blocks is not None else list(self._before.blocks)
        if not is_new:  # of two copies of a block, the earlier one counts
            twin = next((each for each in blocks if each.name == name), None)
            if twin is None or twin.order <= block.order:
                return
            blocks.remove(twin)
        insort(blocks, block, key=lambda each: each.sort_key)
        self._blocks = blocks

    def _add_delta(self, event: Event, *, is_new: bool) -> None:
        delta = TextDelta.of(event) if is_new else None
        if delta is not None and delta.line_number > self._finished_line:
            self._deltas = (*self._deltas, delta)
            if len(self._deltas) > 1 and self._deltas[-2].sort_key > delta.sort_key:
                self._deltas = tuple(sorted(self._deltas, key=lambda each: each.sort_key))

    def _add_ending(self, event: Event) -> None:
        stated = Ending.of(event)
        if stated is None:
            return
        if event.type in CORRECTIONS or stated.correction:
            if stated.beats(self._correction):
                self._correction = stated
        elif stated.beats(self._ending):
            self._ending = stated

    def _add_creation(self, event: Event) -> None:
        payload = event.payload
        if self._creation is None or event.order < self._creation.order:
            self._creation = Creation(
                order=event.order,
                project_id=text_of(payload, "project_id") or "",
                conversation_id=text_of(payload, "conversation_id") or "",
                number=_int_of(payload, "number", 0),
                prompt=text_of(payload, "prompt"),
            )

    def _add_start(self, event: Event) -> None:
        payload = event.payload
        if self._start is None or event.order < self._start.order:
            self._start = TurnStart(
                event.order, text_of(payload, "executor"), ProcessIdentity.of(payload.get("process"))
            )


def _int_of(payload: Mapping[str, object], name: str, otherwise: int) -> int:
    number = number_of(payload, name)
    return otherwise if number is None else int(number)
