"""`longwatch export RUN…`: runs as JSON lines, or one run as an HTML file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from longwatch.cli.options import Invocation, common_options, complete_runs, pass_invocation
from longwatch.cli.render.terminal import batches, remark, write_data
from longwatch.cli.render.text import count_text
from longwatch.cli.resolve import event_lines, open_for_reading, read_counted
from longwatch.errors import InvalidInput
from longwatch.journal.base import Journal
from longwatch.journal.run_lookup import find_run
from longwatch.model.run import RunSummary
from longwatch.storage.price_file import PriceList

LINES_AT_ONCE = 500


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write instead of stdout.")
@click.option("--format", "form", type=click.Choice(["jsonl", "html"]), default="jsonl", show_default=True)
@click.option("--html", is_flag=True, help="The same as --format html.")
@common_options
@pass_invocation
def command(
    invocation: Invocation, runs: tuple[str, ...], output: Path | None, form: str, html: bool
) -> None:
    """Write runs as JSON lines, or one run as a page.

    RUN is a run ID, the beginning of one, or `latest`. As JSON lines, every event is one line, in order;
    `longwatch import` reads them. As HTML, a run becomes one file that needs no server and no network, with
    the log, timeline, calls and graph of the page.
    """
    to_stdout = output is None or str(output) == "-"
    with open_for_reading(invocation) as journal:
        found = [find_run(journal, run) for run in dict.fromkeys(runs)]
        if html or form == "html":
            _export_page(journal, found, None if to_stdout else output, invocation)
            return
        count = 0

        def lines() -> Iterator[str]:
            nonlocal count
            for run in found:
                for line in event_lines(journal, run, clock=invocation.clock):
                    count += 1
                    yield line

        if output is None or to_stdout:
            for batch in batches(lines(), LINES_AT_ONCE):
                write_data(batch)
        else:
            _write_whole(output, (f"{line}\n".encode() for line in lines()))
    remark(f"Exported {count_text(count, 'event')} of {count_text(len(found), 'run')}.")


def _export_page(
    journal: Journal, found: Sequence[RunSummary], output: Path | None, invocation: Invocation
) -> None:
    """Write one run as a page, to stdout if no file is named, unless that is a terminal."""
    from longwatch.following.observation import Observer
    from longwatch.server.page.report import render_report, report_name

    if len(found) > 1:
        raise InvalidInput(f"An HTML file holds one run, not {len(found)}. Export them one by one.")
    [run] = found
    if output is None and sys.stdout.isatty():
        output = Path(report_name(run.run_id))
    events = list(read_counted(journal, run, clock=invocation.clock))
    [observed] = Observer(journal, clock=invocation.clock).observed([run])
    prices = PriceList(invocation.settings()).current()
    page = render_report(observed.run, events, now_ms=invocation.clock.now_ms(), prices=prices)
    if output is None:
        write_data([page.decode().removesuffix("\n")])
    else:
        _write_whole(output, [page])
        remark(f"Exported {len(events):,} events of {run.run_id} to {output}.")


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Write a temporary file and rename it, so that an interrupted export leaves no partial file."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}. Choose another file.") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            target.writelines(parts)
        part.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}. Choose another file.") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
