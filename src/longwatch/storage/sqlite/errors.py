"""What SQLite's error codes mean to us, in one table."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from longwatch.errors import (
    JournalBusy,
    JournalDamaged,
    JournalFull,
    JournalMoved,
    JournalUnavailable,
    JournalUnusable,
    LongwatchError,
    NotADatabase,
    ReadOnlyJournal,
)
from longwatch.storage.sqlite.file_identity import Change

_BY_ERRNO = {  # trouble with the folder, before SQLite comes to it -> the code SQLite has for the same
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
}


_UNDECODABLE = "Could not decode to UTF-8"  # how Python's sqlite3 begins, without a code of SQLite

_NEXT_STEP = {
    Change.DELETED: "Restore it, or restart this process to create a new file.",
    Change.REPLACED: "The next attempt uses the current file.",
    Change.EMPTIED: "Restore it from a backup; the next attempt uses the restored file.",
    Change.LOG_REPLACED: "Only SQLite may change these files; the next attempt reopens the journal.",
}


def moved(path: Path, change: Change, kept_log: Path | None = None) -> JournalMoved:
    """The file that was open is no longer the one at its path."""
    kept = (
        f" Data that was only in the write-ahead log is saved in {kept_log}." if kept_log is not None else ""
    )
    return JournalMoved(f"{path} {change.value} while it was open. {_NEXT_STEP[change]}{kept}")


def translated(error: Exception, path: Path) -> LongwatchError:
    """The same trouble in our words, with what to do about it."""
    if isinstance(error, OSError):
        code: int | None = _BY_ERRNO.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
        return _in_our_words(code, error, path)
    if isinstance(error, UnicodeDecodeError):  # in SQLite's own message, which repeats what is damaged
        return damaged(path, "its schema is not valid UTF-8")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and str(error).startswith(_UNDECODABLE):  # the rest of that message is what was recorded
        return damaged(path, "it contains text that is not valid UTF-8")
    if code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN and _is_read_only(path):
        code = sqlite3.SQLITE_READONLY  # the file is there; its write-ahead log cannot be made beside it
    return _in_our_words(code, error, path)


def damaged(path: Path, reason: str) -> JournalDamaged:
    """Parts of the file cannot be read."""
    return JournalDamaged(
        f"{path} is damaged ({reason}). List the affected runs with `longwatch doctor`, and "
        f"salvage the readable events into a new file with `longwatch recover {path} --to NEW.db`."
    )


def _is_read_only(path: Path) -> bool:
    writable = all(os.access(each, os.W_OK) for each in (path, path.parent))
    return os.path.exists(path) and not writable  # noqa: PTH110 - Path.exists raises without the right to look


def _in_our_words(code: int | None, error: Exception, path: Path) -> LongwatchError:
    primary = code & 0xFF if code is not None else None  # the low byte; the rest is detail
    match primary:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return JournalBusy(
                f"{path} is locked by another process. Try again, or stop the process that holds the lock."
            )
        case sqlite3.SQLITE_FULL:
            return JournalFull(
                f"No space left for {path}. Free some disk space; everything written before is safe."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ReadOnlyJournal(
                f"{path} is not writable. Grant this user write permission on the file and its directory, "
                "or choose another journal with --journal."
            )
        case sqlite3.SQLITE_NOTADB:
            return NotADatabase(
                f"{path} is not a SQLite database. Choose another file with --journal. If it was one, its "
                f"first page is damaged: salvage the rest with `longwatch recover {path} --to NEW.db`."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return JournalUnusable(
                f"{path} cannot be opened. Check that its directory exists and that this user has access."
            )
        case sqlite3.SQLITE_CORRUPT:
            return damaged(path, str(error))
        case sqlite3.SQLITE_IOERR:
            return JournalUnavailable(
                f"Reading or writing {path} failed ({error}). Check the disk, then try again."
            )
        case _:
            return JournalUnusable(f"{path} cannot be used: {error}")
