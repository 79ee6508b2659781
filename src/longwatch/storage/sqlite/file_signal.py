"""Hears that another process has written to a SQLite file: by inotify on its write-ahead log, else by asking.

The log is written before what is in it can be read, by the time that a sync to the disk takes; whether it can
be read is then asked. The log may not be there yet, and it is removed when the last connection closes, so its
folder is watched for that too. A slow check beside it covers what inotify can not see, such as a file on
another machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from longwatch.errors import LongwatchError
from longwatch.storage.change_signal import ChangeSignal
from longwatch.storage.sqlite.database import Database
from longwatch.storage.sqlite.local_signal import OnChange, subscribe, unsubscribe

CHECK_SECONDS = 0.015  # without inotify
CHECK_BESIDE_INOTIFY_SECONDS = 1.0
CHECK_FILES_SECONDS = 1.0  # whether the path still leads to the open file, which costs more than the query

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_IGNORED, IN_Q_OVERFLOW = 0x2, 0x80, 0x100, 0x8000, 0x4000
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 64 * 1024


def watch_file(database: Database, heard: OnChange, *, inotify: bool = True) -> ChangeSignal:
    """Listen to a file that is there. `database` is for this alone, and closed with it."""
    database.prepare()
    if inotify and sys.platform == "linux":
        try:
            return InotifySignal(database, heard)
        except OSError:  # no more watches or descriptors for this user: asking always works
            pass
    return PollingSignal(database, heard)


class PollingSignal:
    """Asks SQLite whether another connection has changed the file."""

    descriptor: int | None = None
    check_seconds: float | None = CHECK_SECONDS

    def __init__(self, database: Database, heard: OnChange) -> None:
        self._database = database
        self._heard = heard
        self._unchecked_seconds = 0.0
        self._version = self._data_version()
        subscribe(database.path, heard)

    def told(self) -> bool:
        return False

    def changed(self) -> bool:
        try:
            version = self._data_version()
        except LongwatchError:  # locked, or worse: whoever looks now has the patience, or tells what is wrong
            return True
        before, self._version = self._version, version
        return version != before

    def _data_version(self) -> tuple[int, int]:
        # One connection of one thread: the number means nothing on another.
        self._unchecked_seconds += self.check_seconds or 0.0
        check_files = self._unchecked_seconds >= CHECK_FILES_SECONDS
        if check_files:
            self._unchecked_seconds = 0.0
        version = int(self._database.fetch("PRAGMA data_version", check_files=check_files)[0][0])
        return self._database.openings, version

    def close(self) -> None:
        unsubscribe(self._database.path, self._heard)
        self._database.close()


class InotifySignal(PollingSignal):
    """Is told by the kernel of every write to the write-ahead log."""

    check_seconds: float | None = CHECK_BESIDE_INOTIFY_SECONDS

    def __init__(self, database: Database, heard: OnChange) -> None:
        path = Path(os.path.realpath(database.path))
        self._log = path.with_name(f"{path.name}-wal")
        self._inotify = Inotify()
        try:
            self._folder_watch = self._inotify.watch(path.parent, IN_CREATE | IN_MOVED_TO)
            self._watch_log()
            super().__init__(database, heard)
        except BaseException:
            self._inotify.close()
            raise
        self.descriptor = self._inotify.descriptor

    def told(self) -> bool:
        told = False
        for watch, mask, name in self._inotify.events():
            if mask & IN_Q_OVERFLOW or (watch == self._folder_watch and name == self._log.name):
                self._watch_log()
                told = True
            elif watch != self._folder_watch and not mask & IN_IGNORED:
                told = True
        return told

    def _watch_log(self) -> None:
        """Watch the log that is there now; if there is none, its folder tells when one is made."""
        try:
            self._inotify.watch(self._log, IN_MODIFY)
            self.check_seconds = CHECK_BESIDE_INOTIFY_SECONDS
        except FileNotFoundError:
            pass
        except OSError:  # no more watches for this user
            self.check_seconds = CHECK_SECONDS

    def close(self) -> None:
        self.descriptor = None
        self._inotify.close()
        super().close()


class DamagedListening:
    """For a file that cannot be opened: says once a second that a repaired one may be there."""

    descriptor: int | None = None
    check_seconds: float | None = CHECK_BESIDE_INOTIFY_SECONDS

    def told(self) -> bool:
        return False

    def changed(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is held."""


class Inotify:
    """The kernel's inotify, through the C library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._checked(
            self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1"
        )

    def watch(self, path: Path, mask: int) -> int:
        """Tell of these changes to a file or in a folder; the same path again gives the same number."""
        number = self._library.inotify_add_watch(self.descriptor, os.fsencode(path), ctypes.c_uint32(mask))
        return self._checked(number, str(path))

    def events(self) -> Iterator[tuple[int, int, str]]:
        """What has happened since the last call: watch, mask, and the name inside a folder."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            name = data[offset : offset + length].rstrip(b"\0")
            offset += length
            yield watch, mask, os.fsdecode(name)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _checked(self, answer: int, what: str) -> int:
        if answer < 0:
            number = ctypes.get_errno() or errno.EIO
            raise OSError(number, os.strerror(number), what)
        return answer
