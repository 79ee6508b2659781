"""Starts processes that record, and reads what they left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Verification, Verifier
from longwatch.model.event import Event
from tests.patience import PATIENCE_SECONDS

STEPS_PREAMBLE = """
import os, signal, sys, threading, time
import longwatch

def steps(n=50):
    for each in range(n):
        longwatch.record("step", n=each)

def wait():
    for _ in range(1200):  # not in one go: a signal just before a long sleep is seen only after it
        time.sleep(0.05)
"""


class Workspace:
    """A folder with a journal and an outbox, for processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "journal.db"
        self.url = f"sqlite:///{self.path}"
        self.outbox = folder / "outbox.db"

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "LONGWATCH_JOURNAL": self.url,
            "LONGWATCH_OUTBOX": str(self.outbox),
            # From Python 3.12 on, a fork beside threads is warned of; these tests are about just that.
            "PYTHONWARNINGS": "error,ignore::DeprecationWarning",
            **more,
        }

    def start(self, script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a process that runs this script, with pipes to talk to it."""
        return subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run this script to its end."""
        process = self.start(script, *arguments, **environment)
        out, err = finished(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def open(self) -> Journal:
        return open_journal(self.url)

    def events(self, run_id: str) -> list[Event]:
        """All events of a run, in their order."""
        with self.open() as journal:
            return all_events(journal, run_id)

    def run_ids(self) -> list[str]:
        with self.open() as journal:
            return [run.run_id for run in journal.find_runs(limit=1_000).runs]


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What the process wrote, once it has ended; one that hangs is ended with all its children."""
    try:
        return process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


def all_events(journal: Journal, run_id: str) -> list[Event]:
    """All events of a run, in their order."""
    page = journal.read(run_id)
    events = list(page.events)
    while page.more:
        page = journal.read(run_id, after=page.cursor)
        events += page.events
    return sorted(events, key=lambda event: event.order)


def verification_of(events: list[Event]) -> Verification:
    """The verification of the producers' numbers and digests."""
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    return verifier.report(0)
