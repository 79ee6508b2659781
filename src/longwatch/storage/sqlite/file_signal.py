"""Notices writes of other processes to a SQLite file: inotify on its write-ahead log, else `data_version`.

inotify reports a write before a reader sees it: SQLite writes to the log first, syncs, and then commits. The
log may not exist yet, and the last connection to close removes it, so its folder is watched too. A slow poll
of `data_version` covers writes that inotify does not report, such as those of another machine.
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
from longwatch.storage.change_signal import ChangeSignal, OnChange, local_signal
from longwatch.storage.sqlite.database import Database

CHECK_SECONDS = 0.015  # without inotify
CHECK_BESIDE_INOTIFY_SECONDS = 1.0
CHECK_FILES_SECONDS = (
    1.0  # between checks that the path leads to the open file: they cost more than the query
)

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_IGNORED, IN_Q_OVERFLOW = 0x2, 0x80, 0x100, 0x8000, 0x4000
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 64 * 1024


def watch_file(database: Database, on_change: OnChange, *, inotify: bool = True) -> ChangeSignal:
    """Subscribe to the writes to an existing file. The signal alone uses `database`, and closes it."""
    database.prepare()
    if inotify and sys.platform == "linux":
        try:
            return InotifySignal(database, on_change)
        except OSError:  # this user has no more watches or descriptors: polling always works
            pass
    return PollingSignal(database, on_change)


class PollingSignal:
    """Polls the number that SQLite changes when another connection commits."""

    descriptor: int | None = None
    check_seconds: float | None = CHECK_SECONDS

    def __init__(self, database: Database, on_change: OnChange) -> None:
        self._database = database
        self._unchecked_seconds = 0.0
        self._version = self._data_version()
        self._local = local_signal(database.path).subscribe(on_change)

    def drain(self) -> bool:
        return False

    def changed(self) -> bool:
        try:
            version = self._data_version()
        except LongwatchError:  # locked, or worse: the next read waits for the lock or reports the error
            return True
        before, self._version = self._version, version
        return version != before

    def _data_version(self) -> tuple[int, int]:
        # The number is only valid for one connection, which belongs to one thread.
        self._unchecked_seconds += self.check_seconds or 0.0
        check_files = self._unchecked_seconds >= CHECK_FILES_SECONDS
        if check_files:
            self._unchecked_seconds = 0.0
        version = int(self._database.fetch("PRAGMA data_version", check_files=check_files)[0][0])
        return self._database.openings, version

    def close(self) -> None:
        self._local.close()
        self._database.close()


class InotifySignal(PollingSignal):
    """Gets every write to the write-ahead log from the kernel."""

    check_seconds: float | None = CHECK_BESIDE_INOTIFY_SECONDS

    def __init__(self, database: Database, on_change: OnChange) -> None:
        path = Path(os.path.realpath(database.path))
        self._log = path.with_name(f"{path.name}-wal")
        self._inotify = Inotify()
        try:
            self._folder_watch = self._inotify.watch(path.parent, IN_CREATE | IN_MOVED_TO)
            self._watch_log()
            super().__init__(database, on_change)
        except BaseException:
            self._inotify.close()
            raise
        self.descriptor = self._inotify.descriptor

    def drain(self) -> bool:
        is_written = False
        for watch, mask, name in self._inotify.events():
            if mask & IN_Q_OVERFLOW or (watch == self._folder_watch and name == self._log.name):
                self._watch_log()
                is_written = True
            elif watch != self._folder_watch and not mask & IN_IGNORED:
                is_written = True
        return is_written

    def _watch_log(self) -> None:
        """Watch the present log. Without one, the watch of the folder reports when it is created."""
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


class DamagedFileSignal:
    """For a file that cannot be opened: reports every second that a repaired one may be there."""

    descriptor: int | None = None
    check_seconds: float | None = CHECK_BESIDE_INOTIFY_SECONDS

    def drain(self) -> bool:
        return False

    def changed(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to release."""


class Inotify:
    """The kernel's inotify, through the C library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._checked(
            self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1"
        )

    def watch(self, path: Path, mask: int) -> int:
        """Report these changes to a file or in a folder. The same path gets the same number again."""
        number = self._library.inotify_add_watch(self.descriptor, os.fsencode(path), ctypes.c_uint32(mask))
        return self._checked(number, str(path))

    def events(self) -> Iterator[tuple[int, int, str]]:
        """The changes since the last call: watch, mask, and the name inside a folder."""
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

    def _checked(self, result: int, what: str) -> int:
        if result < 0:
            number = ctypes.get_errno() or errno.EIO
            raise OSError(number, os.strerror(number), what)
        return result
