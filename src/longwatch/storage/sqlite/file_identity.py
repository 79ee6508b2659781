"""Which file a connection has open, and what is at its path now.

SQLite opens the database, its write-ahead log and its shared index by path and then keeps the descriptors. A
file that is deleted, moved or replaced after that still takes commits, which no other process ever sees. So
a database compares device and inode before it acknowledges a commit or returns rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl  # not later: a signal handler that waits for a thread may hold the lock of an import

LOG, INDEX = "-wal", "-shm"


class Change(Enum):
    """What happened to a file while it was open."""

    DELETED = "was deleted or moved"
    REPLACED = "was replaced by another file"
    EMPTIED = "was truncated to 0 bytes"
    LOG_REPLACED = "has lost its write-ahead log (the -wal or -shm file was deleted or replaced)"


class Seen(NamedTuple):
    """One file at one moment. A missing file has no identity and no bytes."""

    identity: tuple[int, int] | None = None  # device and inode
    size: int = 0


MISSING = Seen()


class Files(NamedTuple):
    """A database and the two files beside it at one moment."""

    main: Seen
    log: Seen
    shm: Seen  # the index of the log, shared by all processes

    @classmethod
    def at(cls, path: str, target: str) -> Files:
        """What is at this path now. SQLite has the log beside `target`, the path without symbolic links.

        Raises OSError if that can not be determined.
        """
        return cls(_seen(path), _seen(target + LOG), _seen(target + INDEX))

    def change(self, now: Files) -> Change | None:
        """How the files have changed since these were opened; None if they are still the same."""
        if now.main.identity is None:
            return Change.DELETED
        if now.main.identity != self.main.identity:
            return Change.REPLACED
        if not now.main.size:
            return Change.EMPTIED
        if now.log.identity != self.log.identity or now.shm.identity != self.shm.identity:
            return Change.LOG_REPLACED
        return None

    def must_checkpoint(self, now: Files) -> bool:
        """Whether commits that are only in the open log have to be copied into the open database.

        Not while the path still leads to that log; not into a file that was emptied; and not over the
        commits of a process that has begun another log for the same database.
        """
        match self.change(now):
            case Change.DELETED | Change.REPLACED:
                return True
            case Change.LOG_REPLACED:
                return now.log.identity != self.log.identity and not now.log.size
            case _:
                return False


def _seen(path: str) -> Seen:
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each commit, and a Path takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    return Seen((found.st_dev, found.st_ino), found.st_size)


def set_aside(
    path: Path, opened: Files | None, *, stamp: int, change: Change, is_copied: bool
) -> Path | None:
    """Remove the log and the index of a database that is gone, so that the next one does not get them.

    SQLite applies a log that it finds beside a file to that file, whichever database wrote it. `opened`
    limits this to the files that a connection had open. `is_copied`: the database has everything that is in
    the log. Otherwise the log is kept under another name, which is returned. An emptied database is
    replaced by a new file.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in (LOG, INDEX))
    kept: Path | None = None
    found = _seen(str(log))
    if found.identity is not None and (opened is None or found.identity == opened.log.identity):
        if found.size and not is_copied:
            kept = path.with_name(f"{path.name}.{stamp}{LOG}")
            if change is Change.EMPTIED:  # the last connection to close would copy the open log into the file
                kept.touch(mode=0o600)
                kept.write_bytes(log.read_bytes())
                os.truncate(log, 0)
            else:
                log.rename(kept)
        log.unlink(missing_ok=True)
    found = _seen(str(index))
    if found.identity is not None and (opened is None or found.identity == opened.shm.identity):
        index.unlink(missing_ok=True)
    if change is Change.EMPTIED and opened is not None:
        _replace_emptied(path, opened, stamp)
    return kept


def _replace_emptied(path: Path, opened: Files, stamp: int) -> None:
    """Put a new empty file in the place of an emptied one, unless that has been used since.

    A process that has the emptied one open and is idle holds a lock on it, so no journal could begin in it.
    """
    if _seen(str(path)) != Seen(opened.main.identity, 0):
        return
    fresh = path.with_name(f"{path.name}.{stamp}-new")
    fresh.touch(mode=0o600, exist_ok=False)
    fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time create or set aside files in this folder, where the system has such locks."""
    if sys.platform == "win32":  # where an open file can be neither deleted nor replaced
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
