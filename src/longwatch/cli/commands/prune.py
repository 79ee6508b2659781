"""`longwatch prune`: deletes old events from a SQLite journal."""

from __future__ import annotations

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.terminal import remark, write_document, write_text
from longwatch.cli.render.text import count_text
from longwatch.cli.render.times import clock_text, span_ms
from longwatch.cli.resolve import check_journal, sqlite_path
from longwatch.errors import InvalidInput
from longwatch.journal.base import Journal, Prunes
from longwatch.journal.factory import open_journal
from longwatch.model.run_query import INDEX_KINDS, RunQuery


@click.command()
@click.option(
    "--older-than", "age", metavar="AGE", help="Age, such as 30d or 12h. [default: the rules of retention]"
)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, age: str | None, dry_run: bool, output: str) -> None:
    """Delete old events.

    Deletes events older than AGE, and runs that have no events left, in small transactions between which
    other processes can write. Without AGE, the rules of retention in longwatch.toml apply, which delete
    ended runs. A DynamoDB table needs no pruning: its events expire by their ttl.
    """
    settings = invocation.settings()
    if age is None and dry_run:
        raise click.UsageError("--dry-run counts by age. Specify --older-than.")
    if age is None and not settings.retention:
        raise click.UsageError("Specify --older-than, or add rules of [[retention]] to longwatch.toml.")
    before = 0 if age is None else invocation.clock.now_ms() - span_ms(age)
    moment = clock_text(max(0, before), dated=True)
    if sqlite_path(settings.journal) is not None:  # a table is never pruned, so it is not checked
        check_journal(settings, clock=invocation.clock)
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        if not isinstance(journal, Prunes):
            raise InvalidInput(
                f"{journal.url} cannot be pruned: its events expire by themselves. "
                "Set recording.ttl_hours to choose when."
            )
        if dry_run:
            count = _count(journal, before)
            if output != "text":
                write_document({"runs": count, "before": max(0, before), "dry_run": True}, output)
                return
            runs = count_text(count, "run")
            write_text(f"{runs} with events from before {moment}. Nothing was deleted.")
            return
        if age is None:
            remark(f"Applying {count_text(len(settings.retention), 'rule')} of retention …")
            deleted = journal.expire(settings.retention)
        else:
            remark(f"Deleting events from before {moment} …")
            deleted = journal.prune(max(0, before))
    if output != "text":
        given = {"rules": len(settings.retention)} if age is None else {"before": max(0, before)}
        write_document({"deleted_events": deleted, **given, "dry_run": False}, output)
    else:
        write_text(f"{count_text(deleted, 'event')} deleted.")


def _count(journal: Journal, before: int) -> int:
    count, cursor = 0, None
    while True:
        query = RunQuery(until=max(0, before), except_kinds=INDEX_KINDS)
        page = journal.find_runs(query, after=cursor, limit=500)
        count += len(page.runs)
        cursor = page.cursor
        if cursor is None:
            return count
