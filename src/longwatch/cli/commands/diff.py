"""`longwatch diff A B`: two runs side by side."""

from __future__ import annotations

import click

from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.comparison import comparison_lines
from longwatch.cli.render.terminal import Terminal, remark, write_json, write_json_lines
from longwatch.cli.resolve import open_for_reading
from longwatch.journal.comparison import MAX_ROWS, ComparisonView, compare_runs
from longwatch.journal.run_lookup import find_run
from longwatch.storage.price_file import PriceList


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--all", "everything", is_flag=True, help=f"Show all calls of runs of more than {MAX_ROWS:,}.")
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, a: str, b: str, everything: bool, output: str) -> int:
    """Compare two runs: their calls side by side, with times, tokens and what differs.

    A and B are run IDs, beginnings of them, or `latest`. Calls are aligned by their callers, kinds, names and
    agents. An arrow marks the first difference; `-` is a call of A only, `+` one of B only, and `~` one whose
    status, error, arguments or result differ. Of runs with many calls, those that differ are shown.

    The exit code is 1 if calls are missing or added, or a call or the run ended with another status.

    \b
    longwatch diff nightly-41 nightly-42
    """
    from longwatch.following.observation import Observer

    with open_for_reading(invocation) as journal:
        runs = [find_run(journal, wanted) for wanted in (a, b)]
        observed = Observer(journal, clock=invocation.clock).observed(runs)
        found = compare_runs(journal, observed[0].run, observed[1].run)
    view = ComparisonView.of(
        found,
        now_ms=invocation.clock.now_ms(),
        prices=PriceList(invocation.settings()).current(),
        max_rows=len(found.rows) if everything else MAX_ROWS,
    )
    if output == "json":
        write_json(view)
    elif output == "jsonl":
        write_json_lines(view.rows)
    else:
        terminal = Terminal.of_stdout()
        terminal.show(comparison_lines(view, width=terminal.columns))
        if view.left_out:
            remark(f"{view.left_out:,} more calls. Show them with --all.")
    return of_success(not found.differs_in_structure)
