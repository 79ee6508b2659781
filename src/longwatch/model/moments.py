"""Times and durations as users type them."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from longwatch.errors import InvalidInput

TIME_FORMS = (
    "10m, 2h or 3d (ago), 2026-11-15T10:00 (local time), 2026-11-15T10:00Z, or milliseconds since 1970"
)
SPAN_FORMS = "30d, 12h, 90m or 45s"

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(?:\d+(?:ms|[smhdw]))+", re.IGNORECASE)
_PART = re.compile(r"(\d+)(ms|[smhdw])", re.IGNORECASE)
_EPOCH_MS_DIGITS = range(12, 16)  # from 1973 on; fewer digits are seconds or a typing mistake
LAST_MS = 253_402_300_799_999  # the end of year 9999, past which no calendar goes


def span_ms(text: str) -> int:
    """A length of time such as `10m` or `1h30m`, in milliseconds."""
    if not _SPAN.fullmatch(text.strip()):
        raise InvalidInput(f"Invalid duration {text!r}. Use {SPAN_FORMS}.")
    return sum(int(count) * _UNITS_MS[unit.lower()] for count, unit in _PART.findall(text))


def moment_ms(text: str, *, now_ms: int, zone: tzinfo | None = None) -> int:
    """A point in time as epoch milliseconds. One without a zone is in `zone`, or in local time."""
    text = text.strip()
    if _SPAN.fullmatch(text):
        return max(0, now_ms - span_ms(text))
    if text.isdecimal():
        if len(text) not in _EPOCH_MS_DIGITS or int(text) > LAST_MS:
            hint = f" (in milliseconds: {text}000)" if len(text) == 10 else ""
            raise InvalidInput(f"Invalid time {text!r}{hint}. Use {TIME_FORMS}.")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
        return max(0, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"Invalid time {text!r}. Use {TIME_FORMS}.") from None
