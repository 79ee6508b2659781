"""A file with three runs, for the commands that read a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from tests.unit.cli.samples import failing, research, session


@pytest.fixture
def file(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        for events in (research(), failing(), session()):
            journal.append(events)
    return "sqlite:///runs.db"
