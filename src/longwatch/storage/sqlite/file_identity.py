"""Detects that the file at a database's path is no longer the one that its connections have open.

SQLite opens the database, its write-ahead log and its shared index by path and keeps the descriptors. A file
that is deleted, moved or replaced afterwards still accepts commits, which no other process ever sees. So a
database compares device and inode before it acknowledges a commit or returns rows.
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
    import fcntl  # not lazily: a signal handler that waits for a thread may hold an import lock

LOG, INDEX = "-wal", "-shm"


class Change(Enum):
    """What happened to a file while it was open."""

    DELETED = "was deleted or moved"
    REPLACED = "was replaced by another file"
    EMPTIED = "was truncated to 0 bytes"
    LOG_REPLACED = "has lost its write-ahead log (the -wal or -shm file was deleted or replaced)"


class FileIdentity(NamedTuple):
    """One file at one moment. A missing file has no identity and no bytes."""

    identity: tuple[int, int] | None = None  # device and inode
    size: int = 0


MISSING = FileIdentity()


class Files(NamedTuple):
    """A database and the two files beside it at one moment."""

    main: FileIdentity
    log: FileIdentity
    shm: FileIdentity  # the index of the log, shared by all processes

    @classmethod
    def at(cls, path: str, target: str) -> Files:
        """What is at this path now. SQLite has the log beside `target`, the path without symbolic links.

        Raises OSError if that cannot be determined.
        """
        return cls(_identify(path), _identify(target + LOG), _identify(target + INDEX))

    def change(self, now: Files) -> Change | None:
        """How the files have changed since they were opened; None if they have not."""
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

        Not while that log is still at its path, not into an emptied file, and not over the commits of a
        process that has started another log for the same database.
        """
        match self.change(now):
            case Change.DELETED | Change.REPLACED:
                return True
            case Change.LOG_REPLACED:
                return now.log.identity != self.log.identity and not now.log.size
            case _:
                return False


def _identify(path: str) -> FileIdentity:
    try:
        found = os.stat(path)  # noqa: PTH116 - runs for each commit, and a Path takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    return FileIdentity((found.st_dev, found.st_ino), found.st_size)


def set_aside(
    path: Path, opened: Files | None, *, stamp: int, change: Change, is_copied: bool
) -> Path | None:
    """Remove the log and the index of a lost database, so that SQLite does not apply them to the next one.

    SQLite applies a log beside a file to that file, whichever database wrote it. `opened` limits the removal
    to the files that a connection had open. `is_copied`: the database contains everything in the log;
    otherwise the log is renamed and the new path is returned. An emptied database is replaced by a new file.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in (LOG, INDEX))
    saved: Path | None = None
    found = _identify(str(log))
    if found.identity is not None and (opened is None or found.identity == opened.log.identity):
        if found.size and not is_copied:
            saved = path.with_name(f"{path.name}.{stamp}{LOG}")
            if change is Change.EMPTIED:  # the last connection to close would copy the open log into the file
                saved.touch(mode=0o600)
                saved.write_bytes(log.read_bytes())
                os.truncate(log, 0)
            else:
                log.rename(saved)
        log.unlink(missing_ok=True)
    found = _identify(str(index))
    if found.identity is not None and (opened is None or found.identity == opened.shm.identity):
        index.unlink(missing_ok=True)
    if change is Change.EMPTIED and opened is not None:
        _replace_emptied(path, opened, stamp)
    return saved


def _replace_emptied(path: Path, opened: Files, stamp: int) -> None:
    """Replace an emptied file by a new empty one, unless it has been used since.

    An idle process that has the emptied file open holds a lock on it, so no journal could be created in it.
    """
    if _identify(str(path)) != FileIdentity(opened.main.identity, 0):
        return
    fresh = path.with_name(f"{path.name}.{stamp}-new")
    fresh.touch(mode=0o600, exist_ok=False)
    fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Serialise creating and setting aside files in this folder between processes, where flock exists."""
    if sys.platform == "win32":  # an open file can be neither deleted nor replaced there
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
