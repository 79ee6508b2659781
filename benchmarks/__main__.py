"""`python -m benchmarks [NAME…] [--quick] [--check]`."""

from __future__ import annotations

import argparse
import importlib
import platform
import sqlite3
import sys
import time

from benchmarks.executions import PARTS as EXECUTION_PARTS
from benchmarks.following import PARTS

NAMES = (
    *("caller", "durable", "reading", "starting", "following", "cadence", "executions", "redaction"),
    *("serving", "frameworks", "ingestion"),
    *("large", "page"),
)
SOME = frozenset(
    {*NAMES, *(f"following.{part}" for part in PARTS), *(f"executions.{part}" for part in EXECUTION_PARTS)}
)


def main() -> int:
    """Run the chosen benchmarks, print their tables, and list the goals that were missed."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(sorted(SOME))}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller journals")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal was missed")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - SOME)
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(sorted(SOME))}")
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    missed = 0
    for name in options.names or NAMES:
        started = time.perf_counter()
        for result in importlib.import_module(f"benchmarks.{name}").measure(quick=options.quick):
            print(result, flush=True)
            missed += sum(not goal.met for goal in result.goals)
        print(f"({name}: {time.perf_counter() - started:.0f} s)", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
