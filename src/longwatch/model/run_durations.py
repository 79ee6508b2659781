"""How long runs of one name and kind usually take."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from longwatch.model.summary import RunSummary

MIN_RUNS = 3  # fewer earlier runs give no ETA


def usual_duration_ms(run: RunSummary, earlier: Iterable[RunSummary]) -> float | None:
    """The median duration of the runs of this name and kind that have ended; None if they are too few."""
    ended = [
        each.duration_ms(0)
        for each in earlier
        if each.ended_at is not None and (each.name, each.kind) == (run.name, run.kind)
    ]
    durations = [duration for duration in ended if duration is not None]
    return median(durations) if len(durations) >= MIN_RUNS else None
