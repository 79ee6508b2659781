"""Processes of this machine: how one is recognised later, and whether it is still there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from longwatch.events import number_of, text_of

_GONE_STATES = frozenset("ZX")  # ended, and only kept until its parent has asked how


@dataclass(frozen=True, slots=True)
class Process:
    """One process. Its id is used again after it, so the time at which it started belongs to it."""

    host: str
    pid: int
    started: int | None = None  # clock ticks since boot; None where that is not to be had
    namespace: str | None = None  # in which its id counts: containers of one host can have the same ids

    @classmethod
    def of(cls, said: object) -> Process | None:
        """The process that an event tells of, if it does."""
        if not isinstance(said, Mapping):
            return None
        host, pid = text_of(said, "host"), number_of(said, "pid")
        if host is None or pid is None or pid < 1:
            return None
        started = number_of(said, "started")
        return cls(host, int(pid), None if started is None else int(started), text_of(said, "namespace"))

    @property
    def is_here(self) -> bool:
        """Whether it belongs to this machine, so that we can tell what became of it."""
        if self.host != this_host() or sys.platform == "win32":
            return False
        return self.namespace is None or self.namespace == this_namespace()

    def is_gone(self) -> bool:
        """Whether it has ended for certain, which only a process of this machine can have."""
        if not self.is_here:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass  # somebody else's, or no process id at all
        found = _stat(self.pid)
        if found is None:
            return False
        state, started = found
        return state in _GONE_STATES or (self.started is not None and started != self.started)


def this_host() -> str:
    """The name of this machine."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def this_namespace() -> str | None:
    """The namespace in which the process ids that we see count; None where there is only one."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - `pid:[4026531836]` is no path
    except OSError:
        return None


def process_started(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks since boot; None where that is not to be had."""
    found = _stat(pid)
    return None if found is None else found[1]


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process and when it started, as the kernel of Linux tells."""
    if sys.platform != "linux":
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before the bracket may hold anything
    return fields[0], int(fields[19])
