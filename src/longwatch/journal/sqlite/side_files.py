"""The files beside a SQLite journal that contain copies of its events. They can be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path


def search_path(journal: Path) -> Path:
    """The index of the text of events."""
    return _beside(journal, "-search")


def snapshots_path(journal: Path) -> Path:
    """The views of large runs."""
    return _beside(journal, "-snapshots")


def _beside(journal: Path, suffix: str) -> Path:
    real = Path(os.path.realpath(journal))  # all symbolic links to a journal share the file
    return real.with_name(f"{real.name}{suffix}")


def delete_file(path: Path) -> None:
    """Delete a file with those that SQLite keeps beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
