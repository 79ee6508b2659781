"""A supervisor on a SQLite journal, and the scripts it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from longwatch.clock import SYSTEM_CLOCK
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Completeness, Verifier
from longwatch.model.event import Event
from longwatch.recording.process.command import child_environment
from longwatch.recording.process.supervisor import CommandResult, CommandSpec, Supervisor
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings, sqlite_url

RUN = "wf-test"
ATTEMPT = "0000abcd"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclass
class Bench:
    """Runs Python scripts under supervision, and shows what was recorded."""

    folder: Path
    warnings: list[str] = field(default_factory=list)
    url: str = ""
    hold_seconds: float = 0.2

    def __post_init__(self) -> None:
        self.url = self.url or sqlite_url(self.folder / "journal.db")

    def run(self, script: str, *, arguments: Sequence[str] = (), **options: Any) -> CommandResult:
        """Run a script with a journal of its own for reading."""
        file = self.folder / "flow.py"
        file.write_text(script)
        return self.run_command([sys.executable, str(file), *arguments], **options)

    def run_command(
        self,
        command: list[str],
        *,
        opened: Callable[[], Journal] | None = None,
        sinks: tuple[int | None, int | None] = (None, None),
        **task: Any,
    ) -> CommandResult:
        settings = Settings(journal=self.url, outbox=str(self.folder / "outbox.db"))
        recorder = Recorder(settings=settings)
        environment = child_environment(
            os.environ, run_id=RUN, attempt=ATTEMPT, journal_url=self.url, trace_id=TRACE
        )
        fields: dict[str, Any] = {
            "command": command,
            "run_id": RUN,
            "attempt": ATTEMPT,
            "trace_id": TRACE,
            "name": "flow",
            "environment": environment,
            **task,
        }
        supervisor = Supervisor(
            CommandSpec(**fields),
            recorder=recorder,
            open_journal=opened or (lambda: open_journal(self.url, settings=settings)),
            warn=self.warnings.append,
            sinks=sinks,
            hold_seconds=self.hold_seconds,
        )
        return supervisor.run()

    def events(self, run_id: str = RUN) -> list[Event]:
        """What the journal holds of a run, without the producers' own marks."""
        marks = ("process_joined", "producer_closed")
        return [event for event in self._read(run_id) if event.type not in marks]

    def answer(self) -> Completeness:
        """Whether anything is missing."""
        verifier = Verifier()
        for event in self._read(RUN):
            verifier.add(event)
        return verifier.report(SYSTEM_CLOCK.now_ms()).answer

    def _read(self, run_id: str) -> Sequence[Event]:
        with open_journal(self.url) as journal:
            return journal.read(run_id, limit=10_000).events

    def named_processes(self) -> list[dict[str, object]]:
        """The processes that worked on the run, in the order in which they were named."""
        named = [event.payload.get("process") for event in self._read(RUN)]
        return [each for each in named if isinstance(each, dict)]

    def types(self, run_id: str = RUN) -> list[str]:
        return [event.type for event in self.events(run_id)]

    def of_type(self, type: str, run_id: str = RUN) -> list[Event]:
        return [event for event in self.events(run_id) if event.type == type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
