"""The outline of a run: its calls as rows of a tree, of which those that repeat or do not fit are folded.

Every call that the options select is in exactly one row: in a row of its own, in a row of several calls, or
among the calls below such a row, which it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from longwatch.model.call_paths import has_failed
from longwatch.model.call_selection import OutlineOptions, Selection
from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from longwatch.model.failures import error_group, first_line

MIN_REPEATED = 4  # siblings of one kind, name and agent that become one row
MAX_RAILS = 40  # levels whose rails are drawn
MAX_LEVELS = 40  # of calls that are always shown; of a longer chain the middle is one row
MIN_SHARE = 5  # lines for the calls of a caller, of which not all fit


class RowKind(StrEnum):
    """What the calls of a row have in common."""

    CALL = "call"  # it is one call
    REPEATED = "repeated"  # siblings of one kind, name and agent
    OTHERS = "others"  # the siblings for which there is no line
    CHAIN = "chain"  # each is below the one before it


@dataclass(frozen=True, slots=True)
class CallSpan:
    """The time of some calls, as far as they have ended."""

    start: int
    end: float | None  # of those that ended
    unfinished: int  # how many have no end

    @classmethod
    def of(cls, calls: Sequence[Call]) -> CallSpan:
        """The span of at least one call."""
        ends = [call.started_at + (call.duration_ms or 0) for call in calls if call.end is not None]
        start = min(call.started_at for call in calls)
        return cls(start, max(ends, default=None), len(calls) - len(ends))

    def until(self, now_ms: float) -> float:
        """The end, if those without one last until then."""
        if self.end is None:
            return now_ms
        return max(self.end, now_ms) if self.unfinished else self.end


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """One line of the outline, with all that is shown of its calls."""

    kind: RowKind
    first: Call
    count: int  # of its calls
    failed: int  # how many of them failed
    span: CallSpan
    p50_ms: (
        float | None
    )  # of calls that repeat each other; of an even number, the lower one of the middle two
    lines: int  # as `height` has counted them
    depth: int  # in the tree of rows
    rails: tuple[bool, ...]  # for each level above, as far as drawn: whether more rows follow there
    is_last: bool  # of its siblings
    has_rows_below: bool
    below: int  # calls below these that have no row
    failed_below: int  # of those, how many failed
    attempt: int | None = None  # 1, 2, … if the call was tried more than once
    leads_to_failure: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """The rows, and what they leave out."""

    rows: Sequence[OutlineRow]
    folded: int  # calls without a row of their own
    left_out: int  # calls that the options do not select, nor a call below them
    span: CallSpan | None  # of all calls; None without any


Height = Callable[[Call], int]
Rank = tuple[bool, float, int]  # shown first: failed and open calls, then the longest, then the newest


def outline(
    tree: CallTree,
    options: OutlineOptions | None = None,
    *,
    failing: Collection[int] = (),
    always: Iterable[int] = (),
    height: Height = lambda _: 1,
) -> Outline:
    """The outline of these calls. Calls that lead to the failure have rows of their own, and so has `always`.

    Level by level, callers are expanded as long as there are lines. `height` is the number of lines of a row
    that shows this call, or repeated calls that all failed as it did.
    """
    options = options or OutlineOptions()
    selection = Selection(tree, options)
    # A failing call that the options leave out is not shown.
    shown = {index for index in failing if selection.visible[index]}
    for index in always:
        if selection.visible[index]:
            shown |= {index, *tree.above(index)}
    plan = _Plan(tree, options, selection, frozenset(shown), height)
    plan.expand()
    rows = list(_rows(tree, plan, selection, set(failing)))
    selected = sum(selection.visible)
    folded = selected - sum(row.kind is RowKind.CALL for row in rows)
    span = CallSpan.of(tree.calls) if tree.calls else None
    return Outline(rows, folded, len(tree.calls) - selected, span)


@dataclass(frozen=True, slots=True)
class _Item:
    """A row to be: one call, some siblings, or a chain."""

    kind: RowKind
    members: Sequence[int]
    lines: int = 1
    rank: Rank = (True, 0, 0)
    is_required: bool = False  # it is always shown

    @property
    def caller(self) -> int | None:
        """The call whose calls may have rows below this one."""
        return self.members[-1] if self.kind in (RowKind.CALL, RowKind.CHAIN) else None

    @property
    def highest(self) -> Sequence[int]:
        """The members that are not below another one."""
        return self.members[:1] if self.kind is RowKind.CHAIN else self.members


@dataclass(frozen=True, slots=True)
class _Listing:
    """The rows below a caller."""

    caller: int
    items: Sequence[_Item]

    @property
    def is_required(self) -> bool:
        return any(item.is_required for item in self.items)

    @property
    def optional_lines(self) -> int:
        """The lines of calls that are not always shown."""
        return sum(item.lines for item in self.items if not item.is_required)

    def reduced(self, share: float, *, has_rest: bool) -> Sequence[_Item]:
        """The required ones, as many of the others as fit this number of lines, and one row for the rest."""
        if self.optional_lines <= share:
            return self.items
        kept = {at for at, item in enumerate(self.items) if item.is_required}
        room = share - 1  # for the rest
        for at in sorted(range(len(self.items)), key=lambda at: self.items[at].rank):
            if at not in kept and self.items[at].lines <= room:
                kept.add(at)
                room -= self.items[at].lines
        found = [item for at, item in enumerate(self.items) if at in kept]
        rest = [item for at, item in enumerate(self.items) if at not in kept]
        if not has_rest:
            return found
        if len(rest) == 1 and rest[0].lines == 1:
            return self.items
        return [*found, _Item(RowKind.OTHERS, [index for item in rest for index in item.members])]


class _Plan:
    """Decides which callers are expanded, and which rows the calls of each have."""

    def __init__(
        self, tree: CallTree, options: OutlineOptions, selection: Selection, shown: Set[int], height: Height
    ) -> None:
        self.items: dict[int, Sequence[_Item]] = {}  # caller -> its rows
        self._tree = tree
        self._options = options
        self._selection = selection
        self._height = height
        self._folds = not options.full and options.last is None
        self._room = inf if options.full or options.lines is None else options.lines  # lines left
        most_levels = MAX_LEVELS if self._room == inf else min(MAX_LEVELS, int(self._room) // 2)
        self._chains = {} if options.full else chains_of(tree, shown, max(2, most_levels))
        inside = {index for chain in self._chains.values() for index in chain[1:]}
        self._shown = shown - inside  # with a row each, or with that of the chain that they begin
        self._reserved = sum(1 if each in self._chains else self._call_height(each) for each in self._shown)

    def expand(self) -> None:
        """Decide level by level."""
        callers, level = [TOP], 0
        while callers:
            is_beyond = self._options.depth is not None and level >= self._options.depth
            wanted = [self._listing(caller) for caller in callers]
            callers = []
            for listing, share in self._allot(wanted, level, is_beyond=is_beyond):
                items = listing.reduced(share, has_rest=share > 0 or level == 0)
                self._room -= sum(item.lines for item in items)
                self._reserved -= sum(item.lines for item in items if item.is_required)
                self.items[listing.caller] = items
                below = (item.caller for item in items if item.caller is not None)
                callers += [caller for caller in below if self._tree.children.get(caller)]
            level += 1

    def _allot(
        self, listings: Sequence[_Listing], level: int, *, is_beyond: bool
    ) -> Iterator[tuple[_Listing, float]]:
        """The callers to expand, and the lines that each may use for calls that are not always shown."""
        required = [each for each in listings if each.is_required or level == 0]
        if is_beyond:
            yield from ((listing, 0) for listing in required)
            return
        others = (each for each in listings if not each.is_required and level > 0)
        chosen, least = required, sum(min(each.optional_lines, MIN_SHARE) for each in required)
        for listing in sorted(others, key=self._longest_caller):
            least += min(listing.optional_lines, MIN_SHARE)
            if least > self._free:
                break
            chosen.append(listing)
        chosen.sort(key=lambda listing: listing.optional_lines)
        for at, listing in enumerate(chosen):
            yield listing, max(0, self._free // (len(chosen) - at) if self._free < inf else inf)

    @property
    def _free(self) -> float:
        """Lines that are neither used nor reserved for calls that are always shown."""
        return self._room - self._reserved

    def _listing(self, caller: int) -> _Listing:
        """The rows of the calls of this caller, if there were lines for all."""
        below = [each for each in self._tree.children.get(caller, ()) if self._selection.visible[each]]
        alike: dict[tuple[str, ...], list[int]] = {}
        for index in below if self._folds else ():
            if index not in self._shown and (key := self._key(index)) is not None:
                alike.setdefault(key, []).append(index)
        repeated = {members[0]: members for members in alike.values() if len(members) >= MIN_REPEATED}
        folded = {index for members in repeated.values() for index in members}
        items = []
        for index in below:
            if index in repeated:
                items.append(self._repeated(repeated[index]))
            elif index not in folded:
                items.append(self._item(index))
        return _Listing(caller, items)

    def _repeated(self, members: Sequence[int]) -> _Item:
        all_failed = all(has_failed(self._tree.calls[index]) for index in members)
        lines = self._call_height(members[0]) if all_failed else 1  # with an error, if it is that of all
        return _Item(RowKind.REPEATED, members, lines=lines, rank=min(map(self._rank, members)))

    def _item(self, index: int) -> _Item:
        rank, is_required = self._rank(index), index in self._shown
        if index in self._chains:
            return _Item(RowKind.CHAIN, self._chains[index], rank=rank, is_required=is_required)
        lines = self._call_height(index)
        return _Item(RowKind.CALL, (index,), lines=lines, rank=rank, is_required=is_required)

    def _key(self, index: int) -> tuple[str, ...] | None:
        """Equal for calls that repeat each other: with `errors`, those that failed alike, with none below."""
        call = self._tree.calls[index]
        subject = call.kind, call.name, call.agent_name or ""
        if not self._options.errors:
            return subject
        if self._selection.sizes[index] > 1:
            return None
        return (*subject, error_group(first_line(call.end.error or "" if call.end else "")))

    def _call_height(self, index: int) -> int:
        return self._height(self._tree.calls[index])

    def _rank(self, index: int) -> Rank:
        call = self._tree.calls[index]
        is_plain = call.end is not None and not has_failed(call)
        return is_plain, -(call.duration_ms or 0), -index

    def _longest_caller(self, listing: _Listing) -> Rank:
        return self._rank(listing.caller)


def chains_of(tree: CallTree, shown: Set[int], levels: int) -> dict[int, Sequence[int]]:
    """The middle of each chain of these calls that is longer than this, by its first call."""
    only: dict[int, int] = {}  # caller -> the shown call below it; TOP if there are several
    for index in sorted(shown):
        caller = tree.callers[index]
        only[caller] = TOP if caller in only else index
    chains: dict[int, Sequence[int]] = {}
    for first in sorted(shown):
        caller = tree.callers[first]
        if caller != TOP and only[caller] == first:
            continue  # within a chain
        chain = [first]
        while (index := only.get(chain[-1], TOP)) != TOP:
            chain.append(index)
        if len(chain) > levels:
            begin = levels // 3
            middle = chain[begin : len(chain) - (levels - begin - 1)]
            chains[middle[0]] = middle
    return chains


def _rows(
    tree: CallTree, plan: _Plan, selection: Selection, failing: Collection[int]
) -> Iterator[OutlineRow]:
    """The rows, each after that of its caller."""
    no_rails: tuple[bool, ...] = ()
    todo = _siblings(tree, plan, TOP, 0, no_rails)
    while todo:
        item, depth, rails, is_last, attempt = todo.pop()
        items = plan.items.get(item.caller, ()) if item.caller is not None else ()
        listed = [index for each in items for index in each.highest]
        own = sum(has_failed(tree.calls[index]) and selection.visible[index] for index in item.members)
        calls = [tree.calls[index] for index in item.members]
        yield OutlineRow(
            kind=item.kind,
            first=calls[0],
            count=len(calls),
            failed=sum(map(has_failed, calls)),
            span=CallSpan.of(calls),
            p50_ms=_p50_ms(calls) if item.kind is RowKind.REPEATED else None,
            lines=item.lines,
            depth=depth,
            rails=rails,
            is_last=is_last,
            has_rows_below=bool(items),
            below=_total(selection.sizes, item.highest) - len(item.members) - _total(selection.sizes, listed),
            failed_below=_total(selection.failed, item.highest) - own - _total(selection.failed, listed),
            attempt=attempt if item.kind is RowKind.CALL else None,
            leads_to_failure=item.kind is RowKind.CALL and item.members[0] in failing,
        )
        if items and item.caller is not None:
            inner = (*rails, not is_last) if len(rails) < MAX_RAILS else rails
            todo += _siblings(tree, plan, item.caller, depth + 1, inner)


def _p50_ms(calls: Iterable[Call]) -> float | None:
    durations = sorted(call.duration_ms for call in calls if call.duration_ms is not None)
    return durations[(len(durations) - 1) // 2] if durations else None


def _siblings(
    tree: CallTree, plan: _Plan, caller: int, depth: int, rails: tuple[bool, ...]
) -> list[tuple[_Item, int, tuple[bool, ...], bool, int | None]]:
    items = plan.items.get(caller, ())
    tries = tree.tries(tree.children.get(caller, ()))
    return [(each, depth, rails, each is items[-1], tries.get(each.members[0])) for each in reversed(items)]


def _total(numbers: Sequence[int], indexes: Iterable[int]) -> int:
    return sum(numbers[index] for index in indexes)
