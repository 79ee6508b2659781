"""Resolves the names that users type to journals, runs and executions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from longwatch.cli.options import Invocation
from longwatch.cli.render.terminal import ProgressLine, remark
from longwatch.cli.sorted_lines import sorted_lines
from longwatch.clock import Clock
from longwatch.errors import ExecutionNotFound, InvalidInput, JournalUnusable
from longwatch.executions.model import Execution
from longwatch.executions.stores.base import ExecutionStore, resolve
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.factory import open_journal
from longwatch.journal.run_lookup import MAX_CANDIDATES, NEWEST
from longwatch.model.event import START, Event
from longwatch.model.run import RunSummary
from longwatch.model.run_query import WORK, RunQuery
from longwatch.settings import Settings
from longwatch.storage.urls import TableAddress, locate_store

READ_LIMIT = 1000


@contextmanager
def open_for_reading(invocation: Invocation) -> Iterator[Journal]:
    """Open the journal for a command that reads: a table is checked first, a file has to exist."""
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
            f"No journal at {path} yet. Record a run with `longwatch run -- COMMAND`, or name another "
            "journal with --journal."
        )
    if settings.journal.startswith("dynamodb:"):
        from longwatch.storage.dynamodb.table_check import check_table

        return check_table(table_address(settings), clock=clock).warnings
    return ()


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL; None for other journals."""
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    return Path(path).expanduser() if parts.scheme == "sqlite" and not parts.netloc and path else None


def table_address(settings: Settings) -> TableAddress:
    """The table that a DynamoDB URL names, with what the settings add to it."""
    address = locate_store(settings.journal, "journal", settings=settings)
    assert isinstance(address, TableAddress)
    return address


def read_events(journal: Journal, run: RunSummary, *, clock: Clock) -> Iterator[Event]:
    """Every event of the run once, in order of arrival. Shows the progress of a slow read."""
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
    """`read_events`, and a warning if the journal counted more events when they were stored.

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
    """The newest runs of an existing SQLite file, for shell completion; otherwise none."""
    settings = invocation.settings()
    path = sqlite_path(settings.journal)
    if path is None or not path.exists():
        return []
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        return journal.find_runs(RunQuery(kind=kind) if kind else WORK, limit=limit).runs


def event_lines(journal: Journal, run: RunSummary, *, clock: Clock) -> Iterator[str]:
    """Every event of the run as a line of JSON, in order."""
    return sorted_lines(read_counted(journal, run, clock=clock))


SEARCHED_EXECUTIONS = 1_000  # the newest ones, for the beginning of an id


def find_execution(store: ExecutionStore, wanted: str) -> Execution:
    """The execution with this key or id, the only one that begins so, or the newest one for `latest`."""
    found = resolve(store, wanted) if wanted not in ("", "-") else None
    if found is not None:
        return found
    if wanted in NEWEST:
        newest = store.find(limit=1)
        if newest:
            return newest[0]
        raise ExecutionNotFound("No executions yet. Add one: longwatch executions add --help")
    newest = store.find(limit=SEARCHED_EXECUTIONS) if wanted else []
    candidates = [
        each for each in newest if each.execution_id.startswith(wanted) or str(each.key).startswith(wanted)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(str(each.key) for each in candidates[:MAX_CANDIDATES])
        more = ", …" if len(candidates) > MAX_CANDIDATES else ""
        raise InvalidInput(f"{wanted!r} is ambiguous: {names}{more}. Type more of the ID.")
    raise ExecutionNotFound(f"No execution {wanted!r}. List them: longwatch executions list")
