"""The cost of a server: the status of a turn, polled repeatedly, and one run with thousands of viewers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from benchmarks.harness import Result

PARTS = ("status", "fan_out")


def measure(*, quick: bool) -> Iterator[Result]:
    """Every part's table, as soon as it is there."""
    for part in PARTS:
        yield from import_module(f"{__name__}.{part}").measure(quick=quick)
