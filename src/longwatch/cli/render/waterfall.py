"""The waterfall of a run: its calls as a tree, each with a bar that shows when it happened."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from longwatch.cli.render.styles import Segment, StyledLine, call_look
from longwatch.cli.render.text import clean, columns_of, count_text, fit, pad
from longwatch.cli.render.times import duration_text
from longwatch.cli.render.usage import cost_text
from longwatch.model.calls import ABANDONED
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Call, Run

_LEFT, _RIGHT, _FULL = "╸", "╺", "━"


@dataclass(frozen=True, slots=True)
class Scale:
    """An interval of time drawn over some columns."""

    start_ms: float
    end_ms: float
    columns: int

    def bar(self, start_ms: float, end_ms: float) -> str:
        """The bar for this part, as wide as the scale; at least half a column, so that nothing vanishes."""
        halves = self.columns * 2
        first = min(self._half(start_ms), halves - 1)
        last = min(max(self._half(end_ms), first + 1), halves)
        cells = [" "] * self.columns
        for index in range(first // 2, (last + 1) // 2):
            left, right = first <= index * 2, last >= index * 2 + 2
            cells[index] = _FULL if left and right else _LEFT if left else _RIGHT
        return "".join(cells)

    def _half(self, ms: float) -> int:
        length = self.end_ms - self.start_ms
        if length <= 0:
            return 0
        share = min(max((ms - self.start_ms) / length, 0.0), 1.0)
        return round(share * self.columns * 2)


DEEPEST = 40  # levels whose rails are drawn
INNER_KINDS = frozenset({"tool", "model"})  # of calls inside an agent's span
MODEL_SYMBOL = "✦ "  # before the name of a model, which without colour looks like that of a tool


@dataclass(frozen=True, slots=True)
class Branch:
    """One call and its position in the tree."""

    call: Call
    depth: int
    rails: tuple[bool, ...]  # for each level above, as far as drawn: whether more siblings follow there
    is_last: bool
    attempt: int | None  # 1, 2, … if the call was tried more than once
    has_children: bool


def branches(calls: Iterable[Call]) -> list[Branch]:
    """Every call exactly once, each after its parent and in the order they began."""
    ordered = sorted(calls, key=lambda call: (call.started_at, call.kind in INNER_KINDS, call.first.order))
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
    """As many as fit, in their order: open calls with their ancestors, then those that ended last."""
    chosen: set[int] = set()
    for index in heapq.nlargest(room, range(len(found)), key=lambda index: _liveliness(found[index].call)):
        needed = [each for each in _with_ancestors(found, index) if each not in chosen]
        height = sum(size(found[each]) for each in needed)
        if height <= room:
            chosen.update(needed)
            room -= height
    return [found[index] for index in sorted(chosen)]


def _liveliness(call: Call) -> tuple[bool, int]:
    return (True, call.started_at) if call.end is None else (False, call.end.at)


def _with_ancestors(found: Sequence[Branch], index: int) -> list[int]:
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


FREE_COLUMNS = 100  # when the output is not a terminal
MOST_CALLS = 500
NARROW_COLUMNS = 60

_DURATION_COLUMNS = 10  # as in `3 min 05 s`
_LEAST_NAME, _MOST_NAME = 12, 60
_KIND_STYLES: Mapping[str, str] = {"tool": "", "model": "model"}


@dataclass(frozen=True, slots=True)
class ColumnWidths:
    """How the width is shared: name, duration, bar, with one column between them."""

    name: int
    bar: int

    @classmethod
    def for_width(cls, width: int, longest_name: int) -> ColumnWidths:
        """Names get what they need, bars at least a quarter of the width."""
        room = width - _DURATION_COLUMNS - 2
        name = min(max(longest_name, _LEAST_NAME), _MOST_NAME, room - width // 4)
        return cls(name=name, bar=room - name)


def waterfall(
    run: Run,
    *,
    now_ms: int,
    width: int | None,
    most: int | None = MOST_CALLS,
    prices: Prices = NO_PRICES,
) -> tuple[list[StyledLine], int]:
    """The lines of the tree, and how many calls were left out because there are more than `most`."""
    calls = list(run.calls.values())
    shown = branches(calls)
    left_out = max(0, len(shown) - most) if most is not None else 0
    shown = shown[: len(shown) - left_out]
    columns = width or FREE_COLUMNS
    lines = _draw_tree(run, calls, shown, now_ms=now_ms, columns=columns, ticking=False, prices=prices)
    return lines, left_out


def live_waterfall(
    run: Run, *, now_ms: int, width: int, height: int, prices: Prices = NO_PRICES
) -> list[StyledLine]:
    """The tree of an open run in at most `height` lines: open calls show their duration so far.

    If not all calls fit, open ones are shown, then those that ended last.
    """
    calls = list(run.calls.values())
    every = branches(calls)
    shown = every
    if sum(map(_height, every)) + 1 > height:
        shown = liveliest(every, height - 2, _height)
    is_open = run.summary.ending is None
    lines = _draw_tree(run, calls, shown, now_ms=now_ms, columns=width, ticking=is_open, prices=prices)
    if len(shown) < len(every):
        lines.append([Segment(fit(f"… {len(every) - len(shown):,} more calls", width), "dim")])
    return lines[: max(0, height)]


def _height(branch: Branch) -> int:
    return 2 if branch.call.end is not None and branch.call.end.error else 1


def _draw_tree(
    run: Run,
    calls: Sequence[Call],
    shown: Sequence[Branch],
    *,
    now_ms: int,
    columns: int,
    ticking: bool,
    prices: Prices,
) -> list[StyledLine]:
    if not shown:
        return []
    names = [_name(branch.call, prices) for branch in shown]
    longest = max(
        columns_of(_rails(branch, columns) + name + _try(branch)) + 2
        for branch, name in zip(shown, names, strict=True)
    )
    layout = ColumnWidths.for_width(columns, longest)
    scale = _scale(run, calls, now_ms, layout.bar)
    lines: list[StyledLine] = [_axis(layout, scale)]
    for branch, name in zip(shown, names, strict=True):
        rails = _rails(branch, columns)
        status = branch.call.status_in(run_has_ended=run.summary.ending is not None)
        lines.append(_call_line(branch, name, status, rails, layout, scale, ticking=ticking))
        problem = branch.call.end.error if branch.call.end else None
        if problem:
            lines.append(_error_line(branch, problem, columns))
    return lines


def _scale(run: Run, calls: Sequence[Call], now_ms: int, columns: int) -> Scale:
    summary = run.summary
    start = min([summary.started_at, *(call.started_at for call in calls)])
    end = max([summary.last_event_at, *(_end_of(call, summary.last_event_at) for call in calls)])
    if summary.ending is None:
        end = max(end, now_ms)
    return Scale(start, end, columns)


def _end_of(call: Call, otherwise: float) -> float:
    return call.started_at + (call.duration_ms or 0) if call.end else otherwise


def _axis(layout: ColumnWidths, scale: Scale) -> StyledLine:
    length = duration_text(scale.end_ms - scale.start_ms)
    ruler = pad(fit(length, layout.bar - 2), layout.bar - 1, right=True)
    return [Segment(" " * (layout.name + _DURATION_COLUMNS + 2)), Segment(f"0{ruler}", "dim")]


def _call_line(
    branch: Branch, name: str, status: str, rails: str, layout: ColumnWidths, scale: Scale, *, ticking: bool
) -> StyledLine:
    call = branch.call
    symbol, style = call_look(status)
    label = _fitted_label(branch, name, layout.name - columns_of(rails) - 2)
    filled = columns_of(rails) + 2 + columns_of(label)
    duration, duration_style = "…", "dim"
    if call.duration_ms is not None:
        duration = duration_text(call.duration_ms)
    elif status == ABANDONED:
        duration = ABANDONED
    elif ticking and call.end is None:
        duration, duration_style = duration_text(max(0, scale.end_ms - call.started_at)), style
    bar = scale.bar(call.started_at, _end_of(call, scale.end_ms))
    return [
        Segment(rails, "dim"),
        Segment(f"{symbol} ", style),
        Segment(label, _KIND_STYLES.get(call.kind, "strong")),
        Segment(" " * (layout.name - filled)),
        Segment(f" {pad(duration, _DURATION_COLUMNS, right=True)} ", duration_style),
        Segment(bar, style),
    ]


def _error_line(branch: Branch, problem: str, columns: int) -> StyledLine:
    below = "│" if branch.has_children else " "
    rails = _rails(branch, columns, continued=True)
    room = max(8, columns - columns_of(rails) - 2)
    return [Segment(f"{rails}{below} ", "dim"), Segment(fit(clean(problem), room), "bad")]


def _name(call: Call, prices: Prices) -> str:
    """The name; of a model also its tokens, their cost and the time to the first one."""
    name, facts = clean(call.name), call.model
    if call.kind != "model" or facts is None:
        return name
    parts, used, counted = [f"{MODEL_SYMBOL}{name}"], facts.usage, facts.tokens()
    if used is not None and used.total_tokens is not None:
        parts.append(count_text(used.total_tokens, "token"))
    cost = prices.cost(*counted) if counted is not None else None
    if cost is not None:
        parts.append(cost_text(cost))
    if facts.time_to_first_token_ms is not None:
        parts.append(f"first after {duration_text(facts.time_to_first_token_ms)}")
    return ", ".join(parts)


def _fitted_label(branch: Branch, name: str, columns: int) -> str:
    """Cut the name rather than the number of the try."""
    tried = _try(branch)
    if columns_of(tried) > columns // 2 and branch.attempt is not None:
        tried = f" #{branch.attempt}"
    return fit(name, columns - columns_of(tried)) + tried


def _try(branch: Branch) -> str:
    return f" (try {branch.attempt})" if branch.attempt is not None else ""


def _rails(branch: Branch, columns: int, *, continued: bool = False) -> str:
    """The lines that lead to a call from those above it; a very deep one shows its level instead."""
    step = 2 if columns < NARROW_COLUMNS else 3
    if branch.depth * step > columns // 4:
        level = f"{branch.depth}› "
        return " " * len(level) if continued else level
    if not branch.rails:
        return ""
    space = " " * (step - 1)
    upper = "".join(("│" if more else " ") + space for more in branch.rails[1:])
    if continued:
        return upper + (" " if branch.is_last else "│") + space
    return upper + ("└" if branch.is_last else "├") + "─" * (step - 2) + " "
