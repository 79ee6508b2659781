"""Turns lines of a coding agent into the events of a turn, each line once.

A line is identified by its number and text if its producer numbers its lines, otherwise by its text if that
has a `uuid`. A repeated line is recognised by this identity; a line without one is always new.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from longwatch.errors import InvalidInput, InvalidLine, NotWorthAnotherTry, TurnEnded
from longwatch.model.event import Event
from longwatch.model.numbering import with_line
from longwatch.model.waiting import Wait
from longwatch.turns.dialects import AgentReport, BlockContent, BlockKind, ParsedLine, parse_object, read_line
from longwatch.turns.dialects.messages import StreamFragment, apply_denials
from longwatch.turns.events import EventMaker
from longwatch.turns.streaming import DELTA, TextStream
from longwatch.turns.turn import TurnState, wire_status_of
from longwatch.turns.verdict import TurnEvidence, judge, pick_worse

REQUEST = "request-"  # begins the call ID of a wait that a line started
MOST_LINES = 10**8 - 1  # line numbers have eight digits in event ids, so that ids sort as lines do


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of feeding lines to a turn."""

    accepted: int  # lines, including those stored before
    blocks: int  # new ones
    status: str  # of the turn: pending, running, completed or failed
    events: tuple[Event, ...] = ()  # new ones
    missing: tuple[tuple[int, int], ...] = ()  # first and last number of every gap
    position: str = ""  # a token that makes any server return what is stored by now


@dataclass(slots=True)
class LineBatch:
    """The events that a batch of lines adds to a turn."""

    events: list[Event] = field(default_factory=list)
    report: AgentReport | None = None  # of the agent, in one of these lines
    accepted: int = 0
    problem: NotWorthAnotherTry | None = None  # why the remaining lines are not accepted

    @property
    def blocks(self) -> int:
        return sum(event.type == "block" for event in self.events)


@dataclass(frozen=True, slots=True)
class _Part:
    type: str
    parse_object: Mapping[str, object]
    fixed: Mapping[str, object] = field(default_factory=dict)
    call_id: str | None = None
    repeats_start: bool = False


@dataclass(frozen=True, slots=True)
class _ReadLine:
    """One line: the events that it becomes, or a fragment of a message that is still streaming."""

    parts: list[tuple[_Part, str | None]]
    key: str
    report: AgentReport | None = None
    fragment: StreamFragment | None = None
    finishes_block: bool = False  # it has a block of the main agent, which is what was streamed before


