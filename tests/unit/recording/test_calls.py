"""The times in a call's events."""

from __future__ import annotations

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.recorder import Recorder
from tests.unit.recording.recorded import events_of


class WholeSeconds:
    """A clock that takes exactly two seconds from one reading to the next."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        self._seconds += 2.0
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Does not wait."""


def test_a_duration_without_a_fraction_is_a_whole_number_as_a_table_would_keep_it(
    configured: Recorder, journal: MemoryJournal
) -> None:
    configured.clock = WholeSeconds()

    with longwatch.run() as run:
        longwatch.tool(len)("abc")
    configured.flush()

    [duration] = [
        event.payload["duration_ms"]
        for event in events_of(journal, run.run_id)
        if "duration_ms" in event.payload
    ]
    assert type(duration) is int
    assert duration == 2_000
