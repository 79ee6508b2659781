"""A run's calls as lines: the tree on the left, durations beside it, bars that show when each happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longwatch.cli.bars import Scale
from longwatch.cli.styles import Line, Segment, call_look
from longwatch.cli.text import clean, columns_of, fit, pad
from longwatch.cli.times import duration_text
from longwatch.cli.tree import Branch, branches, liveliest
from longwatch.model.calls import ABANDONED
from longwatch.model.run import Call, Run

FREE_COLUMNS = 100  # when the output is no terminal
MOST_CALLS = 500
NARROW_COLUMNS = 60

_DURATION_COLUMNS = 10  # as in `3 min 05 s`
_LEAST_NAME, _MOST_NAME = 12, 60


@dataclass(frozen=True, slots=True)
class Layout:
    """How the width is shared: name, duration, bar, with one column between them."""

    name: int
    bar: int

    @classmethod
    def for_width(cls, width: int, longest_name: int) -> Layout:
        """Names get what they need, bars at least a quarter of the width."""
        room = width - _DURATION_COLUMNS - 2
        name = min(max(longest_name, _LEAST_NAME), _MOST_NAME, room - width // 4)
        return cls(name=name, bar=room - name)


def waterfall(
    run: Run, *, now_ms: int, width: int | None, most: int | None = MOST_CALLS
) -> tuple[list[Line], int]:
    """The lines of the tree, and how many calls were left out because there are more than `most`."""
    calls = list(run.calls.values())
    shown = branches(calls)
    left_out = max(0, len(shown) - most) if most is not None else 0
    shown = shown[: len(shown) - left_out]
    return _drawn(run, calls, shown, now_ms=now_ms, columns=width or FREE_COLUMNS, ticking=False), left_out


def live_waterfall(run: Run, *, now_ms: int, width: int, height: int) -> list[Line]:
    """The tree in at most so many lines, for a run that goes on: open calls show how long they have taken.

    If there is no room for all calls, those under way are shown, then those that ended last.
    """
    calls = list(run.calls.values())
    every = branches(calls)
    shown = every
    if sum(map(_height, every)) + 1 > height:
        shown = liveliest(every, height - 2, _height)
    lines = _drawn(run, calls, shown, now_ms=now_ms, columns=width, ticking=run.summary.ending is None)
    if len(shown) < len(every):
        lines.append([Segment(fit(f"… {len(every) - len(shown):,} more calls", width), "dim")])
    return lines[: max(0, height)]


def _height(branch: Branch) -> int:
    return 2 if branch.call.end is not None and branch.call.end.error else 1


def _drawn(
    run: Run, calls: Sequence[Call], shown: Sequence[Branch], *, now_ms: int, columns: int, ticking: bool
) -> list[Line]:
    if not shown:
        return []
    longest = max(columns_of(_rails(branch, columns) + _label(branch)) + 2 for branch in shown)
    layout = Layout.for_width(columns, longest)
    scale = _scale(run, calls, now_ms, layout.bar)
    lines: list[Line] = [_axis(layout, scale)]
    for branch in shown:
        rails = _rails(branch, columns)
        status = branch.call.status_in(run_has_ended=run.summary.ending is not None)
        lines.append(_call_line(branch, status, rails, layout, scale, ticking=ticking))
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


def _axis(layout: Layout, scale: Scale) -> Line:
    length = duration_text(scale.end_ms - scale.start_ms)
    ruler = pad(fit(length, layout.bar - 2), layout.bar - 1, right=True)
    return [Segment(" " * (layout.name + _DURATION_COLUMNS + 2)), Segment(f"0{ruler}", "dim")]


def _call_line(
    branch: Branch, status: str, rails: str, layout: Layout, scale: Scale, *, ticking: bool
) -> Line:
    call = branch.call
    symbol, style = call_look(status)
    label = _fitted_label(branch, layout.name - columns_of(rails) - 2)
    filled = columns_of(rails) + 2 + columns_of(label)
    duration, tells = "…", "dim"
    if call.duration_ms is not None:
        duration = duration_text(call.duration_ms)
    elif status == ABANDONED:
        duration = ABANDONED
    elif ticking and call.end is None:
        duration, tells = duration_text(max(0, scale.end_ms - call.started_at)), style
    bar = scale.bar(call.started_at, _end_of(call, scale.end_ms))
    return [
        Segment(rails, "dim"),
        Segment(f"{symbol} ", style),
        Segment(label, "strong" if call.kind != "tool" else ""),
        Segment(" " * (layout.name - filled)),
        Segment(f" {pad(duration, _DURATION_COLUMNS, right=True)} ", tells),
        Segment(bar, style),
    ]


def _error_line(branch: Branch, problem: str, columns: int) -> Line:
    below = "│" if branch.has_children else " "
    rails = _rails(branch, columns, continued=True)
    room = max(8, columns - columns_of(rails) - 2)
    return [Segment(f"{rails}{below} ", "dim"), Segment(fit(clean(problem), room), "bad")]


def _label(branch: Branch) -> str:
    return clean(branch.call.name) + _try(branch)


def _fitted_label(branch: Branch, columns: int) -> str:
    """The name is cut rather than which try it was."""
    tried = _try(branch)
    if columns_of(tried) > columns // 2 and branch.attempt is not None:
        tried = f" #{branch.attempt}"
    return fit(clean(branch.call.name), columns - columns_of(tried)) + tried


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
