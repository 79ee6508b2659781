"""The cost of watching executions: finding the open ones, and polling a thousand of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from benchmarks.harness import Result

PARTS = ("discovery", "polling")


def measure(*, quick: bool) -> Iterator[Result]:
    """Every part's table, as soon as it is there."""
    for part in PARTS:
        yield from import_module(f"{__name__}.{part}").measure(quick=quick)
