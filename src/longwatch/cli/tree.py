"""The calls of a run as a tree: agents, the tools they called, and which calls were tried again."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from longwatch.model.run import Call

DEEPEST = 40  # levels whose rails are kept; no screen draws more


@dataclass(frozen=True, slots=True)
class Branch:
    """One call in its place in the tree."""

    call: Call
    depth: int
    rails: tuple[bool, ...]  # for each level above, as far as drawn: whether more siblings follow there
    is_last: bool
    attempt: int | None  # 1, 2, … if the call was tried more than once
    has_children: bool


def branches(calls: Iterable[Call]) -> list[Branch]:
    """Every call exactly once, each after its parent and in the order they began."""
    ordered = sorted(calls, key=lambda call: (call.started_at, call.kind == "tool", call.first.order))
    children = _children(ordered)
    found: list[Branch] = []
    seen: set[str] = set()
    # Calls that name each other as parents hang from no root: they follow as roots of their own.
    roots = children.get(None, [])
    _walk(roots, children, seen, found)
    for call in ordered:
        if call.call_id not in seen:
            _walk([call], children, seen, found)
    return found


def liveliest(found: Sequence[Branch], room: int, size: Callable[[Branch], int]) -> list[Branch]:
    """As many as there is room for, in their order: calls under way and all above them, then the latest."""
    chosen: set[int] = set()
    for index in heapq.nlargest(room, range(len(found)), key=lambda index: _liveliness(found[index].call)):
        needed = [each for each in _with_those_above(found, index) if each not in chosen]
        taken = sum(size(found[each]) for each in needed)
        if taken <= room:
            chosen.update(needed)
            room -= taken
    return [found[index] for index in sorted(chosen)]


def _liveliness(call: Call) -> tuple[bool, int]:
    return (True, call.started_at) if call.end is None else (False, call.end.at)


def _with_those_above(found: Sequence[Branch], index: int) -> list[int]:
    path, depth = [index], found[index].depth
    while depth > 0 and index > 0:
        index -= 1
        if found[index].depth < depth:
            path.append(index)
            depth = found[index].depth
    return path


def _walk(
    roots: Sequence[Call],
    children: Mapping[str | None, Sequence[Call]],
    seen: set[str],
    found: list[Branch],
) -> None:
    # A stack of its own rather than recursion: a chain of calls can be deeper than Python's stack.
    tries = _attempts(roots)
    todo: list[tuple[Call, int, tuple[bool, ...], bool, int | None]] = [
        (call, 0, (), call is roots[-1], tries.get(call.call_id)) for call in reversed(roots)
    ]
    while todo:
        call, depth, rails, is_last, attempt = todo.pop()
        if call.call_id in seen:
            continue
        seen.add(call.call_id)
        below = [child for child in children.get(call.call_id, ()) if child.call_id not in seen]
        found.append(Branch(call, depth, rails, is_last, attempt, bool(below)))
        tries = _attempts(below)
        inner = (*rails, not is_last) if len(rails) < DEEPEST else rails
        for child in reversed(below):
            todo.append((child, depth + 1, inner, child is below[-1], tries.get(child.call_id)))


def _children(ordered: Sequence[Call]) -> dict[str | None, list[Call]]:
    known = {call.call_id for call in ordered}
    spans: dict[str, list[Call]] = {}  # agent name -> its spans, in order
    for call in ordered:
        if call.kind != "tool":
            spans.setdefault(call.agent_name or call.name, []).append(call)
    children: dict[str | None, list[Call]] = {}
    for call in ordered:
        parent = call.parent_call_id if call.parent_call_id in known else None
        if parent is None and call.kind == "tool" and call.agent_name in spans:
            parent = _span_around(call, spans[call.agent_name]).call_id
        children.setdefault(parent, []).append(call)
    return children


def _span_around(call: Call, spans: Sequence[Call]) -> Call:
    """The agent's span that had begun when the tool was called: other producers name the agent only."""
    begun = bisect_right(spans, call.started_at, key=lambda span: span.started_at)
    return spans[max(0, begun - 1)]


def _attempts(siblings: Sequence[Call]) -> dict[str, int]:
    """Call id -> which try it was. A call is tried again if the same one failed before it began."""
    tries: dict[str, int] = {}
    last: dict[tuple[str, str], Call] = {}
    for call in siblings:
        key = (call.kind, call.name)
        before = last.get(key)
        last[key] = call
        if before is None or before.end is None or before.status != "failed":
            continue
        if before.end.at <= call.started_at:
            tries[call.call_id] = tries.setdefault(before.call_id, 1) + 1
    return tries
