"""`longwatch delete RUN…`: deletes whole runs and leaves a tombstone of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.options import Invocation, common_options, complete_runs, output_option, pass_invocation
from longwatch.cli.render.terminal import remark, write_document, write_text
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.resolve import open_for_reading
from longwatch.errors import InvalidInput, RunDeleted, RunStillOpen
from longwatch.following.observation import Observer
from longwatch.journal.base import Journal
from longwatch.journal.deletions import DeletesRuns, check_deletion, local_user
from longwatch.journal.run_lookup import find_run
from longwatch.model.run import RunSummary


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@click.option("--force", is_flag=True, help="Also delete runs that are open.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation, runs: tuple[str, ...], force: bool, yes: bool, dry_run: bool, output: str
) -> ExitCode:
    """Delete runs with all of their events.

    RUN is a run ID, the beginning of one, or `latest`. A tombstone states who deleted the run and when, and
    its producers cannot append to it any more. The text is overwritten in the file, in its write-ahead log
    and in the search index. Nothing is deleted if one of the runs cannot be.
    """
    with open_for_reading(invocation) as journal:
        if not isinstance(journal, DeletesRuns):
            raise InvalidInput(f"{journal.url} cannot delete runs.")
        observer = Observer(journal, clock=invocation.clock)
        found = {run.run_id: run for run in (_find(journal, wanted, dry_run=dry_run) for wanted in runs)}
        observed = [each.run for each in observer.observed(list(found.values()))]
        for run in observed:
            _check(run, force=force)
        text = f"{count_text(len(observed), 'run')} with {count_text(_events(observed), 'event')}"
        for run in observed:
            remark(f"{clean(run.run_id)}  {run.status}  {count_text(run.events, 'event')}")
        if dry_run:
            if output != "text":
                write_document(_view(observed, dry_run=True), output)
                return ExitCode.SUCCEEDED
            write_text(f"{text} would be deleted. Nothing was deleted.")
            return ExitCode.SUCCEEDED
        if not yes and not _is_confirmed(f"Delete {text}? This cannot be undone."):
            remark("Nothing was deleted.")
            return ExitCode.FAILED
        by = local_user()
        # An open run without a living process is not refused: `_check` has decided by what was observed.
        stones = [journal.delete_run(run.run_id, by=by, force=True) for run in observed]
    if output != "text":
        write_document(_view(observed, dry_run=False), output)
        return ExitCode.SUCCEEDED
    removed = count_text(sum(stone.events for stone in stones), "event")
    write_text(f"{count_text(len(stones), 'run')} deleted, {removed} removed.")
    return ExitCode.SUCCEEDED


def _find(journal: Journal, wanted: str, *, dry_run: bool) -> RunSummary:
    try:
        return find_run(journal, wanted)
    except RunDeleted as error:
        if isinstance(journal, DeletesRuns) and not dry_run:
            journal.delete_run(error.run_id, by=error.deleted_by)  # removes what is left, and raises it again
        raise


def _check(run: RunSummary, *, force: bool) -> None:
    try:
        check_deletion(run.run_id, run.kind, run.status, None, force=force)
    except RunStillOpen:
        raise InvalidInput(
            f"Run {run.run_id!r} is still open. Wait for its end, or delete it with --force: what its "
            "producers record after that is dropped."
        ) from None


def _view(runs: Sequence[RunSummary], *, dry_run: bool) -> dict[str, object]:
    return {"runs": [{"run_id": run.run_id, "events": run.events} for run in runs], "dry_run": dry_run}


def _events(runs: Sequence[RunSummary]) -> int:
    return sum(run.events for run in runs)


def _is_confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Without a terminal, confirm the deletion with --yes.")
    return click.confirm(question, err=True)
