"""Resolves what people type into journals, runs and executions, and checks a journal when it opens."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from longwatch.cli.options import Invocation
from longwatch.cli.render.terminal import ProgressLine, remark
from longwatch.clock import Clock
from longwatch.errors import ExecutionNotFound, InvalidInput, JournalUnusable, RunNotFound
from longwatch.executions.model import Execution
from longwatch.executions.stores.base import ExecutionStore, resolve
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.codec import to_line
from longwatch.journal.factory import open_journal
from longwatch.model.event import START, Event
from longwatch.model.run import RunSummary
from longwatch.model.run_query import WORK, RunQuery
from longwatch.settings import Settings
from longwatch.storage.urls import TableAddress, locate_store

NEWEST = ("latest", "-")
READ_LIMIT = 1000
MOST_CANDIDATES = 8
MOST_PAGES = 40  # of a search for the beginning of a run id
SIMILAR_AMONG = 200  # of the newest runs, when an id is unknown


@contextmanager
def open_for_reading(invocation: Invocation) -> Iterator[Journal]:
    """The journal, opened to be read: a table is checked first, a file must be there already."""
    settings = invocation.settings()
    check_journal(settings, clock=invocation.clock)
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        yield journal


def check_journal(settings: Settings, *, clock: Clock) -> Sequence[str]:
    """Raise what keeps a command from using the journal, and return the warnings about its table.

    Commands that only read ignore the warnings: these concern the operator, and `doctor` and `serve` print
    them. Never called for producers, which may only write.
    """
    path = sqlite_path(settings.journal)
    if path is not None and not path.exists():
        raise JournalUnusable(
            f"There is no journal at {path} yet. `longwatch run -- COMMAND` records a run; "
            "--journal names another."
        )
    if settings.journal.startswith("dynamodb:"):
        from longwatch.storage.dynamodb.table_check import check_table

        return check_table(table_address(settings), clock=clock).warnings
    return ()


def sqlite_path(url: str) -> Path | None:
    """The file behind a SQLite address; None for other journals."""
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    return Path(path).expanduser() if parts.scheme == "sqlite" and not parts.netloc and path else None


def table_address(settings: Settings) -> TableAddress:
    """The table that a DynamoDB URL names, with what the settings add to it."""
    address = locate_store(settings.journal, "journal", settings=settings)
    assert isinstance(address, TableAddress)
    return address


def find_run(journal: Journal, wanted: str) -> RunSummary:
    """The run that was meant: by its id, the beginning of its id, or `latest`.

    The run of an execution is found by the execution id too, which follows the plan in its run id.
    """
    run = journal.find_run(wanted) if wanted not in ("", "-") else None
    if run is not None:
        return run
    if wanted in NEWEST:
        newest = journal.find_runs(WORK, limit=1).runs
        if newest:
            return newest[0]
        raise RunNotFound(
            f"There are no runs in {journal.url} yet. `longwatch run -- COMMAND` records a first one."
        )
    candidates = _beginning_with(journal, wanted) if wanted else []
    run = _only(wanted, _of_execution(wanted, candidates) or candidates)
    if run is not None:
        return run
    similar = _similar(journal, wanted)
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    raise RunNotFound(f"No run {wanted!r}.{hint} `longwatch runs` lists them.")


def find_exact_run(journal: Journal, wanted: str) -> RunSummary | None:
    """The run of this id, or of the only execution with this id; not of the beginning of one."""
    run = journal.find_run(wanted)
    return run or _only(wanted, _of_execution(wanted, _beginning_with(journal, wanted)))


def _only(wanted: str, candidates: Sequence[RunSummary]) -> RunSummary | None:
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    names = ", ".join(run.run_id for run in candidates[:MOST_CANDIDATES])
    more = ", …" if len(candidates) > MOST_CANDIDATES else ""
    raise InvalidInput(f"{wanted!r} could be any of {names}{more}. Write more of the id.")


def _of_execution(execution_id: str, runs: Sequence[RunSummary]) -> list[RunSummary]:
    return [run for run in runs if execution_id_of(run) == execution_id]


def _beginning_with(journal: Journal, beginning: str) -> list[RunSummary]:
    found: list[RunSummary] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = journal.find_runs(RunQuery(text=beginning), after=cursor, limit=500)
        found += [
            run
            for run in page.runs
            if run.run_id.startswith(beginning) or execution_id_of(run).startswith(beginning)
        ]
        cursor = page.cursor
        if cursor is None or len(found) > MOST_CANDIDATES:
            break
    return found


def execution_id_of(run: RunSummary) -> str:
    """What comes after the plan in the run id of an execution; empty for other runs."""
    return run.run_id.partition("/")[2] if run.kind == "execution" else ""


def _similar(journal: Journal, wanted: str) -> Sequence[str]:
    names = [run.run_id for run in journal.find_runs(WORK, limit=SIMILAR_AMONG).runs]
    return difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)


def read_events(journal: Journal, run: RunSummary, *, clock: Clock) -> Iterator[Event]:
    """Every event of the run once, as they arrived. Shows how far it is if that takes long."""
    cursor = START
    with ProgressLine("Reading events:", clock=clock, total=run.events) as progress:
        while True:
            page = journal.read(run.run_id, after=cursor, limit=READ_LIMIT)
            yield from page.events
            progress.add(len(page.events))
            cursor = page.cursor
            if not page.more:
                return


def read_counted(journal: Journal, run: RunSummary, *, clock: Clock) -> Iterator[Event]:
    """`read_events`, and a remark if the journal counted more when they were stored.

    An index that lacks an entry hides an event, and no query fails.
    """
    found, may_expire = 0, run.expired_before is not None
    for event in read_events(journal, run, clock=clock):
        found += 1
        may_expire = may_expire or event.ttl is not None
        yield event
    if isinstance(journal, Arrivals) and found < run.events and found and not may_expire:
        remark(
            f"longwatch: {run.events - found:,} of {run.events:,} events of run {run.run_id} were not found. "
            f"`longwatch verify {run.run_id}` names them, `longwatch doctor` checks the file."
        )


def newest_runs_quickly(
    invocation: Invocation, limit: int, *, kind: str | None = None
) -> Sequence[RunSummary]:
    """The newest runs if the journal is a file that is there, else none: for shell completion."""
    settings = invocation.settings()
    path = sqlite_path(settings.journal)
    if path is None or not path.exists():
        return []
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        return journal.find_runs(RunQuery(kind=kind) if kind else WORK, limit=limit).runs


def event_lines(journal: Journal, run: RunSummary, *, clock: Clock) -> Iterator[str]:
    """Every event of the run as a line of JSON, in order. Lines are held, not events: they are smaller."""
    lines = [(event.order, to_line(event)) for event in read_counted(journal, run, clock=clock)]
    lines.sort(key=lambda pair: pair[0])
    return (line for _, line in lines)


LOOKED_THROUGH = 1_000  # of the newest executions, for the beginning of an id


def find_execution(store: ExecutionStore, wanted: str) -> Execution:
    """The execution that was meant."""
    found = resolve(store, wanted) if wanted not in ("", "-") else None
    if found is not None:
        return found
    if wanted in NEWEST:
        newest = store.find(limit=1)
        if newest:
            return newest[0]
        raise ExecutionNotFound("There are no executions here yet. Add one: longwatch executions add --help")
    newest = store.find(limit=LOOKED_THROUGH) if wanted else []
    candidates = [
        each for each in newest if each.execution_id.startswith(wanted) or str(each.key).startswith(wanted)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(str(each.key) for each in candidates[:MOST_CANDIDATES])
        more = ", …" if len(candidates) > MOST_CANDIDATES else ""
        raise InvalidInput(f"{wanted!r} could be any of {names}{more}. Write more of the id.")
    raise ExecutionNotFound(f"There is no execution {wanted!r} here. List them: longwatch executions list")
