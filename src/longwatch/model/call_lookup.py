"""Finds one call of a run by what a user types, and its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longwatch.errors import InvalidInput
from longwatch.model.call_tree import CallTree, subject_of
from longwatch.model.calls import Call

MOST_CANDIDATES = 8


def find_call(calls: Mapping[str, Call], wanted: str, *, run_id: str) -> Call:
    """The call with this ID, else the only one whose ID begins so, else the only one with this name."""
    if wanted in calls:
        return calls[wanted]
    named = [call for call in calls.values() if call.name == wanted]
    begun = [call for call_id, call in calls.items() if wanted and call_id.startswith(wanted)]
    found = sorted(begun or named, key=lambda call: (call.started_at, call.first.order))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(
            f"No call {wanted!r} in run {run_id!r}. List the IDs of its calls with "
            f"`longwatch show {run_id} -o json`."
        )
    lines = [f"  {call.call_id}  {call.name} {call.preview}".rstrip() for call in found[:MOST_CANDIDATES]]
    more = len(found) - len(lines)
    rest = [f"  … and {more:,} more"] if more else []
    listed = "\n".join([f"{wanted!r} names {len(found):,} calls. Use an ID:", *lines, *rest])
    raise InvalidInput(listed)


def attempts_of(tree: CallTree, index: int) -> Sequence[int]:
    """The attempts of one call, the first one first: each began after the one before it had failed.

    Just this call if it was tried once.
    """
    call = tree.calls[index]
    siblings = tree.children[tree.callers[index]]
    same = [each for each in siblings if subject_of(tree.calls[each]) == subject_of(call)]
    tries = tree.tries(same)
    first = last = same.index(index)
    while first > 0 and tries.get(same[first], 1) > 1:
        first -= 1
    while last + 1 < len(same) and tries.get(same[last + 1], 1) > 1:
        last += 1
    return same[first : last + 1]
