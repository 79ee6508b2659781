"""Checks the outbox of an exited process for undelivered events of a run."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from urllib.parse import quote

BUSY_SECONDS = 1.0
FIND_WAITING = "SELECT 1 FROM waiting WHERE refused IS NULL AND json_extract(line, '$.run_id') = ? LIMIT 1"


def may_have_undelivered(outbox: str | None, run_id: str) -> bool:
    """Whether this file contains events of the run; True for a file that cannot be read.

    The path is from an event, so it may name anything: a directory of another user, a pipe, an invalid path.
    """
    if outbox is None:
        return False
    try:
        is_file = stat.S_ISREG(Path(outbox).stat().st_mode)
        return not is_file or _has_events(outbox, run_id)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, sqlite3.Error):
        return True


def _has_events(outbox: str, run_id: str) -> bool:
    path = quote(os.fsencode(outbox))
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    try:
        return connection.execute(FIND_WAITING, (run_id,)).fetchone() is not None
    finally:
        connection.close()
