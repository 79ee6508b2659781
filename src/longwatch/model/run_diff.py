"""Two runs side by side: their calls aligned by structure, and what differs in each.

Siblings are aligned by kind, name and agent, in their order, so that as few calls as possible are on one side
only; in lists of more than `WINDOW` calls, window by window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from json import dumps
from typing import Literal

from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from longwatch.model.event import Event

WINDOW = 256  # siblings that are aligned at once; the cost grows with its square
INPUTS = ("input", "parameters", "arguments", "args", "messages", "prompt")  # fields of events of calls
OUTPUTS = ("output", "result", "response")

CallDifference = Literal["missing", "added", "status", "error", "arguments", "result"]
STRUCTURAL: frozenset[CallDifference] = frozenset({"missing", "added", "status"})
Digest = bytes
Contents = Mapping[str, tuple[Digest | None, Digest | None]]  # event id -> its arguments and its result
Pair = tuple["CallNode | None", "CallNode | None"]


@dataclass(frozen=True, slots=True)
class CallNode:
    """A call with the calls below it, and what it was called with and returned."""

    call: Call
    arguments: Digest | None = None
    result: Digest | None = None
    children: list[CallNode] = field(default_factory=list)

    @property
    def subject(self) -> tuple[str, str, str]:
        """What it is aligned by."""
        return self.call.kind, self.call.name, self.call.agent_name or ""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A call of one run beside the corresponding one of the other. `differences`: empty if they are alike."""

    depth: int
    one: Call | None
    other: Call | None
    differences: tuple[CallDifference, ...]

    @property
    def is_structural(self) -> bool:
        """Whether more differs than what a call was passed and returned."""
        return bool(STRUCTURAL.intersection(self.differences))


def digest_contents(events: Iterable[Event]) -> dict[str, tuple[Digest | None, Digest | None]]:
    """The arguments and results in these events, as digests: those of a large run fit into memory."""
    found = {}
    for event in events:
        contents = _digest(event.payload, INPUTS), _digest(event.payload, OUTPUTS)
        if contents != (None, None):
            found[event.event_id] = contents
    return found


def _digest(payload: Mapping[str, object], names: Sequence[str]) -> Digest | None:
    values = {name: payload[name] for name in names if payload.get(name) is not None}
    if not values:
        return None
    return blake2b(dumps(values, sort_keys=True, default=str).encode(), digest_size=8).digest()


def call_forest(calls: Iterable[Call], contents: Contents) -> list[CallNode]:
    """The calls without a caller, each with those below it."""
    tree = CallTree.of(calls)
    nodes = [_node(call, contents) for call in tree.calls]
    for caller, below in tree.children.items():
        if caller != TOP:
            nodes[caller].children.extend(nodes[index] for index in below)
    return [nodes[index] for index in tree.children.get(TOP, ())]


def _node(call: Call, contents: Contents) -> CallNode:
    start, end = (
        contents.get(mark.order[3], (None, None)) if mark else (None, None) for mark in (call.start, call.end)
    )
    return CallNode(call, start[0] or end[0], end[1] or start[1])


def diff_calls(one: Sequence[CallNode], other: Sequence[CallNode]) -> list[DiffRow]:
    """Every call of both runs once, each below its caller."""
    rows: list[DiffRow] = []
    # A stack of its own rather than recursion: a chain of calls can be deeper than Python's stack.
    todo: list[tuple[int, Pair]] = [(0, pair) for pair in reversed(align(one, other))]
    while todo:
        depth, (left, right) = todo.pop()
        rows.append(
            DiffRow(
                depth, left.call if left else None, right.call if right else None, _differences(left, right)
            )
        )
        below = align(left.children if left else [], right.children if right else [])
        todo += [(depth + 1, pair) for pair in reversed(below)]
    return rows


def _differences(one: CallNode | None, other: CallNode | None) -> tuple[CallDifference, ...]:
    if one is None or other is None:
        return ("added",) if one is None else ("missing",)
    found: list[CallDifference] = []
    if one.call.status != other.call.status:
        found.append("status")
    if _error(one.call) != _error(other.call):
        found.append("error")
    if one.arguments != other.arguments:
        found.append("arguments")
    if one.result != other.result:
        found.append("result")
    return tuple(found)


def _error(call: Call) -> str | None:
    return call.end.error if call.end else None


def align(one: Sequence[CallNode], other: Sequence[CallNode]) -> list[Pair]:
    """Pairs of siblings in order; a call without a counterpart is alone."""
    pairs: list[Pair] = []
    left = right = 0
    while left < len(one) or right < len(other):
        mine, theirs = one[left : left + WINDOW], other[right : right + WINDOW]
        matches = longest_common([node.subject for node in mine], [node.subject for node in theirs])
        is_last = left + WINDOW >= len(one) and right + WINDOW >= len(other)
        if not is_last and matches and max(matches[-1]) >= WINDOW // 2:
            end = matches[-1][0] + 1, matches[-1][1] + 1  # the next window aligns the rest
        else:
            end = len(mine), len(theirs)
        pairs += _with_gaps(mine[: end[0]], theirs[: end[1]], matches)
        left, right = left + end[0], right + end[1]
    return pairs


def _with_gaps(
    one: Sequence[CallNode], other: Sequence[CallNode], matches: Sequence[tuple[int, int]]
) -> list[Pair]:
    pairs: list[Pair] = []
    left = right = 0
    for mine, theirs in matches:
        pairs += [(node, None) for node in one[left:mine]]
        pairs += [(None, node) for node in other[right:theirs]]
        pairs.append((one[mine], other[theirs]))
        left, right = mine + 1, theirs + 1
    pairs += [(node, None) for node in one[left:]]
    pairs += [(None, node) for node in other[right:]]
    return pairs


def longest_common(one: Sequence[object], other: Sequence[object]) -> list[tuple[int, int]]:
    """The positions of a longest common subsequence."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    if same == min(len(one), len(other)):
        return [(at, at) for at in range(same)]
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]  # of those of the ends of both
    for left in range(len(one) - 1, same - 1, -1):
        row, below = lengths[left], lengths[left + 1]
        for right in range(len(other) - 1, same - 1, -1):
            row[right] = (
                below[right + 1] + 1 if one[left] == other[right] else max(below[right], row[right + 1])
            )
    pairs = [(at, at) for at in range(same)]
    left = right = same
    while left < len(one) and right < len(other):
        if one[left] == other[right]:
            pairs.append((left, right))
            left, right = left + 1, right + 1
        elif lengths[left + 1][right] >= lengths[left][right + 1]:
            left += 1
        else:
            right += 1
    return pairs


def shorten_diff(rows: Sequence[DiffRow], most: int) -> list[int]:
    """The numbers of the rows to show: all, or of more than `most` those that differ and their callers."""
    if len(rows) <= most:
        return list(range(len(rows)))
    shown: list[int] = []
    path: list[int] = []  # the callers of a row, then the row
    for number, row in enumerate(rows):
        del path[row.depth :]
        path.append(number)
        if row.differences:
            new = [each for each in path if not shown or each > shown[-1]]
            if len(shown) + len(new) > most:
                break
            shown += new
    return shown
