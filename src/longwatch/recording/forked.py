"""Whether children that were forked inside a run still work on it after their parent.

A parent that exits can not know that from its children alone: a child forks again and exits, as daemons do.
So every run in which a process forks has a pipe. The children inherit its write end, and so do theirs, and
the kernel closes it with the last of them, or when it executes another program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_pipes: dict[str, tuple[int, int]] = {}  # run id -> both ends, of the runs in which this process has forked
_inherited: dict[str, int] = {}  # run id -> write end, of the runs in which this process was forked


def before_fork(run_ids: Iterable[str]) -> None:
    """Prepare for a child that will work on these runs."""
    for run_id in run_ids:
        if run_id in _pipes or run_id in _inherited:
            continue
        try:
            _pipes[run_id] = os.pipe()
        except OSError:  # no descriptor is free: then the child is not known here
            return


def after_fork_in_child(run_ids: Iterable[str]) -> None:
    """In the child: keep the write ends of these runs alone."""
    kept = set(run_ids)
    for run_id, (read_end, write_end) in _pipes.items():
        os.close(read_end)
        _inherited[run_id] = write_end
    _pipes.clear()
    for run_id in _inherited.keys() - kept:
        leave(run_id)


def leave(run_id: str) -> None:
    """This process, which was forked inside the run, no longer works on it."""
    write_end = _inherited.pop(run_id, None)
    if write_end is not None:
        os.close(write_end)


def leave_all() -> None:
    """This process ends before its parent does, whatever it works on."""
    for run_id in list(_inherited):
        leave(run_id)


def end(run_id: str) -> bool:
    """The run ends in the process that started it; whether a child of it still works on the run."""
    pipe = _pipes.pop(run_id, None)
    if pipe is None:
        return False
    import select  # loaded by the first fork inside a run

    read_end, write_end = pipe
    os.close(write_end)
    poller = select.poll()
    poller.register(read_end, 0)  # a hang-up is always reported
    is_worked_on = not poller.poll(0)
    os.close(read_end)
    return is_worked_on
