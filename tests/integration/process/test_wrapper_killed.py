"""`longwatch run` as a process of its own: what is recorded when it, or its command, is ended by a signal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.following.observation import Observer
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.settings import sqlite_url
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are judged on Linux alone")

RUN = "wf-1"


class Wrapped:
    """`cat` under `longwatch run`: it lasts until its standard input is closed."""

    def __init__(self, folder: Path) -> None:
        self.journal = SqliteJournal(folder / "journal.db")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "longwatch", "run", "-q", "--run-id", RUN, "--", "cat"],
            cwd=folder,
            env={
                **os.environ,
                "LONGWATCH_JOURNAL": sqlite_url(self.journal.path),
                "LONGWATCH_OUTBOX": str(folder / "outbox.db"),
            },
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        while len(self.processes()) < 2:
            time.sleep(0.02)
        self.command = int(str(self.processes()[1]["pid"]))
        self._pidfd = os.pidfd_open(self.command)

    def processes(self) -> list[dict[str, object]]:
        named = [event.payload.get("process") for event in self.events()]
        return [each for each in named if isinstance(each, dict)]

    def events(self) -> list[Event]:
        return list(self.journal.read(RUN).events)

    def ending(self) -> Event:
        self.process.wait(PATIENCE_SECONDS)
        return next(event for event in self.events() if event.type == "workflow_error")

    def observed(self) -> tuple[str, list[str]]:
        """How the run stands for an observer on this machine, and its conditions."""
        run = self.journal.find_run(RUN)
        assert run is not None
        (found,) = Observer(self.journal).observed([run])
        return found.run.status.value, [each.name for each in found.conditions]

    def end_command(self) -> None:
        """Let the command come to its own end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert select.select([self._pidfd], [], [], PATIENCE_SECONDS)[0]

    def close(self) -> None:
        self.end_command()
        self.process.wait(PATIENCE_SECONDS)
        os.close(self._pidfd)
        self.journal.close()


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[Wrapped]:
    one = Wrapped(tmp_path)
    yield one
    one.close()


def test_a_command_that_outlives_its_wrapper_keeps_the_run_open(wrapped: Wrapped) -> None:
    before = wrapped.observed()

    wrapped.process.kill()
    wrapped.process.wait()
    between = wrapped.observed()
    wrapped.end_command()

    assert [each["role"] for each in wrapped.processes()] == ["wrapper", "command"]
    assert (before, between) == (("running", []), ("running", ["unattended"]))
    assert wrapped.observed() == ("died", [])


def test_a_signal_that_was_passed_on_is_distinguished_from_one_from_elsewhere(wrapped: Wrapped) -> None:
    wrapped.process.send_signal(signal.SIGTERM)

    ending = wrapped.ending().payload
    assert (ending["signal"], ending["forwarded"], ending["status"]) == ("SIGTERM", True, "interrupted")


def test_a_signal_from_elsewhere_was_not_passed_on(wrapped: Wrapped) -> None:
    os.kill(wrapped.command, signal.SIGTERM)

    ending = wrapped.ending().payload
    assert (ending["signal"], ending["forwarded"], ending["status"]) == ("SIGTERM", False, "failed")
