"""How much load there is: a part that every test run has time for, or all of it with LONGWATCH_LOAD=full."""

from __future__ import annotations

import os

# Read when it is imported: the tests themselves hide the machine's variables.
FULL = os.environ.get("LONGWATCH_LOAD", "") == "full"

CONCURRENT = (10, 50, 100)
OPEN = 1_000
CLOSED_IN_A_TABLE = 100_000 if FULL else 2_000  # a local engine takes a minute or more for all of them
CLOSED_IN_A_FILE = 100_000 if FULL else 20_000
READS = 40 if FULL else 2  # of the index, each of several pages, for an average and a p99
