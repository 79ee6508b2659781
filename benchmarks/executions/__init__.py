"""What it costs to watch executions: finding those that are open, and asking about a thousand of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from benchmarks.harness import Result

PARTS = ("finding", "asking")


def measure(*, quick: bool) -> Iterator[Result]:
    """Every part's table, as soon as it is there."""
    for part in PARTS:
        yield from import_module(f"{__name__}.{part}").measure(quick=quick)
