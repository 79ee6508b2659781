"""Whether the outbox of a process that is gone still holds events of a run."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

BUSY_SECONDS = 1.0
WAITS = "SELECT 1 FROM waiting WHERE refused IS NULL AND json_extract(line, '$.run_id') = ? LIMIT 1"


def may_wait(outbox: str | None, run_id: str) -> bool:
    """Whether events of the run wait in this file. A file that can not be read may hold some."""
    if outbox is None or not Path(outbox).exists():
        return False
    try:
        connection = sqlite3.connect(f"file:{quote(outbox)}?mode=ro", uri=True, timeout=BUSY_SECONDS)
        try:
            return connection.execute(WAITS, (run_id,)).fetchone() is not None
        finally:
            connection.close()
    except sqlite3.Error:
        return True
