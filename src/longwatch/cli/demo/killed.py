"""The part of the demo whose process is killed in the middle of its work, so that its run dies."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from longwatch.cli.demo.part import DemoPart
from longwatch.errors import LongwatchError
from longwatch.settings import Settings

RUNS_SECONDS = 2.0  # at the normal pace, until it is killed

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


class KilledJob(DemoPart):
    """Starts the job in a process of its own and kills it."""

    def __init__(self, settings: Settings, *, pace: float) -> None:
        super().__init__(self._run_job, pace=pace)
        self._settings = settings
        self.run_id = f"job-{os.urandom(4).hex()}"
        self.path = f"runs/{self.run_id}"

    def _run_job(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", JOB, self.run_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "LONGWATCH_JOURNAL": self._settings.journal},
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then kills the job
        ) as process:
            assert process.stdout is not None
            has_started = bool(process.stdout.readline())
            self._stopped.wait(RUNS_SECONDS * self._pace)
            with suppress(ProcessLookupError):
                process.kill()
        if not has_started:
            raise LongwatchError("its process exited before the work began")
