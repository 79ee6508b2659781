"""What it costs to follow: waiting, polling, hearing of a write, catching up, and all of it for many."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from benchmarks.harness import Result

PARTS = ("idle", "polls", "latency", "catching_up", "dynamodb", "growth")


def measure(*, quick: bool) -> Iterator[Result]:
    """Every part's table, as soon as it is there."""
    for part in PARTS:
        yield from import_module(f"{__name__}.{part}").measure(quick=quick)
