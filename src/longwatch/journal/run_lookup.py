"""Finds the run that a user names: by its id, by the beginning of one, or the newest."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from longwatch.errors import InvalidInput, RunNotFound
from longwatch.journal.base import Journal
from longwatch.journal.deletions import find_tombstone
from longwatch.model.run import RunSummary
from longwatch.model.run_query import WORK, RunQuery

NEWEST = ("latest", "-")
MAX_CANDIDATES = 8
MAX_PAGES = 40  # of a search for the beginning of a run id
SIMILAR_AMONG = 200  # newest runs, for a suggestion when an id is unknown


def find_run(journal: Journal, wanted: str, *, lister: str = "`longwatch runs`") -> RunSummary:
    """The run with this id, the only run whose id begins so, or the newest one for `latest`.

    The run of an execution is also found by the execution id, which follows the plan in its run id. `lister`
    lists runs; an error names it.
    """
    run = journal.find_run(wanted) if wanted not in ("", "-") else None
    if run is not None:
        return run
    if (stone := find_tombstone(journal, wanted)) is not None:
        raise stone.error
    if wanted in NEWEST:
        newest = journal.find_runs(WORK, limit=1).runs
        if newest:
            return newest[0]
        raise RunNotFound(f"No runs in {journal.url} yet. Record one with `longwatch run -- COMMAND`.")
    candidates = _beginning_with(journal, wanted) if wanted else []
    run = _only(wanted, _of_execution(wanted, candidates) or candidates)
    if run is not None:
        return run
    similar = _similar(journal, wanted)
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    raise RunNotFound(f"No run {wanted!r}.{hint} List them with {lister}.")


def find_exact_run(journal: Journal, wanted: str) -> RunSummary | None:
    """The run with exactly this id, or that of the only execution with this id."""
    run = journal.find_run(wanted)
    return run or _only(wanted, _of_execution(wanted, _beginning_with(journal, wanted)))


def _only(wanted: str, candidates: Sequence[RunSummary]) -> RunSummary | None:
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    names = ", ".join(run.run_id for run in candidates[:MAX_CANDIDATES])
    more = ", …" if len(candidates) > MAX_CANDIDATES else ""
    raise InvalidInput(f"{wanted!r} is ambiguous: {names}{more}. Type more of the ID.")


def _of_execution(execution_id: str, runs: Sequence[RunSummary]) -> list[RunSummary]:
    return [run for run in runs if execution_id_of(run) == execution_id]


def _beginning_with(journal: Journal, beginning: str) -> list[RunSummary]:
    found: list[RunSummary] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = journal.find_runs(RunQuery(text=beginning), after=cursor, limit=500)
        found += [
            run
            for run in page.runs
            if run.run_id.startswith(beginning) or execution_id_of(run).startswith(beginning)
        ]
        cursor = page.cursor
        if cursor is None or len(found) > MAX_CANDIDATES:
            break
    return found


def execution_id_of(run: RunSummary) -> str:
    """The part after the plan in the run id of an execution; empty for other runs."""
    return run.run_id.partition("/")[2] if run.kind == "execution" else ""


def _similar(journal: Journal, wanted: str) -> Sequence[str]:
    names = [run.run_id for run in journal.find_runs(WORK, limit=SIMILAR_AMONG).runs]
    return difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)
