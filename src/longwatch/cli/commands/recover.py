"""`longwatch recover FILE --to NEW`: salvages what can be read of a damaged journal into a new file."""

from __future__ import annotations

from pathlib import Path

import click

from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.terminal import ProgressLine, remark, write_json, write_text
from longwatch.cli.render.text import count_text
from longwatch.errors import InvalidInput
from longwatch.journal.sqlite.recovery import Recovered, recover

MOST_RUNS = 20  # affected ones that are named


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--to", "target", metavar="NEW", required=True, type=click.Path(path_type=Path), help="New file."
)
@output_option("text", "json")
@common_options
@pass_invocation
def command(invocation: Invocation, source: Path, target: Path, output: str) -> int:
    """Salvage a damaged journal into a new file.

    FILE is the SQLite file of a journal. It is not changed, and NEW must not exist yet. Events keep their
    ids, producers, numbers, digests and order, so that `longwatch verify` on the new file names what is
    missing, except at the end of a producer: there it answers open. Exit code 0: every event was readable;
    1: some were not, and the text says how many and of which runs; 2: nothing could be salvaged.
    """
    source, target = source.expanduser().absolute(), target.expanduser().absolute()
    if not source.is_file():
        raise InvalidInput(f"There is no file {source}. Name the file of the journal.")
    if target.exists():
        raise InvalidInput(f"{target} exists already and is left as it is. Choose another file for --to.")
    with ProgressLine("Salvaging:", clock=invocation.clock) as progress:
        found = recover(source, target, clock=invocation.clock, progress=progress.at)
    if output == "json":
        write_json(
            {
                "file": str(target),
                "salvaged": found.salvaged,
                "unreadable": found.unreadable,
                "runs": found.runs,
                "affected_runs": sorted(found.affected),
                "other_rows": found.other_rows,
                "other_tables_damaged": found.other_lost,
            }
        )
    else:
        _tell(found, target)
    return of_success(not (found.unreadable or found.other_lost))


def _tell(found: Recovered, target: Path) -> None:
    write_text(
        f"{count_text(found.salvaged, 'event')} of {count_text(found.runs, 'run')} salvaged to {target}; "
        f"{found.unreadable:,} unreadable, {count_text(len(found.affected), 'run')} affected."
    )
    for run_id in sorted(found.affected)[:MOST_RUNS]:
        write_text(f"  {run_id}")
    if len(found.affected) > MOST_RUNS:
        write_text(f"  … and {len(found.affected) - MOST_RUNS:,} more")
    if found.other_rows or found.other_lost:
        damaged = f"; {found.other_lost} of their tables are damaged" if found.other_lost else ""
        write_text(f"{found.other_rows:,} rows of documents and executions salvaged{damaged}.")
    remark(f"`longwatch --journal sqlite:///{target} verify RUN` says what is missing of a run.")
