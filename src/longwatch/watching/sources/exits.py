"""How a process that is not our child ended, where the system tells.

A process is held open from the first look on. From Linux 6.15 on the kernel keeps its exit status for whoever
holds it; before, the status is to be read only between its end and its parent's question, and only by the
same user.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import sys
from pathlib import Path

from longwatch.model.process import ProcessIdentity, process_started

_INFO = struct.Struct("=QQ11Ii")  # struct pidfd_info of linux/pidfd.h in its first version
_GET_INFO = (
    (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
)  # _IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)
_HAS_EXIT = 1 << 3
_EXIT_FIELD = 49  # of /proc/PID/stat, counted after the name


class Opened:
    """A process that is held open, so that the kernel remembers how it ended."""

    def __init__(self, process: ProcessIdentity) -> None:
        self._process = process
        self._descriptor = _opened(process)
        self._status: int | None = None

    def exit_status(self) -> int | None:
        """As `waitpid` has it, once it has ended; None if it is not to be read."""
        if self._status is None and self._descriptor is not None:
            self._status = _remembered(self._descriptor)
        if self._status is None:
            self._status = _left_behind(self._process)
        if self._status is not None or process_started(self._process.pid) != self._process.started:
            self.close()  # nothing more is to be read; who watches many would run out of descriptors
        return self._status

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def ending_words(status: int) -> str:
    """`exited with 3`, or `killed by SIGKILL`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    return f"exited with {os.WEXITSTATUS(status)}"


def _opened(process: ProcessIdentity) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Between being recognised and being opened its id may have gone to another.
    if process.started is not None and process_started(process.pid) != process.started:
        os.close(descriptor)
        return None
    return descriptor


def _remembered(descriptor: int) -> int | None:
    import fcntl

    asked = bytearray(_INFO.size)
    struct.pack_into("=Q", asked, 0, _HAS_EXIT)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, asked)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ESRCH, errno.EOPNOTSUPP, errno.EPERM):
            return None
        raise
    fields = _INFO.unpack(asked)
    return int(fields[-1]) if fields[0] & _HAS_EXIT else None


def _left_behind(process: ProcessIdentity) -> int | None:
    """The status in what is left of it. The kernel shows zero to those it does not trust: never read that."""
    if sys.platform != "linux":
        return None
    place = Path(f"/proc/{process.pid}")
    try:
        fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
        owners = {
            line.split()[0]: line.split()[1:]
            for line in (place / "status").read_text().splitlines()
            if line[1:3] == "id"
        }
    except OSError:
        return None
    ours = {"Uid:": os.geteuid(), "Gid:": os.getegid()}
    trusted = all(owners.get(name) == [str(mine)] * 4 for name, mine in ours.items())
    is_same = process.started is None or fields[19] == str(process.started)
    return int(fields[_EXIT_FIELD]) if trusted and is_same and fields[0] == "Z" else None
