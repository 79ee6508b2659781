"""Processes of this machine as a source, and the exit status of those that are not children.

A process is held open from the first look on. From Linux 6.15 on the kernel keeps its exit status for whoever
holds it; before, the status is to be read only between its end and its parent's question, and only by the
same user.

The id of a process is used again after it, so a job is called by its id, the time at which it started, its
machine and the namespace in which its id counts. How a process ended is told to its parent. Others learn it
from Linux 6.15 on if they had the process open when it ended, or from what is left of it until the parent has
asked. Elsewhere it has ended, and how is not to be known: that is no failure and no success.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.model import Execution, ExecutionKey, Job, Mode, Stage
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.sources.dates import iso_seconds
from longwatch.executions.sources.declarations import Meaning
from longwatch.executions.sources.mapping import MappedStatus, map_job
from longwatch.model.process import (
    Presence,
    ProcessIdentity,
    probe,
    process_started,
    this_host,
    this_namespace,
)

_INFO = struct.Struct("=QQ11Ii")  # struct pidfd_info of linux/pidfd.h in its first version
_GET_INFO = (
    (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
)  # _IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)
_HAS_EXIT = 1 << 3
_EXIT_FIELD = 49  # of /proc/PID/stat, counted after the name


class ProcessHandle:
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


def exit_text(status: int) -> str:
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


CALL = "process:look"
PREFIX = "pid:"
EVERY_SECONDS = 1.0
LAST_PID, MOST_DIGITS = 2**31 - 1, 11  # what is beyond is no process id anywhere
UNREADABLE = "it has ended, and how was not to be read; `longwatch run` records how a command ends"


class ProcessSource:
    """A `Source` for processes of this machine."""

    name = "process"

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._opened: dict[str, ProcessHandle] = {}
        self._lock = threading.Lock()

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {each.key: self._poll_one(each) for each in executions}

    def begin(
        self, what: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        if not (what.isascii() and what.isdigit() and 1 <= int(what[:MOST_DIGITS]) <= LAST_PID):
            return SourceProblem(f"{what!r} is no process id; write pid:123", lasting=True)
        pid, now = int(what), self._clock.now_ms()
        if sys.platform == "win32":
            return SourceProblem("processes are not watched on Windows", lasting=True)
        process = ProcessIdentity(this_host(), pid, process_started(pid), this_namespace())
        if probe(pid, process.started) is Presence.GONE:
            return None
        job_id = job_id_of(process)
        self._open(job_id, process)
        started = process.started if process.started is not None else iso_seconds(now)
        return Execution(
            execution_id=f"{PREFIX}{pid}@{started}",
            plan_id=_command(pid) or self.name,
            source=self.name,
            mode=Mode.JOB,
            started_at=now - now % 1000,
            stages=(Stage(self.name, (Job(job_id),)),),
            total_stages=1,
            deadline_ms=None,
        )

    def check_id(self, job_id: str) -> SourceProblem | None:
        return None if process_of(job_id) else not_a_process(job_id)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for each in opened:
            each.close()

    def _poll_one(self, execution: Execution) -> SourceResult:
        at = self._clock.now_ms()
        jobs: dict[str, Job] = {}
        for job in (job for wave in execution.stages for job in wave.jobs):
            process = process_of(job.job_id)
            if process is None:
                return not_a_process(job.job_id)
            if not is_on_this_machine(process):
                return SourceProblem(
                    f"process {process.pid} belongs to {process.host}; only there it is seen"
                )
            jobs[job.job_id] = map_job(job, self._look(job.job_id, process), called=f"{PREFIX}{process.pid}")
        return SourceResponse(CALL, at, jobs, next_at=at + round(EVERY_SECONDS * 1000))

    def _look(self, job_id: str, process: ProcessIdentity) -> MappedStatus:
        opened = self._open(job_id, process)
        if probe(process.pid, process.started) is not Presence.GONE:
            return MappedStatus("running", Meaning.RUNNING)
        status = opened.exit_status()
        if status is None:
            return MappedStatus("ended", Meaning.ENDED, UNREADABLE)
        word = exit_text(status)
        if status == 0:
            return MappedStatus(word, Meaning.SUCCEEDED)
        return MappedStatus(word, Meaning.FAILED, word)

    def _open(self, job_id: str, process: ProcessIdentity) -> ProcessHandle:
        with self._lock:
            if job_id not in self._opened:
                self._opened[job_id] = ProcessHandle(process)
            return self._opened[job_id]


def not_a_process(job_id: str) -> SourceProblem:
    """The problem that an id is which names no process and its start."""
    return SourceProblem(f"{job_id!r} is not a process; `longwatch watch pid:123` adds one", lasting=True)


def is_on_this_machine(process: ProcessIdentity) -> bool:
    """Whether a process belongs to this machine and to our pid namespace."""
    if process.host != this_host():
        return False
    return process.namespace is None or process.namespace == this_namespace()


def job_id_of(process: ProcessIdentity) -> str:
    """`123@4567@host@pid:[4026531836]`: all that it is recognised by."""
    started = "" if process.started is None else str(process.started)
    return f"{process.pid}@{started}@{process.host}@{process.namespace or ''}"


def process_of(job_id: str) -> ProcessIdentity | None:
    """The process that a job is."""
    parts = job_id.split("@")
    if len(parts) != 4 or not parts[0].isdigit():
        return None
    pid, started, host, namespace = parts
    return ProcessIdentity(host, int(pid), int(started) if started.isdigit() else None, namespace or None)


def _command(pid: int) -> str | None:
    """What it is called, if that is to be had."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() or None
    except OSError:
        return None
