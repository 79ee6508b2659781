"""The calls of a run as a tree, each below its caller."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longwatch.model.calls import Call

TOP = -1  # stands for the caller of the calls at the top
INNER_KINDS = frozenset({"tool", "model"})  # of calls inside an agent's span

Subject = tuple[str, str, str | None]  # what a call and its retries have in common


@dataclass(frozen=True, slots=True)
class CallTree:
    """The calls of a run, each after its caller and in the order they began. Indexes name calls."""

    calls: Sequence[Call]
    callers: Sequence[int]  # of each call; TOP without one
    children: Mapping[int, Sequence[int]]  # of each call that has some, and of TOP

    @classmethod
    def of(cls, calls: Iterable[Call]) -> CallTree:
        """Every call exactly once. Of calls that name each other as callers, the first is at the top."""
        ordered = sorted(
            calls, key=lambda call: (call.started_at, call.kind in INNER_KINDS, call.first.order)
        )
        below = _children_of(ordered)
        tree = cls([], [], {})
        seen: set[str] = set()
        tree._add(below.get(None, ()), below, seen)
        for call in ordered:
            if call.call_id not in seen:
                tree._add([call], below, seen)
        return tree

    def above(self, index: int) -> list[int]:
        """The callers of a call, from the top."""
        found: list[int] = []
        while (index := self.callers[index]) != TOP:
            found.append(index)
        return found[::-1]

    def tries(self, siblings: Iterable[int]) -> dict[int, int]:
        """Which try each of these calls was, if the same call had failed before one of them began."""
        numbers: dict[int, int] = {}
        last: dict[Subject, int] = {}
        for index in siblings:
            call = self.calls[index]
            subject = subject_of(call)
            earlier = last.get(subject)
            last[subject] = index
            before = self.calls[earlier].end if earlier is not None else None
            if earlier is None or before is None or before.status != "failed":
                continue
            if before.at <= call.started_at:
                numbers[index] = numbers.setdefault(earlier, 1) + 1
        return numbers

    def _add(self, roots: Sequence[Call], below: Mapping[str | None, Sequence[Call]], seen: set[str]) -> None:
        # A stack of its own rather than recursion: a chain of calls can be deeper than Python's stack.
        calls, callers, children = self.calls, self.callers, self.children
        assert isinstance(calls, list)
        assert isinstance(callers, list)
        assert isinstance(children, dict)
        todo = [(call, TOP) for call in reversed(roots)]
        while todo:
            call, caller = todo.pop()
            if call.call_id in seen:
                continue
            seen.add(call.call_id)
            index = len(calls)
            calls.append(call)
            callers.append(caller)
            children.setdefault(caller, []).append(index)
            todo += [(child, index) for child in reversed(below.get(call.call_id, ()))]


def subject_of(call: Call) -> Subject:
    """Equal for a call and its retries. A call with other arguments repeats nothing, it is the next one."""
    return call.kind, call.name, call.input_preview


def _children_of(ordered: Sequence[Call]) -> dict[str | None, list[Call]]:
    """Call ID -> the calls below it, in order; those without a caller are below None."""
    call_ids = {call.call_id for call in ordered}
    spans: dict[str, list[Call]] = {}  # agent name -> its spans, in order
    for call in ordered:
        if call.kind not in INNER_KINDS:
            spans.setdefault(call.agent_name or call.name, []).append(call)
    children: dict[str | None, list[Call]] = {}
    for call in ordered:
        parent = call.parent_call_id if call.parent_call_id in call_ids else None
        if parent is None and call.kind in INNER_KINDS and call.agent_name in spans:
            parent = _span_around(call, spans[call.agent_name]).call_id
        children.setdefault(parent, []).append(call)
    return children


def _span_around(call: Call, spans: Sequence[Call]) -> Call:
    """The agent's span that had begun when the tool was called: other producers name the agent only."""
    begun = bisect_right(spans, call.started_at, key=lambda span: span.started_at)
    return spans[max(0, begun - 1)]
