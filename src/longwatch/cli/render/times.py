"""Times and durations as a terminal shows them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, tzinfo

from longwatch.model.moments import LAST_MS
from longwatch.model.moments import moment_ms as moment_ms
from longwatch.model.moments import span_ms as span_ms
from longwatch.model.run import RunSummary


def between_text(not_before: int, not_after: int | None, *, now_ms: int, zone: tzinfo | None = None) -> str:
    """`between 14:17:06 and 14:17:30`: the interval in which a run died, with dates if not today."""
    today = local(now_ms, zone).date()
    earliest = _moment_text(not_before, today, zone)
    if not_after is None:
        return f"after {earliest}"
    if not_before // 1000 == not_after // 1000:
        return f"at {earliest}"
    latest = _moment_text(not_after, local(not_before, zone).date(), zone)
    return f"between {earliest} and {latest}"


def _moment_text(ms: int, usual: date, zone: tzinfo | None) -> str:
    """The time, after its date unless that is the usual one."""
    moment = local(ms, zone)
    return f"{moment:%H:%M:%S}" if moment.date() == usual else f"{moment:%Y-%m-%d %H:%M:%S}"


def ran_text(least: int, most: int | None) -> str:
    """`between 207 ms and 24.0 s`: the duration of a run that died."""
    shortest = duration_text(least)
    if most is None:
        return f"at least {shortest}"
    longest = duration_text(most)
    return shortest if shortest == longest else f"between {shortest} and {longest}"


def run_duration_text(run: RunSummary, now_ms: int) -> str:
    """The duration of a run, so far if it is open; `207 ms–24 s` if it died."""
    between = run.duration_between
    if between is not None:
        least, most = between
        return f"≥ {duration_text(least)}" if most is None else _span_text(least, most)
    return duration_text(run.duration_ms(now_ms) or 0)


def _span_text(least: int, most: int) -> str:
    shortest, longest = duration_text(least), duration_text(most)
    return shortest if shortest == longest else f"{shortest}–{longest}"


def duration_text(ms: float) -> str:
    """`850 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d 04 h`, as the page writes them."""
    if 0 < ms < 1:
        return "<1 ms"
    if ms < 999.5:
        return f"{_rounded(ms)} ms"
    if ms < 59_950:
        return "{}.{} s".format(*divmod(_rounded(ms / 100), 10))
    seconds = _rounded(ms / 1000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = _rounded(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = _rounded(minutes / 60)
    return f"{hours // 24} d {hours % 24:02d} h"


def _rounded(number: float) -> int:
    """Half a unit rounds up, as in the browser; `round` would round it to the even number."""
    return math.floor(number + 0.5)


def ago_text(ms: int, *, now_ms: int) -> str:
    """`just now`, `40 s ago`, `3 min ago`, `2 h ago`, `5 d ago`; `in 3 min` if a clock runs ahead."""
    distance = abs(now_ms - ms) // 1000
    if distance < 2:
        return "just now"
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if distance < limit:
            amount = f"{distance // unit} {name}"
            break
    else:
        amount = f"{distance // 86_400} d"
    return f"{amount} ago" if ms <= now_ms else f"in {amount}"


def local(ms: int, zone: tzinfo | None = None) -> datetime:
    """The time in `zone`, or in local time."""
    return datetime.fromtimestamp(min(ms, LAST_MS) / 1000, UTC).astimezone(zone)


def clock_text(ms: int, *, dated: bool = False, zone: tzinfo | None = None) -> str:
    """`14:02:11.123`, with the date before it if wanted."""
    moment = local(ms, zone)
    text = f"{moment:%H:%M:%S}.{ms % 1000:03d}"
    return f"{moment:%Y-%m-%d} {text}" if dated else text


def start_text(ms: int, *, now_ms: int, zone: tzinfo | None = None) -> str:
    """`14:02:11` today, `11-14 14:02` this year, `2025-11-14` before."""
    moment, today = local(ms, zone), local(now_ms, zone)
    if moment.date() == today.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%m-%d %H:%M}" if moment.year == today.year else f"{moment:%Y-%m-%d}"


def day_text(ms: int, *, now_ms: int, zone: tzinfo | None = None) -> str:
    """`today 14:02:11`, else `2026-11-14 14:02:11`."""
    moment = local(ms, zone)
    day = "today" if moment.date() == local(now_ms, zone).date() else f"{moment:%Y-%m-%d}"
    return f"{day} {moment:%H:%M:%S}"
