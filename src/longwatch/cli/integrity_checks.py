"""What `longwatch doctor` looks at for damage: the structure of a journal's file, and what its rows hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from longwatch.cli.journal_checks import Finding
from longwatch.cli.render.terminal import ProgressLine
from longwatch.cli.resolve import sqlite_path
from longwatch.clock import Clock
from longwatch.journal.sqlite.salvage import Salvage
from longwatch.model.event import UNREADABLE
from longwatch.settings import Settings

SAMPLE = 2_000  # events, from the whole file, that are decoded unless all are
MOST_FAULTS = 10  # of the structure that are listed


def look_at_integrity(settings: Settings, clock: Clock, full: bool, finding: Finding) -> None:
    """Whether the file is sound and its events can be decoded."""
    path = sqlite_path(settings.journal)
    if path is None or not path.exists():
        why = "only a journal in a file can be checked" if path is None else "there is no file yet"
        finding.add("checked", "nothing", why)
        return
    path = path.absolute()
    faults = structure_faults(path)
    finding.add("structure", "damaged" if faults else "sound", "PRAGMA integrity_check")
    finding.problems += [f"SQLite reports: {fault}" for fault in faults[:MOST_FAULTS]]
    with (
        Salvage(path, now_seconds=clock.now_ms() // 1000) as salvage,
        ProgressLine("Decoding events:", clock=clock) as progress,
    ):
        # A sample is of no use in a file that is known to be damaged: what is affected is wanted then.
        every = 1 if full or faults else max(1, salvage.last_position() // SAMPLE)
        sample = salvage.arrivals(progress=progress.at) if every == 1 else salvage.sample(every)
        decoded, unreadable = 0, dict[str, int]()
        for _, event in sample:
            decoded += 1
            if event.type == UNREADABLE:
                unreadable[event.run_id] = unreadable.get(event.run_id, 0) + 1
        lost = salvage.lost_rows
    finding.add(
        "decoded", f"{decoded:,} events", "all" if every == 1 else f"1 of {every}; --full decodes all"
    )
    for run_id, count in sorted(unreadable.items()):
        events = "1 event" if count == 1 else f"{count:,} events"
        finding.problems.append(f"{events} of run {run_id} cannot be read: `longwatch verify {run_id}`.")
    if lost > sum(unreadable.values()):
        finding.problems.append(f"At {lost:,} positions nothing can be read, not even which run was there.")
    if finding.problems:
        finding.problems.append(
            f"Salvage what is readable into a new file: `longwatch recover {path} --to NEW.db`. "
            "Check the disk, and keep the damaged file until the new one is verified."
        )


def structure_faults(path: Path) -> list[str]:
    """What SQLite says is wrong with the file; nothing if it is sound.

    The quick check would not do: it does not compare indexes with their tables, and an index that lacks an
    entry hides an event.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return [str(error)]
    lines = [line for (text,) in found for line in str(text).splitlines()]
    return [] if lines == ["ok"] else lines
