"""Two paths through a tree of calls: the one to the failure, and the one that determines the duration."""

from __future__ import annotations

from collections.abc import Sequence, Set

from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from longwatch.model.failures import INNERMOST, repeats_error


def failing_path(tree: CallTree, *, error: str | None, has_ended: bool) -> list[int]:
    """The calls that lead to the failure of a run, from the top; empty without any.

    They lead to the innermost call that failed with the run's error, of several to the one that ended last,
    and on to the call that failed in it with another error, if that was the last thing it did. Without such a
    call, a failed call leads to the failed call in it that ended last, and in a run that has ended, an
    abandoned call to the abandoned call in it that began last.
    """
    repeating = {
        index
        for index, call in enumerate(tree.calls)
        if error and has_failed(call) and repeats_error(error, _error_of(call))
    }
    if repeating:
        cause = max(repeating, key=lambda index: (_nesting(tree.calls[index]), _ended(tree, index)))
        path = [*tree.above(cause), cause, *_descend(tree, cause, repeating)]
        return [*path, *_causes(tree, path[-1])]
    failed = {index for index, call in enumerate(tree.calls) if has_failed(call)}
    path = _descend(tree, TOP, failed)
    if path or not has_ended:
        return path
    return _descend(tree, TOP, {index for index, call in enumerate(tree.calls) if call.end is None})


def _descend(tree: CallTree, caller: int, among: Set[int]) -> list[int]:
    """From a call down to one of these calls, and to one in it: the one that ended, or else began, last."""
    path: list[int] = []
    while below := [index for index in tree.children.get(caller, ()) if index in among]:
        caller = max(below, key=lambda index: (_ended(tree, index), index))
        path.append(caller)
    return path


def _causes(tree: CallTree, caller: int) -> list[int]:
    """From a failed call down through calls whose failures it passed on: after each, it called nothing."""
    path: list[int] = []
    while failed := [index for index in tree.children.get(caller, ()) if has_failed(tree.calls[index])]:
        last = max(failed, key=lambda index: (_ended(tree, index), index))
        others = (index for index in tree.children[caller] if index != last)
        if any(tree.calls[index].started_at >= _ended(tree, last) for index in others):
            break  # it has handled the failure
        caller = last
        path.append(caller)
    return path


def _nesting(call: Call) -> int:
    return INNERMOST.index(call.kind) if call.kind in INNERMOST else 0


def _ended(tree: CallTree, index: int) -> int:
    end = tree.calls[index].end
    return end.at if end is not None else 0


def has_failed(call: Call) -> bool:
    """Whether the call ended with a failure."""
    return call.end is not None and call.end.status == "failed"


def _error_of(call: Call) -> str:
    return (call.end and call.end.error) or "failed"


def critical_path(tree: CallTree, *, until: int, has_ended: bool = False) -> dict[int, int]:
    """The calls that determine the duration of a run -> the milliseconds that each contributes itself.

    Backwards from the end: the run waits for the call that ended last; that one waits for the call in it that
    ended last; before that began, it waits for the last one that had ended by then, and so on. The time
    between them is its own. A call without an end lasts `until` this time. In a run that has ended, it lasts
    no longer than its caller, and delays nothing if another call of its caller ended after it began. Of calls
    that ended together, the longer one counts. A call that outlasted its caller, or ended beside a later one,
    delays nothing.
    """
    ends = _ends(tree, until, has_ended)
    own: dict[int, int] = {}
    last = max((ends[index] for index in tree.children.get(TOP, ())), default=until)
    todo = [(TOP, 0, max(until, last))]
    while todo:
        caller, begin, at = todo.pop()
        waited = 0  # for the caller itself
        for index in _latest_first(tree, caller, ends, has_ended):
            started, ended = tree.calls[index].started_at, ends[index]
            if at <= begin:
                break
            if ended > at or ended <= max(started, begin):
                continue
            waited += at - ended
            at = max(started, begin)
            todo.append((index, at, ended))
        if caller != TOP:
            own[caller] = waited + at - begin
    return own


def _latest_first(tree: CallTree, caller: int, ends: Sequence[int], has_ended: bool) -> list[int]:
    """The calls of a caller, the one that ended last first; of those that ended together, the longest."""
    below = tree.children.get(caller, ())
    recorded = max((ends[index] for index in below if tree.calls[index].end is not None), default=0)

    def may_delay(index: int) -> bool:
        call = tree.calls[index]
        return not has_ended or call.end is not None or call.started_at >= recorded

    return sorted(
        filter(may_delay, below), key=lambda index: (-ends[index], tree.calls[index].started_at, index)
    )


def _ends(tree: CallTree, until: int, has_ended: bool) -> list[int]:
    ends: list[int] = []
    for call, caller in zip(tree.calls, tree.callers, strict=True):
        outlives = has_ended and caller != TOP and ends[caller] >= call.started_at
        open_end = min(until, ends[caller]) if outlives else until
        ends.append(open_end if call.end is None else call.end.at)
    return ends
