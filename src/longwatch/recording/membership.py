"""Which runs this process takes part in: the attempt of each, and whether this process started it.

Every producer names its process in its first event: in the `workflow_start` that it writes, else in a
`process_joined`. A forked child keeps the attempts of its parent's runs, and owns none of them.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from longwatch.recording.scope import attempt_from_environment

if TYPE_CHECKING:
    from longwatch.model.process import ProcessIdentity

JOINED = "process_joined"
MAX_RUNS = 4_096  # that are remembered; a process that starts more forgets the attempts of the oldest


class _Started(NamedTuple):
    attempt: str
    pid: int  # of the process that started the run
    outer_run_id: str | None


class Membership:
    """The runs of one recorder in this process."""

    def __init__(self, outbox: Path) -> None:
        self._outbox = str(outbox.absolute())
        self._runs: dict[str, _Started] = {}
        self.renew()

    def renew(self) -> None:
        """In a forked child: this is another process, and the lock may be held by a thread of the parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._process: ProcessIdentity | None = None

    @property
    def process(self) -> ProcessIdentity:
        """This process."""
        if self._process is None:
            from longwatch.model.process import this_process  # loaded by the first run

            self._process = this_process(outbox=self._outbox)
        return self._process

    def start(
        self, run_id: str, attempt: str, *, outer_run_id: str | None = None, role: str | None = None
    ) -> dict[str, object]:
        """This process starts an attempt: the fields that its `workflow_start` carries."""
        with self._lock:
            self._runs.pop(run_id, None)  # the newest is last
            self._runs[run_id] = _Started(attempt, self._pid, outer_run_id)
            if len(self._runs) > MAX_RUNS:
                del self._runs[next(iter(self._runs))]
        process = self.process if role is None else replace(self.process, role=role)
        return {"process": process.fields, "attempt": attempt}

    def joined(self, run_id: str) -> dict[str, object] | None:
        """What the `process_joined` of a new producer says; None if this process started the run."""
        started = self._runs.get(run_id)
        if started is not None and started.pid == self._pid:
            return None
        attempt = attempt_from_environment(run_id) if started is None else started.attempt
        named: dict[str, object] = {"process": self.process.fields}
        return named if attempt is None else {**named, "attempt": attempt}

    def around(self, run_id: str) -> list[str]:
        """The run and those that it was started in, innermost first."""
        found: list[str] = []
        outer: str | None = run_id
        while outer is not None and outer not in found:
            found.append(outer)
            started = self._runs.get(outer)
            outer = started.outer_run_id if started is not None else None
        return found
