"""Watches a process of this machine by its id.

The id of a process is used again after it, so a job is called by its id, the time at which it started, its
machine and the namespace in which its id counts. How a process ended is told to its parent. Others learn it
from Linux 6.15 on if they had the process open when it ended, or from what is left of it until the parent has
asked. Elsewhere it has ended, and how is not to be known: that is no failure and no success.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.model.process import (
    Presence,
    ProcessIdentity,
    probe,
    process_started,
    this_host,
    this_namespace,
)
from longwatch.watching.answers import Answer
from longwatch.watching.model import Execution, ExecutionKey, Job, Mode, Wave
from longwatch.watching.sources.base import SourceProblem, Told
from longwatch.watching.sources.declarations import Meaning
from longwatch.watching.sources.exits import Opened, ending_words
from longwatch.watching.sources.translating import Said, iso_seconds, job_of

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
        self._opened: dict[str, Opened] = {}
        self._lock = threading.Lock()

    def ask(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, Told]:
        return {each.key: self._ask_one(each) for each in executions}

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
            waves=(Wave(self.name, (Job(job_id),)),),
            total_waves=1,
            deadline_ms=None,
        )

    def check_id(self, job_id: str) -> SourceProblem | None:
        return None if process_of(job_id) else not_a_process(job_id)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for each in opened:
            each.close()

    def _ask_one(self, execution: Execution) -> Told:
        at = self._clock.now_ms()
        jobs: dict[str, Job] = {}
        for job in (job for wave in execution.waves for job in wave.jobs):
            process = process_of(job.job_id)
            if process is None:
                return not_a_process(job.job_id)
            if not is_here(process):
                return SourceProblem(
                    f"process {process.pid} belongs to {process.host}; only there it is seen"
                )
            jobs[job.job_id] = job_of(job, self._look(job.job_id, process), called=f"{PREFIX}{process.pid}")
        return Answer(CALL, at, jobs, next_at=at + round(EVERY_SECONDS * 1000))

    def _look(self, job_id: str, process: ProcessIdentity) -> Said:
        opened = self._open(job_id, process)
        if probe(process.pid, process.started) is not Presence.GONE:
            return Said("running", Meaning.RUNNING)
        status = opened.exit_status()
        if status is None:
            return Said("ended", Meaning.ENDED, UNREADABLE)
        word = ending_words(status)
        if status == 0:
            return Said(word, Meaning.SUCCEEDED)
        return Said(word, Meaning.FAILED, word)

    def _open(self, job_id: str, process: ProcessIdentity) -> Opened:
        with self._lock:
            if job_id not in self._opened:
                self._opened[job_id] = Opened(process)
            return self._opened[job_id]


def not_a_process(job_id: str) -> SourceProblem:
    """The problem that an id is which names no process and its start."""
    return SourceProblem(f"{job_id!r} is not a process; `longwatch watch pid:123` adds one", lasting=True)


def is_here(process: ProcessIdentity) -> bool:
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
