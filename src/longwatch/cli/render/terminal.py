"""The terminal: what it can display, and a progress line on standard error for slow work.

Every text that a command prints passes through here and so through `longwatch.cli.render.text`, because
names and messages come from payloads and must not control the terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

import click

from longwatch.cli.render.styles import StyledLine, paint
from longwatch.cli.render.text import clean, clean_json, clean_lines
from longwatch.clock import Clock

if TYPE_CHECKING:
    import logging

T = TypeVar("T")

SHOWN_AFTER_SECONDS = 0.5
REDRAWN_EVERY_SECONDS = 0.1


class ProgressLine:
    """Shows a count once the work turns out to be slow; prints nothing if stderr is not a terminal."""

    def __init__(self, label: str, *, clock: Clock, total: int | None = None) -> None:
        self._label = label
        self._clock = clock
        self._total = total
        self._count = 0
        self._next_draw = clock.monotonic() + SHOWN_AFTER_SECONDS
        self._drawn = False
        self._visible = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Add to the count."""
        self.at(self._count + count)

    def at(self, count: int, total: int | None = None) -> None:
        """Set the count, and the total if it is known."""
        self._count = count
        self._total = total if total is not None else self._total
        if self._visible and self._clock.monotonic() >= self._next_draw:
            self._draw()

    def _draw(self) -> None:
        self._next_draw = self._clock.monotonic() + REDRAWN_EVERY_SECONDS
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{clean(progress_text(self._label, self._count, self._total))}")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_text(label: str, count: int, total: int | None) -> str:
    """`Reading 1,500 of 12,000 (12 %)`."""
    if not total or count > total:
        return f"{label} {count:,}"
    return f"{label} {count:,} of {total:,} ({100 * count // total} %)"


NARROWEST_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where lines are printed. Without a width nothing is cut: the reader is a file or another program."""

    columns: int | None = None
    rows: int | None = None  # None: lines do not scroll away
    colour: bool = False

    @classmethod
    def of_stdout(cls) -> Terminal:
        """The current size and colour support of standard output."""
        return cls(
            columns=_columns(sys.stdout, os.environ),
            rows=_rows(sys.stdout, os.environ),
            colour=wants_colour(sys.stdout, os.environ),
        )

    def show(self, lines: Iterable[StyledLine]) -> None:
        """Print these lines at once."""
        self.print_painted(map(self.paint, lines))

    def paint(self, line: StyledLine) -> str:
        """The line as this terminal displays it."""
        return paint(line, colour=self.colour)

    def print_painted(self, lines: Iterable[str]) -> None:
        """Print lines of `paint` at once."""
        text = "\n".join(lines)
        if text:
            click.echo(text, color=self.colour)


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """NO_COLOR disables colour, FORCE_COLOR enables it; otherwise the terminal decides."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


def _columns(stream: TextIO, environment: Mapping[str, str]) -> int | None:
    columns = environment.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(int(columns), NARROWEST_COLUMNS)
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, NARROWEST_COLUMNS) or None
    except (OSError, ValueError):
        return None


def _rows(stream: TextIO, environment: Mapping[str, str]) -> int | None:
    if not stream.isatty():
        return None
    rows = environment.get("LINES", "")
    if rows.isdigit() and int(rows) > 0:
        return int(rows)
    try:
        return os.get_terminal_size(stream.fileno()).lines or None
    except (OSError, ValueError):
        return None


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`, so that a closed pipe is noticed between two prints."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def remark(text: str) -> None:
    """Print a message on standard error, apart from the data."""
    click.echo(clean_lines(text), err=True)


def write_text(text: str = "") -> None:
    """Write a result for people to standard output."""
    click.echo(clean_lines(text))


def write_data(lines: Iterable[str]) -> None:
    """Write lines of data to standard output. Data is UTF-8 whatever the terminal's own encoding.

    Other programs get it as it is. On a terminal, control characters are written as JSON escapes them.
    """
    text = "\n".join(lines)
    if text:
        sys.stdout.flush()
        stream = sys.stdout.buffer
        shown = clean_json(text) if sys.stdout.isatty() else text
        stream.write(shown.encode() + b"\n")
        stream.flush()


def clean_logs() -> None:
    """Pass log records of libraries and of longwatch through the sanitiser too."""
    import logging

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(log_formatter("%(message)s"))


def log_formatter(form: str) -> logging.Formatter:
    """A formatter that escapes control characters."""
    import logging

    class CleanFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return clean_lines(super().format(record))

    return CleanFormatter(form)


def write_json(value: object) -> None:
    """Write one JSON document for people and programs."""
    write_data([json.dumps(value, indent=2, ensure_ascii=False, default=vars)])


def write_json_lines(values: Iterable[object]) -> None:
    """Write one JSON document per line."""
    write_data(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=vars) for value in values)


def write_document(value: object, output: str) -> None:
    """Write one document as `-o` states: indented as json, on one line as jsonl."""
    if output == "json":
        write_json(value)
    else:
        write_json_lines([value])
