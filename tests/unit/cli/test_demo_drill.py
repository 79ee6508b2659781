"""The drill of the demo: its line in the terminal, and a past that is made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from longwatch.cli.demo import drill
from longwatch.cli.demo.drill import Drill, drill_line, ended_lines, new_drill, record_past_drills
from longwatch.cli.demo.service import ScriptedJobs, Service
from longwatch.cli.render.styles import StyledLine
from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.cadence.history import read_history
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.journal.memory import MemoryJournal
from longwatch.model.summary import Status
from longwatch.settings import Settings
from longwatch.testing.clock import FakeClock


def text(line: StyledLine) -> str:
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_line_shows_the_progress_of_the_drill_and_fits(width: int) -> None:
    drill = new_drill("drill-1", 1_000_000)

    line = text(drill_line(drill, now_ms=1_004_000, width=width))

    assert "East coast drill" in line
    assert "0 of 9 done, 0/3 waves  4.0 s" in line
    assert len(line) <= max(width, 62)


def test_past_drills_are_created_once_and_show_how_long_one_takes() -> None:
    store, journal, clock = MemoryExecutionStore(), MemoryJournal(), FakeClock()

    record_past_drills(store, journal, clock)
    written = store.last_change()
    record_past_drills(store, journal, clock)

    past = store.find()
    assert store.last_change() == written
    assert {each.status for each in past} == {Status.SUCCEEDED}
    assert all(each.closed and each.verdict and each.verdict.evidence for each in past)
    now = new_drill("drill-1", clock.now_ms())
    eta = LearnedCadence(read_history(journal)).eta_of(now, clock.now_ms())
    assert eta is not None
    assert 5 < eta.usually.low < eta.usually.high < 9


def test_the_end_names_each_wave_and_the_reason() -> None:
    store, journal, clock = MemoryExecutionStore(), MemoryJournal(), FakeClock()
    record_past_drills(store, journal, clock)

    lines = [text(line) for line in ended_lines(store.find()[0], now_ms=clock.now_ms(), width=None)]

    assert [line.split()[1] for line in lines[1:4]] == ["databases", "services", "front"]
    assert lines[-1] == "  succeeded: every server was launched"


class Mute:
    """A service that does not respond."""

    name = "drs"

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {each.key: SourceProblem("nobody there", 0.01) for each in executions}

    def close(self) -> None:
        """Nothing to close."""


def test_a_service_that_does_not_respond_ends_the_drill_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def mute(clock: Clock, *, speed: float, interval_ms: int) -> Iterator[Service]:
        yield Service(ScriptedJobs(clock), Mute())

    monkeypatch.setattr(drill, "drs_service", mute)
    journal = f"sqlite:///{tmp_path}/demo.db"
    played = Drill(MemoryJournal(), Settings(journal=journal), SYSTEM_CLOCK, pace=0.01)

    played.start()
    played.join()

    assert not played.is_playing
    assert "nobody there" in str(played.error)
