"""The installed command, run as people and scripts run it: in a process of its own, on a file of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from tests.patience import PATIENCE_SECONDS
from tests.unit.cli.samples import Story, failing, research, session

Done = subprocess.CompletedProcess[str]
Longwatch = Callable[..., Done]

BIG_EVENTS = 20_000


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "longwatch", *arguments]


def environment(**more: str) -> dict[str, str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    return {**clean, **more}


@pytest.fixture
def longwatch() -> Longwatch:
    def call(*arguments: str, stdin: str | None = None, **variables: str) -> Done:
        return subprocess.run(
            command(*arguments),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            env=environment(**variables),
            timeout=PATIENCE_SECONDS,
        )

    return call


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A file with a finished, a failed, a running and a big run."""
    now = time.time_ns() // 1_000_000
    with SqliteJournal(tmp_path / "runs.db") as file:
        file.append(research(at=now - 200_000))
        file.append(failing(at=now - 100_000))
        file.append(session(at=now - 50_000))
    return "sqlite:///runs.db"


@pytest.fixture
def big_journal(tmp_path: Path) -> str:
    story = Story("wf-b19b19b1")
    for number in range(BIG_EVENTS):
        story.add("note", {"n": number}, after=1)
    with SqliteJournal(tmp_path / "big.db") as file:
        file.append(story.events)
    return "sqlite:///big.db"
