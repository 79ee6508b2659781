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
class InvalidLines:
    """The reasons of the first invalid lines, and the number of all."""

    reasons: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, where: str, reason: str) -> None:
        self.count += 1
        if len(self.reasons) < MOST_REPORTED:
            self.reasons.append(f"{where}: {reason}")

    def lines(self) -> Iterator[str]:
        """One line for each reason, and one for the rest."""
        yield from self.reasons
        if self.count > len(self.reasons):
            yield f"… and {self.count - len(self.reasons):,} more"


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--keep-going", is_flag=True, help="Import the valid lines and skip the invalid ones.")
@common_options
@pass_invocation
def command(invocation: Invocation, file: Path, keep_going: bool) -> int:
    """Read events from JSON lines.

    FILE is the output of `longwatch export`, or - for stdin. Events that the journal already has are skipped,
    so importing twice is harmless. If any line is invalid, nothing is imported unless --keep-going is given.
    """
    settings = invocation.settings()
    if sqlite_path(settings.journal) is None:  # a file may be new, a table has to exist
        check_journal(settings, clock=invocation.clock)
    bad = InvalidLines()
    with _open(file) as source:
        lines = source if keep_going else _check_lines(source, bad)
        with (
            open_journal(settings=settings, clock=invocation.clock) as journal,
            ProgressLine("Importing:", clock=invocation.clock) as progress,
        ):
            count = _store(journal, lines, bad, progress)
    for line in bad.lines():
        remark(line)
    skipped = f" {count_text(bad.count, 'invalid line')} skipped." if bad.count else ""
    remark(f"Imported {count_text(count, 'event')}.{skipped}")
    return of_success(not bad.count)


def _open(file: Path) -> nullcontext[BinaryIO] | BinaryIO:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error


def _check_lines(source: BinaryIO, bad: InvalidLines) -> Iterable[bytes]:
    """Check every line, then return them all. A file is read twice, a pipe is held in memory."""
    lines = source if source.seekable() else source.readlines()
    for number, line in enumerate(lines, 1):
        _parse(number, line, bad)
    if bad.count:
        reasons = "\n".join(bad.lines())
        raise InvalidInput(
            f"{count_text(bad.count, 'invalid line')}, nothing imported:\n{reasons}\n"
            "Fix the file, or pass --keep-going to import the valid lines."
        )
    if source.seekable():
        source.seek(0)
    return lines


def _store(journal: Journal, lines: Iterable[bytes], bad: InvalidLines, progress: ProgressLine) -> int:
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
        event = _parse(number, line, bad)
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


def _parse(number: int, line: bytes, bad: InvalidLines) -> Event | None:
    if not line.strip():
        return None
    try:
        event = from_line(line)
        encode_payload(event.payload)  # raises for a payload that no journal accepts
    except (InvalidInput, InvalidEvent, ValueError, RecursionError) as error:
        bad.add(f"line {number}", str(error))
        return None
    return event
