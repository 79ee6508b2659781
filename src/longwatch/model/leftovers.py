"""Finds what the agent of a turn left running when its executor was killed."""

from __future__ import annotations

import os
from pathlib import Path

TURN_VARIABLE = "LONGWATCH_TURN_ID"  # in the environment of every process that a turn starts
MOST_NAMED = 10


def find_leftovers(turn_id: str) -> list[int]:
    """The processes of this machine that a turn started and that still run.

    Only Linux tells, and only of processes of the same user and pid namespace.
    """
    wanted = f"{TURN_VARIABLE}={turn_id}".encode()
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []
    return sorted(pid for pid in pids if pid != os.getpid() and wanted in _environment(pid))


def leftover_text(pids: list[int]) -> str:
    """What still runs, for people; empty if nothing does."""
    if not pids:
        return ""
    named = ", ".join(str(pid) for pid in pids[:MOST_NAMED])
    one = len(pids) == 1
    return f"{'Process' if one else 'Processes'} {named} of the turn {'is' if one else 'are'} still running."


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended meanwhile, or of another user
        return []
