"""The outline of a run: that of its calls, in which those that lead to its failure are always shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from longwatch.model.call_outline import Outline, outline
from longwatch.model.call_paths import failing_path
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.call_tree import CallTree
from longwatch.model.failures import repeats_error
from longwatch.model.run import Call, Run, Status


def run_outline(run: Run, options: OutlineOptions) -> Outline:
    """The outline of the calls of this run. An error has a line, unless a call below repeats it."""
    tree = CallTree.of(run.calls.values())
    failing = _failing(run, tree)
    echoes = _echoes(tree, failing)
    return outline(tree, options, failing=failing, height=lambda call: lines_of(call, echoes))


def lines_of(call: Call, echoes: Collection[str] = ()) -> int:
    """The lines of a call that has a row of its own: another one for its error, unless it is an echo."""
    return 2 if error_of_call(call) and call.call_id not in echoes else 1


def error_of_call(call: Call) -> str | None:
    """The error that its end states."""
    return call.end.error if call.end is not None else None


def _failing(run: Run, tree: CallTree) -> Sequence[int]:
    if run.summary.status is Status.SUCCEEDED:
        return ()
    return failing_path(tree, error=run.summary.error, has_ended=run.summary.ending is not None)


def _echoes(tree: CallTree, failing: Sequence[int]) -> Collection[str]:
    """The callers on the failing path that only repeat the error of the call that failed."""
    errors = [(tree.calls[index].call_id, error_of_call(tree.calls[index])) for index in failing]
    cause = errors[-1][1] if errors else None
    return {call_id for call_id, error in errors[:-1] if cause and error and repeats_error(error, cause)}
