"""Colours and symbols: a line consists of segments with named styles, applied when it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from longwatch.cli.render.text import clean, columns_of
from longwatch.model.run import Status


class Segment(NamedTuple):
    """A piece of a line. `style` is a key of `_STYLES`, or empty."""

    text: str
    style: str = ""


StyledLine = Sequence[Segment]

_STYLES: Mapping[str, Mapping[str, object]] = {
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
    "busy": {"fg": "cyan"},
    "model": {"fg": "magenta"},
    "dim": {"dim": True},
    "strong": {"bold": True},
}


class Look(NamedTuple):
    """The symbol of a status, which differs even without colour, and its style."""

    symbol: str
    style: str


STATUS_LOOKS: Mapping[Status, Look] = {
    Status.PENDING: Look("○", "dim"),
    Status.RUNNING: Look("●", "busy"),
    Status.SUCCEEDED: Look("✓", "good"),
    Status.FAILED: Look("✗", "bad"),
    Status.PARTIAL: Look("◐", "warn"),
    Status.CANCELLED: Look("⊘", "warn"),
    Status.DIED: Look("†", "bad"),
    Status.UNKNOWN: Look("?", "warn"),
}

_CALL_LOOKS: Mapping[str, Look] = {
    "started": Look("●", "busy"),
    "completed": Look("✓", "good"),
    "failed": Look("✗", "bad"),
    "skipped": Look("–", "dim"),
    "abandoned": Look("†", "warn"),
}


def call_look(status: str) -> Look:
    """The symbol and style of a call's status; a neutral one for statuses of other producers."""
    return _CALL_LOOKS.get(status, Look("·", ""))


def paint(line: StyledLine, *, colour: bool) -> str:
    """The line as cleaned text, with our own escape sequences if `colour` is set."""
    if not colour:
        return "".join(clean(segment.text) for segment in line).rstrip()
    return "".join(_paint_segment(segment) for segment in line).rstrip()


def line_columns(line: StyledLine) -> int:
    """How many columns the line takes."""
    return sum(columns_of(segment.text) for segment in line)


def _paint_segment(segment: Segment) -> str:
    style, text = _STYLES.get(segment.style), clean(segment.text)
    return click.style(text, **style) if style and text.strip() else text  # type: ignore[arg-type]
