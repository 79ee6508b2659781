"""A job in a process of its own, which the demo kills in the middle of its work: its run dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

from longwatch.errors import LongwatchError
from longwatch.settings import Settings

RUNS_SECONDS = 2.0  # at the pace for people, before it is killed
JOIN_SECONDS = 30.0

JOB = """
import sys, time
import longwatch

@longwatch.tool(system="warehouse")
def copy_rows(table):
    longwatch.flush()
    print("copying", flush=True)
    time.sleep(600)

@longwatch.agent(name="exporter")
def export():
    copy_rows("grid_load")

with longwatch.run("nightly export", run_id=sys.argv[1], kind="job"):
    export()
"""


class KilledJob:
    """Starts the job in the background and kills it after a while."""

    def __init__(self, settings: Settings, *, pace: float) -> None:
        self._settings = settings
        self._pace = pace
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._play, name="demo-killed-job", daemon=True)
        self.run_id = f"job-{os.urandom(4).hex()}"
        self.error: LongwatchError | None = None

    @property
    def path(self) -> str:
        """Where the page shows it."""
        return f"runs/{self.run_id}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Kill it now."""
        self._stopped.set()
        self.join()

    def join(self) -> None:
        self._thread.join(JOIN_SECONDS)

    def _play(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", JOB, self.run_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "LONGWATCH_JOURNAL": self._settings.journal},
            start_new_session=True,  # Ctrl-C is for the demo, which then kills the job
        ) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                self.error = LongwatchError("the process ended before its work began")
            self._stopped.wait(RUNS_SECONDS * self._pace)
            with suppress(ProcessLookupError):
                process.kill()
