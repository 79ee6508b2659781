"""`longwatch recover FILE --to NEW`: salvages the readable events of a damaged journal."""

from __future__ import annotations

from pathlib import Path

import click

from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.terminal import ProgressLine, remark, write_document, write_text
from longwatch.cli.render.text import count_text
from longwatch.errors import InvalidInput
from longwatch.journal.sqlite.recovery import RecoveryReport, recover

MAX_RUNS = 20  # affected ones that are listed


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--to", "target", metavar="NEW", required=True, type=click.Path(path_type=Path), help="New file."
)
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, source: Path, target: Path, output: str) -> int:
    """Salvage a damaged journal into a new file.

    FILE is the SQLite file of a journal. It is not changed, and NEW must not exist yet. Events keep their
    ids, producers, numbers, digests and order, so that `longwatch verify` on the new file names the missing
    ones. A producer whose last events are lost is reported as open.

    Exit codes: 0 every event was readable; 1 some were not, and their runs are listed; 2 nothing could be
    salvaged.
    """
    source, target = source.expanduser().absolute(), target.expanduser().absolute()
    if not source.is_file():
        raise InvalidInput(f"No file {source}. Name the SQLite file of the journal.")
    if target.exists():
        raise InvalidInput(f"{target} already exists. Choose another file for --to.")
    with ProgressLine("Salvaging:", clock=invocation.clock) as progress:
        found = recover(source, target, clock=invocation.clock, progress=progress.at)
    if output != "text":
        write_document(
            {
                "file": str(target),
                "salvaged": found.salvaged,
                "unreadable": found.unreadable,
                "runs": found.runs,
                "affected_runs": sorted(found.affected),
                "other_rows": found.other_rows,
                "other_tables_damaged": found.other_lost,
            },
            output,
        )
    else:
        _print_result(found, target)
    return of_success(not (found.unreadable or found.other_lost))


def _print_result(found: RecoveryReport, target: Path) -> None:
    write_text(
        f"{count_text(found.salvaged, 'event')} of {count_text(found.runs, 'run')} salvaged to {target}; "
        f"{found.unreadable:,} unreadable, {count_text(len(found.affected), 'run')} affected."
    )
    for run_id in sorted(found.affected)[:MAX_RUNS]:
        write_text(f"  {run_id}")
    if len(found.affected) > MAX_RUNS:
        write_text(f"  … and {len(found.affected) - MAX_RUNS:,} more")
    if found.other_rows or found.other_lost:
        damaged = f"; {found.other_lost} of their tables are damaged" if found.other_lost else ""
        write_text(f"{found.other_rows:,} rows of documents and executions salvaged{damaged}.")
    remark(f"`longwatch --journal sqlite:///{target} verify RUN` names the missing events of a run.")
