"""Translates SQLite error codes to longwatch errors."""

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

_BY_ERRNO = {  # error of the file system before SQLite opens the file -> equivalent SQLite code
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
}

_UNDECODABLE = "Could not decode to UTF-8"  # Python's sqlite3, without an error code of SQLite

_NEXT_STEP = {
    Change.DELETED: "Restore it, or restart this process to create a new file.",
    Change.REPLACED: "The next attempt uses the current file.",
    Change.EMPTIED: "Restore it from a backup; the next attempt uses the restored file.",
    Change.LOG_REPLACED: "Only SQLite may change these files; the next attempt reopens the journal.",
}


def moved_error(path: Path, change: Change, saved_log: Path | None = None) -> JournalMoved:
    """The open file is no longer the one at its path."""
    saved = "" if saved_log is None else f" Data from the write-ahead log is saved in {saved_log}."
    return JournalMoved(f"{path} {change.value} while it was open. {_NEXT_STEP[change]}{saved}")


def translate_error(error: Exception, path: Path) -> LongwatchError:
    """The longwatch error to raise for an error of SQLite or of the file system."""
    if isinstance(error, OSError):
        code: int | None = _BY_ERRNO.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
        return _from_code(code, error, path)
    if isinstance(error, UnicodeDecodeError):  # raised for SQLite's message, which quotes the damaged text
        return damaged_error(path, "its schema is not valid UTF-8")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and str(error).startswith(_UNDECODABLE):  # the rest of that message is recorded data
        return damaged_error(path, "it contains text that is not valid UTF-8")
    if code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN and _is_read_only(path):
        code = sqlite3.SQLITE_READONLY  # the file exists; its write-ahead log cannot be created beside it
    return _from_code(code, error, path)


def damaged_error(path: Path, reason: str) -> JournalDamaged:
    """Parts of the file cannot be read."""
    return JournalDamaged(
        f"{path} is damaged ({reason}). List the affected runs with `longwatch doctor`, and "
        f"salvage the readable events into a new file with `longwatch recover {path} --to NEW.db`."
    )


def _is_read_only(path: Path) -> bool:
    writable = all(os.access(each, os.W_OK) for each in (path, path.parent))
    return os.path.exists(path) and not writable  # noqa: PTH110 - Path.exists raises without read permission


def _from_code(code: int | None, error: Exception, path: Path) -> LongwatchError:
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
            return damaged_error(path, str(error))
        case sqlite3.SQLITE_IOERR:
            return JournalUnavailable(
                f"Reading or writing {path} failed ({error}). Check the disk, then try again."
            )
        case _:
            return JournalUnusable(f"{path} cannot be used: {error}")
