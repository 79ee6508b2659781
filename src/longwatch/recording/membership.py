"""Which runs this process takes part in, and whether children that it forked still work on one of them.

Every producer names its process in its first event: in the `workflow_start` that it writes, else in a
`process_joined`. A forked child keeps the attempts of its parent's runs, and owns none of them.

A parent that exits cannot learn from its children alone whether its run continues: a child may fork again and
exit, as daemons do. So every run in which a process forks has a pipe. The children and their children inherit
its write end, and the kernel closes it when the last of them exits or executes another program.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from longwatch.recording.scope import attempt_from_environment

if TYPE_CHECKING:
    from longwatch.model.process import ProcessIdentity

JOINED = "process_joined"
MAX_RUNS = 4_096  # in memory; beyond that the attempts of the oldest are dropped


class _StartedRun(NamedTuple):
    attempt: str
    pid: int  # of the process that started the run
    outer_run_id: str | None


class Membership:
    """The runs of one recorder in this process, and who started them."""

    def __init__(self, outbox: Path) -> None:
        self._outbox = str(outbox.absolute())
        self._runs: dict[str, _StartedRun] = {}
        self.renew()

    def renew(self) -> None:
        """Reset after a fork: the process is another one, and a thread of the parent may hold the lock."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._process: ProcessIdentity | None = None

    @property
    def process(self) -> ProcessIdentity:
        if self._process is None:
            from longwatch.model.process import this_process  # the first run loads it

            self._process = this_process(outbox=self._outbox)
        return self._process

    def start(
        self, run_id: str, attempt: str, *, outer_run_id: str | None = None, role: str | None = None
    ) -> dict[str, object]:
        """Register an attempt that this process starts; returns the fixed fields of its `workflow_start`."""
        with self._lock:
            self._runs.pop(run_id, None)  # the newest is last
            self._runs[run_id] = _StartedRun(attempt, self._pid, outer_run_id)
            if len(self._runs) > MAX_RUNS:
                del self._runs[next(iter(self._runs))]
        process = self.process
        if role is not None:
            from dataclasses import replace  # only `longwatch run` sets a role

            process = replace(process, role=role)
        return {"process": process.fields, "attempt": attempt}

    def join_fields(self, run_id: str) -> dict[str, object] | None:
        """The fixed fields of `process_joined`; None if this process started the run."""
        started = self._runs.get(run_id)
        if started is not None and started.pid == self._pid:
            return None
        attempt = attempt_from_environment(run_id) if started is None else started.attempt
        fields: dict[str, object] = {"process": self.process.fields}
        return fields if attempt is None else {**fields, "attempt": attempt}

    def enclosing_runs(self, run_id: str) -> list[str]:
        """The run and the runs in which it was started, the innermost first."""
        found: list[str] = []
        outer: str | None = run_id
        while outer is not None and outer not in found:
            found.append(outer)
            started = self._runs.get(outer)
            outer = started.outer_run_id if started is not None else None
        return found


_pipes: dict[str, tuple[int, int]] = {}  # run id -> both ends, of the runs in which this process has forked
_inherited: dict[str, int] = {}  # run id -> write end, of the runs in which this process was forked


def open_fork_pipes(run_ids: Iterable[str]) -> None:
    """Open a pipe for each of these runs before a child is forked that will work on them."""
    for run_id in run_ids:
        if run_id in _pipes or run_id in _inherited:
            continue
        try:
            _pipes[run_id] = os.pipe()
        except OSError:  # no descriptor is free: the child goes unnoticed here
            return


def inherit_fork_pipes(run_ids: Iterable[str]) -> None:
    """In a forked child: keep the write ends of these runs and close all others."""
    inherited_runs = set(run_ids)
    for run_id, (read_end, write_end) in _pipes.items():
        os.close(read_end)
        _inherited[run_id] = write_end
    _pipes.clear()
    for run_id in _inherited.keys() - inherited_runs:
        leave_run(run_id)


def leave_run(run_id: str) -> None:
    """Report that this process, which was forked inside the run, no longer works on it."""
    write_end = _inherited.pop(run_id, None)
    if write_end is not None:
        os.close(write_end)


def leave_all_runs() -> None:
    """Leave every run: this process ends before its parent does."""
    for run_id in list(_inherited):
        leave_run(run_id)


def close_fork_pipe(run_id: str) -> bool:
    """Close the pipe of a run that ends in the process that started it.

    Returns whether a forked child still works on the run.
    """
    pipe = _pipes.pop(run_id, None)
    if pipe is None:
        return False
    import select  # the first fork inside a run loads it

    read_end, write_end = pipe
    os.close(write_end)
    poller = select.poll()
    poller.register(read_end, 0)  # a hang-up is always reported
    has_workers = not poller.poll(0)
    os.close(read_end)
    return has_workers
