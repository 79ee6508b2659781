"""`longwatch import FILE`: events from JSON lines, each stored once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click

from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import ProgressLine, remark
from longwatch.cli.render.text import count_text
from longwatch.cli.resolve import check_journal, sqlite_path
from longwatch.errors import EventConflict, InvalidEvent, InvalidInput
from longwatch.journal.base import Journal
from longwatch.journal.codec import encode_payload, from_line
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event

BATCH_EVENTS = 500
MOST_REPORTED = 20


@dataclass(slots=True)
class BadLines:
    """What was wrong with which lines. Only the first are told, all are counted."""

    told: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, where: str, reason: str) -> None:
        self.count += 1
        if len(self.told) < MOST_REPORTED:
            self.told.append(f"{where}: {reason}")

    def lines(self) -> Iterator[str]:
        """One line for each that is told, and one for the rest."""
        yield from self.told
        if self.count > len(self.told):
            yield f"… and {self.count - len(self.told):,} more"


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--keep-going", is_flag=True, help="Import the valid lines and skip the invalid ones.")
@common_options
@pass_invocation
def command(invocation: Invocation, file: Path, keep_going: bool) -> int:
    """Read events from JSON lines.

    FILE is what `longwatch export` wrote, - for stdin. An event that is already there is left as it is, so
    importing twice is harmless. If any line is bad, nothing is imported unless --keep-going is given.
    """
    settings = invocation.settings()
    if sqlite_path(settings.journal) is None:  # a file may be new, a table must be there
        check_journal(settings, clock=invocation.clock)
    bad = BadLines()
    with _opened(file) as source:
        lines = source if keep_going else _all_good(source, bad)
        with (
            open_journal(settings=settings, clock=invocation.clock) as journal,
            ProgressLine("Importing:", clock=invocation.clock) as progress,
        ):
            count = _store(journal, lines, bad, progress)
    for line in bad.lines():
        remark(line)
    remark(f"Imported {count:,} events." + (f" {bad.count:,} lines were left out." if bad.count else ""))
    return of_success(not bad.count)


def _opened(file: Path) -> nullcontext[BinaryIO] | BinaryIO:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error


def _all_good(source: BinaryIO, bad: BadLines) -> Iterable[bytes]:
    """The lines, after every one of them was checked. A file is read twice, a pipe is kept in memory."""
    lines = source if source.seekable() else source.readlines()
    for number, line in enumerate(lines, 1):
        _parsed(number, line, bad)
    if bad.count:
        told = "\n".join(bad.lines())
        raise InvalidInput(
            f"{count_text(bad.count, 'invalid line')}, nothing imported:\n{told}\n"
            "Fix the file, or import the valid lines with --keep-going."
        )
    if source.seekable():
        source.seek(0)
    return lines


def _store(journal: Journal, lines: Iterable[bytes], bad: BadLines, progress: ProgressLine) -> int:
    count = 0
    batch: list[tuple[int, Event]] = []

    def append() -> None:
        nonlocal count
        refused = _append([event for _, event in batch], journal)
        for number, event in batch:
            if event.event_id in refused:
                bad.add(f"line {number}", f"event id {event.event_id} already names another event")
        count += sum(event.event_id not in refused for _, event in batch)
        progress.at(count)
        batch.clear()

    for number, line in enumerate(lines, 1):
        event = _parsed(number, line, bad)
        if event is not None:
            batch.append((number, event))
        if len(batch) >= BATCH_EVENTS:
            append()
    append()
    return count


def _append(events: list[Event], journal: Journal) -> frozenset[str]:
    try:
        journal.append(events)
    except EventConflict as conflict:  # the rest of the batch is stored
        return frozenset(conflict.event_ids)
    return frozenset()


def _parsed(number: int, line: bytes, bad: BadLines) -> Event | None:
    if not line.strip():
        return None
    try:
        event = from_line(line)
        encode_payload(event.payload)  # what no journal would take
    except (InvalidInput, InvalidEvent, ValueError, RecursionError) as error:
        bad.add(f"line {number}", str(error))
        return None
    return event
