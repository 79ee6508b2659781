"""`longwatch export RUN…`: runs as JSON lines, to keep or to import elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from longwatch.cli.invocation import Invocation
from longwatch.cli.journals import event_lines, find, reading
from longwatch.cli.options import common_options, complete_runs, pass_invocation
from longwatch.cli.terminal import remark, write_data
from longwatch.errors import InvalidInput

LINES_AT_ONCE = 500


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write instead of stdout.")
@click.option("--format", "form", type=click.Choice(["jsonl"]), default="jsonl", show_default=True)
@common_options
@pass_invocation
def command(invocation: Invocation, runs: tuple[str, ...], output: Path | None, form: str) -> None:
    """Write runs as JSON lines.

    RUN is the id of a run, the beginning of one, or `latest`. Every event is one line, in order.
    `longwatch import` reads them again.
    """
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for run in found:
            for line in event_lines(journal, run, clock=invocation.clock):
                count += 1
                yield line

    with reading(invocation) as journal:
        found = [find(journal, run) for run in dict.fromkeys(runs)]
        if output is None or str(output) == "-":
            for group in _groups(lines()):
                write_data(group)
        else:
            _write_whole(output, lines())
    remark(f"Exported {count:,} events of {len(found)} {'run' if len(found) == 1 else 'runs'}.")


def _groups(lines: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for line in lines:
        group.append(line)
        if len(group) >= LINES_AT_ONCE:
            yield group
            group = []
    yield group


def _write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write beside the file and put it in place at the end: an interrupted export leaves no half file."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}. Choose another file.") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as target:
            target.writelines(f"{line}\n" for line in lines)
        part.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}. Choose another file.") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
