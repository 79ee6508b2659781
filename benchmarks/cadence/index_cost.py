"""What it costs to find the open executions in DynamoDB: by reading the table, or by its index.

Reads are eventually consistent: half a unit for each 4 KB, rounded up for each page of 1 MB. An index with
all attributes has its price too: every change of an execution is written twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

UNIT_BYTES = 4096
WRITE_UNIT_BYTES = 1024
PAGE_BYTES = 1024 * 1024
READ_UNITS = 0.5  # for each 4 KB, eventually consistent; also for a page without anything


@dataclass(frozen=True, slots=True)
class Lookup:
    """One search for the open executions among many closed ones."""

    open: int
    closed: int
    item_bytes: int

    @property
    def scan_units(self) -> float:
        """Read units to go through the whole table."""
        return read_units((self.open + self.closed) * self.item_bytes)

    @property
    def query_units(self) -> float:
        """Read units to ask the index."""
        return read_units(self.open * self.item_bytes)

    @property
    def times(self) -> float:
        """How many times more the scan costs."""
        return self.scan_units / self.query_units

    @property
    def index_write_units(self) -> int:
        """Write units that each change of one execution costs more because of the index."""
        return math.ceil(self.item_bytes / WRITE_UNIT_BYTES)


def read_units(size_bytes: int) -> float:
    """The read units for so many bytes of items."""
    pages, rest = divmod(size_bytes, PAGE_BYTES)
    whole = pages * (PAGE_BYTES // UNIT_BYTES)
    return READ_UNITS * max(whole + math.ceil(rest / UNIT_BYTES), 1)


def closed_for(times: float, *, open: int, item_bytes: int) -> int:
    """How many closed executions there have to be for the scan to cost so many times more."""
    query = Lookup(open, 0, item_bytes).query_units
    return max(math.ceil(times * query / READ_UNITS * UNIT_BYTES / item_bytes) - open, 0)
