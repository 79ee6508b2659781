"""Processes of this machine as a source, with the exit status of those that are not children.

The kernel reports the exit status of a process to its parent. Other processes can read it from Linux 6.15 on
if they hold a pidfd of the process when it exits, so the source opens one at the first poll. On older kernels
the status can only be read from the zombie, before the parent waits for it, and only by the same user.
Otherwise the process has ended with an unknown outcome, which is neither a failure nor a success.

Process ids are reused, so a job is identified by pid, start time, machine and pid namespace.
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
    """An open pidfd of a process, so that the kernel keeps its exit status."""

    def __init__(self, process: ProcessIdentity) -> None:
        self._process = process
        self._descriptor = _open_pidfd(process)
        self._status: int | None = None

    def exit_status(self) -> int | None:
        """The status as of `waitpid`, once the process has ended; None if it cannot be read."""
        if self._status is None and self._descriptor is not None:
            self._status = _pidfd_status(self._descriptor)
        if self._status is None:
            self._status = _zombie_status(self._process)
        if self._status is not None or process_started(self._process.pid) != self._process.started:
            self.close()  # nothing more can be read; many watches would run out of descriptors
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


def _open_pidfd(process: ProcessIdentity) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # The pid may have been reused between the check and the call.
    if process.started is not None and process_started(process.pid) != process.started:
        os.close(descriptor)
        return None
    return descriptor


def _pidfd_status(descriptor: int) -> int | None:
    import fcntl

    info = bytearray(_INFO.size)
    struct.pack_into("=Q", info, 0, _HAS_EXIT)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, info)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ESRCH, errno.EOPNOTSUPP, errno.EPERM):
            return None
        raise
    fields = _INFO.unpack(info)
    return int(fields[-1]) if fields[0] & _HAS_EXIT else None


def _zombie_status(process: ProcessIdentity) -> int | None:
    """The status of the zombie. The kernel shows zero to other users, so theirs is never read."""
    if sys.platform != "linux":
        return None
    folder = Path(f"/proc/{process.pid}")
    try:
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        owners = {
            line.split()[0]: line.split()[1:]
            for line in (folder / "status").read_text().splitlines()
            if line[1:3] == "id"
        }
    except OSError:
        return None
    ours = {"Uid:": os.geteuid(), "Gid:": os.getegid()}
    trusted = all(owners.get(name) == [str(mine)] * 4 for name, mine in ours.items())
    is_same = process.started is None or fields[19] == str(process.started)
    return int(fields[_EXIT_FIELD]) if trusted and is_same and fields[0] == "Z" else None


CALL = "process:look"  # wire: evidence of verdicts
PREFIX = "pid:"
EVERY_SECONDS = 1.0
LAST_PID, MOST_DIGITS = 2**31 - 1, 11  # the largest process id of any system
UNREADABLE = "ended, exit status not readable; `longwatch run` records how a command ends"


class ProcessSource:
    """A `Source` for processes of this machine."""

    name = "process"

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._handles: dict[str, ProcessHandle] = {}
        self._lock = threading.Lock()

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {each.key: self._poll_one(each) for each in executions}

    def begin(
        self, pid_text: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        if not (pid_text.isascii() and pid_text.isdigit() and 1 <= int(pid_text[:MOST_DIGITS]) <= LAST_PID):
            return SourceProblem(f"Invalid process id {pid_text!r}. Use pid:123", lasting=True)
        pid, now = int(pid_text), self._clock.now_ms()
        if sys.platform == "win32":
            return SourceProblem("Processes cannot be watched on Windows", lasting=True)
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
            opened, self._handles = list(self._handles.values()), {}
        for each in opened:
            each.close()

    def _poll_one(self, execution: Execution) -> SourceResult:
        at = self._clock.now_ms()
        jobs: dict[str, Job] = {}
        for job in execution.jobs():
            process = process_of(job.job_id)
            if process is None:
                return not_a_process(job.job_id)
            if not is_on_this_machine(process):
                return SourceProblem(
                    f"Process {process.pid} runs on {process.host} and can only be polled there"
                )
            jobs[job.job_id] = map_job(
                job, self._map_process(job.job_id, process), item_name=f"{PREFIX}{process.pid}"
            )
        return SourceResponse(CALL, at, jobs, next_at=at + round(EVERY_SECONDS * 1000))

    def _map_process(self, job_id: str, process: ProcessIdentity) -> MappedStatus:
        opened = self._open(job_id, process)
        if probe(process.pid, process.started) is not Presence.GONE:
            return MappedStatus("running", Meaning.RUNNING)
        status = opened.exit_status()
        if status is None:
            return MappedStatus("ended", Meaning.ENDED, UNREADABLE)
        text = exit_text(status)
        if status == 0:
            return MappedStatus(text, Meaning.SUCCEEDED)
        return MappedStatus(text, Meaning.FAILED, text)

    def _open(self, job_id: str, process: ProcessIdentity) -> ProcessHandle:
        with self._lock:
            if job_id not in self._handles:
                self._handles[job_id] = ProcessHandle(process)
            return self._handles[job_id]


def not_a_process(job_id: str) -> SourceProblem:
    """The problem for an id that does not name a process and its start."""
    return SourceProblem(f"Invalid process {job_id!r}. Add one with `longwatch watch pid:123`", lasting=True)


def is_on_this_machine(process: ProcessIdentity) -> bool:
    """Whether a process belongs to this machine and to our pid namespace."""
    if process.host != this_host():
        return False
    return process.namespace is None or process.namespace == this_namespace()


def job_id_of(process: ProcessIdentity) -> str:
    """`123@4567@host@pid:[4026531836]`: pid, start, machine and pid namespace."""
    started = "" if process.started is None else str(process.started)
    return f"{process.pid}@{started}@{process.host}@{process.namespace or ''}"


def process_of(job_id: str) -> ProcessIdentity | None:
    """The process of a job id; None for an invalid one."""
    parts = job_id.split("@")
    if len(parts) != 4 or not parts[0].isdigit():
        return None
    pid, started, host, namespace = parts
    return ProcessIdentity(host, int(pid), int(started) if started.isdigit() else None, namespace or None)


def _command(pid: int) -> str | None:
    """The name of its command, if it can be read."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() or None
    except OSError:
        return None
