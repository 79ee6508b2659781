"""A recorder into memory, and a process that is left as it was found."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.recording import active_run, decorators, propagation, recorder
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings

MakeRecorder = Callable[..., Recorder]
STARTED = ("wf-1", "wf-2")  # runs that the recorders of tests have started, so that no test has to join them


@pytest.fixture(autouse=True)
def _process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without a recorder of an earlier test, and without what recording changes in a process."""
    monkeypatch.setattr(recorder, "_process_recorder", None)
    monkeypatch.delenv(active_run.RUN_CLAIMED_VARIABLE, raising=False)
    decorators._ambient_run_id.cache_clear()
    decorators._scope_of.cache_clear()
    yield
    propagation.uninstall()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    decorators._ambient_run_id.cache_clear()
    decorators._scope_of.cache_clear()
    # `configure` puts what it makes into `_process_recorder`; the monkeypatch takes it out again.
    if recorder._process_recorder is not None:
        recorder._process_recorder.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(journal="memory://", capture="full", outbox=str(tmp_path / "outbox.db"))


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def configured(journal: MemoryJournal, settings: Settings) -> Recorder:
    """The recorder of this process, writing to `journal`."""
    return recorder.configure(journal, settings=settings)


@pytest.fixture
def make_recorder(settings: Settings) -> Iterator[MakeRecorder]:
    """Recorders beside the process's own; closed at the end."""
    made: list[Recorder] = []

    def make(journal: Journal | str, **changes: Any) -> Recorder:
        clock = changes.pop("clock", None)
        chosen = replace(settings, **changes)
        one = Recorder(journal, settings=chosen, **({"clock": clock} if clock else {}))
        for run_id in STARTED:
            one.membership.start(run_id, "0000abcd")
        made.append(one)
        return one

    yield make
    for each in made:
        each.close(timeout_seconds=1)