class LineReader:
    """Reads lines for one turn. The agent's report ends the turn, unless its end is deferred.

    `stream` is the text that previous batches streamed; afterwards it includes that of this batch.
    """

    def __init__(
        self,
        state: TurnState,
        maker: EventMaker,
        now_ms: int,
        *,
        keep_output: bool = False,
        defer_end: bool = False,
        stream: TextStream | None = None,
    ) -> None:
        self.stream = stream
        self._state = state
        self._maker = maker
        self._now = now_ms
        self._keep_output = keep_output
        self._defer_end = defer_end
        self._ended: str | None = state.wire_status if state.has_ended else None
        self._denied = set(state.denied)  # tools, including those of this batch
        self._uses: set[str] = set()  # of tools, in this batch
        self._names: set[str] = set()  # in this batch
        self._blank = 0  # lines since the last one with an event
        self._requests = {wait.call_id: wait for wait in state.waiting if wait.call_id.startswith(REQUEST)}
        self.lines = state.lines  # fed so far, including those of this batch

    def batch(self, lines: Iterable[str], first_line: int | None) -> LineBatch:
        """The events of these lines, up to the first that is not accepted."""
        if first_line is not None and not 0 <= first_line <= MOST_LINES:
            raise InvalidInput(f"Invalid number of the first line: {first_line}. Use 0 to {MOST_LINES:,}.")
        batch = LineBatch()
        number = self._fill(batch, lines, first_line)
        if self.stream is not None and self._ended is None and batch.problem is None:
            self._add_delta(batch, self.stream, None if first_line is None else number)
        if self._blank and number is not None and self._ended is None:
            # Blank lines at the end of the batch need an event, or they would be reported as missing.
            self._add_line(
                batch, [(_Part("turn_line", {"line": ""}), None)], _key("", number, named=False), number
            )
        return batch

    def _fill(self, batch: LineBatch, lines: Iterable[str], first_line: int | None) -> int | None:
        """Add lines to the batch; returns the number of the last line if it is blank."""
        unnumbered = self._state.highest_line
        number: int | None = None
        for position, line in enumerate(lines):
            text = line.strip()
            if not text:
                if first_line is not None:
                    self._blank += 1
                    number = first_line + position
                continue
            number = unnumbered + 1 if first_line is None else first_line + position
            try:
                read = self._read(text, None if first_line is None else number)
            except ValueError as error:
                shown = position + 1 if first_line is None else number
                batch.problem = InvalidLine(shown, str(error), batch.accepted, batch.blocks)
                return number - 1
            if read.fragment is not None and self._take_fragment(read.fragment, number, first_line):
                batch.accepted += 1
                continue
            unnumbered = number
            report = apply_denials(read.report, self._denied) if read.report is not None else None
            if read.finishes_block:
                self.stream = None
            if not self._add_line(batch, read.parts, read.key, number):
                batch.problem = TurnEnded(
                    self._state.turn_id, self._ended or "", batch.accepted, batch.blocks
                )
                if report is not None and self._state.has_ended:
                    batch.report = report  # not stored as a line, but it may correct the ending
                return None
            batch.accepted += 1
            if report is not None and not self._state.has_ended:
                self._add_report(batch, report)
        return number

    def _read(self, text: str, number: int | None) -> _ReadLine:
        try:
            parsed = parse_object(read_line(text))
        except ValueError:
            if not self._keep_output:
                raise
            output = _Part("output", {"stream": "stdout", "text": text})
            return _ReadLine([(output, None)], _key(text, number, named=False))
        key = _key(text, number, named=parsed.uuid is not None)
        parts = list(_parts(parsed))
        if f"{key}-000" not in self._state.seen:
            parts += [(part, None) for part in self._wait_parts(parsed)]
        return _ReadLine(
            parts,
            key,
            parsed.report,
            parsed.fragment,
            finishes_block=bool(parsed.blocks) and parsed.parent_tool_use_id is None,
        )

    def _wait_parts(self, parsed: ParsedLine) -> list[_Part]:
        """The start of a wait for the user, or the ends of those that this line shows to be over."""
        change = parsed.wait
        if change is not None and change.reason is not None:
            wait = Wait(f"{REQUEST}{change.id}", change.reason, self._now, detail=change.detail)
            self._requests[wait.call_id] = wait
            fields = {"reason": wait.reason, "detail": wait.detail}
            return [_Part("waiting_started", fields, call_id=wait.call_id)]
        over = [f"{REQUEST}{change.id}"] if change is not None else self._answered(parsed)
        waits = [self._requests.pop(call_id) for call_id in over if call_id in self._requests]
        return [
            _Part(
                "waiting_ended",
                {"reason": wait.reason, "duration_ms": max(0, self._now - (wait.since or self._now))},
                call_id=wait.call_id,
            )
            for wait in waits
        ]

    def _answered(self, parsed: ParsedLine) -> list[str]:
        """The requests that have been answered if the agent prints this line.

        A model is called again after all of its tools. The result of a tool shows it for a single request.
        """
        if parsed.parent_tool_use_id is not None or not (parsed.blocks or parsed.report):
            return []
        is_of_tool = all(block.kind is BlockKind.TOOL_RESULT for block in parsed.blocks)
        if parsed.report is None and is_of_tool and len(self._requests) > 1:
            return []
        return list(self._requests)

    def _take_fragment(self, fragment: StreamFragment, number: int, first_line: int | None) -> bool:
        """Add a fragment to the stream; False if the turn ended before it.

        Like a blank line it has no event of its own: its number is that of the next event.
        """
        if first_line is not None and number in self._state.lines:
            return True
        if self._ended is not None:
            return False
        if first_line is not None:
            self._blank += 1
        if fragment.starts_block:
            self.stream = None if fragment.kind is None else TextStream(fragment.kind)
        if self.stream is not None and fragment.kind is self.stream.kind:
            self.stream = self.stream.plus(fragment.text)
        return True

    def _add_delta(self, batch: LineBatch, stream: TextStream, number: int | None) -> None:
        """Add the text that was streamed since the last delta, under the number of the last line, if any."""
        self.stream, text = stream.release(self._maker.redact)
        if not text:
            return
        turn_id, key = self._state.turn_id, _key(text, number, named=False)
        if number is None:
            number = self.lines.highest + 1
        after, self._blank = number - max(1, self._blank), 0
        fixed = {"kind": stream.kind.value, "line_number": number, "after_line": after}
        if not stream.released:
            fixed["first"] = True
        batch.events.append(
            self._maker.event(
                turn_id, f"{turn_id}-{number:08d}-delta-{key}", DELTA, self._now, {"text": text}, fixed=fixed
            )
        )
        self.lines = with_line(self.lines, fixed)

    def _add_line(
        self, batch: LineBatch, parts: list[tuple[_Part, str | None]], key: str, number: int
    ) -> bool:
        """Add the new events of a line; False if the turn ended before it."""
        named = [f"{key}-{item:03d}" for item in range(len(parts))]
        new = [
            (item, name)
            for item, name in enumerate(named)
            if name not in self._state.seen and name not in self._names
        ]
        if new and self._ended is not None:
            return False
        after, self._blank = number - 1 - self._blank, 0
        self.lines = with_line(self.lines, {"line_number": number, "after_line": after})
        for item, name in new:
            part, parent = parts[item]
            if part.repeats_start and self._has_use(part.call_id):
                continue
            self._names.add(name)
            batch.events.append(self._event(part, parent, key, (number, after), item))
            if isinstance(denied := part.parse_object.get("denied"), str) and part.type == "block":
                self._denied.add(denied)
            if part.call_id is not None:
                self._uses.add(part.call_id)
        return True

    def _has_use(self, call_id: str | None) -> bool:
        """Whether the start of this call is stored. The latest blocks are searched first."""
        return call_id in self._uses or any(
            block.kind == BlockKind.TOOL_USE and block.content["tool_use_id"] == call_id
            for block in reversed(self._state.blocks)
        )

    def _add_report(self, batch: LineBatch, report: AgentReport) -> None:
        batch.report = pick_worse(batch.report, report)
        if not self._defer_end:
            self._ended = wire_status_of(judge(TurnEvidence(report)).status)

    def _event(self, part: _Part, parent: str | None, key: str, place: tuple[int, int], item: int) -> Event:
        turn_id, (number, after) = self._state.turn_id, place
        return self._maker.event(
            turn_id,
            f"{turn_id}-{number:08d}-{item:03d}-{key}",
            part.type,
            self._now,
            part.parse_object,
            fixed={**part.fixed, "line_number": number, "after_line": after, "item": item},
            call_id=part.call_id,
            parent_call_id=parent,
        )


def _key(text: str, number: int | None, *, named: bool) -> str:
    if number is None and not named:
        return secrets.token_hex(8)
    shown = "" if number is None else str(number)
    return blake2b(f"{shown}\0{text}".encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _parts(parsed: ParsedLine) -> Iterator[tuple[_Part, str | None]]:
    """The events of a line, each with the call in which it was printed."""
    parent = parsed.parent_tool_use_id
    for block in parsed.blocks:
        yield _block_part(block), parent
    if parsed.rest is not None:
        yield _Part("turn_line", {"line": parsed.rest}), parent
    if parsed.report is not None:
        yield _report_part(parsed.report), parent


def _block_part(block: BlockContent) -> _Part:
    return _Part("block", block.fields, {"kind": block.kind.value}, block.tool_use_id, block.repeats_start)


def _report_part(report: AgentReport) -> _Part:
    reason = {} if report.reason is None else {"error_message": report.reason}
    return _Part("turn_result", {**report.fields, **reason}, {"reported": report.reported.value})
