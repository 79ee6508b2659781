"""Times in responses: `Date`, the one clock that all pollers share, `Retry-After`, and times in fields.

Pollers run on machines whose clocks differ and jump. The clock of a source is the same for all of them, so
differences between its dates are correct whichever poller received them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from longwatch.clock import iso_from_ms, ms_from_iso

LONGEST_WAIT_SECONDS = 86_400.0

_AGE_DIGITS = 9  # of a cached response; it is in seconds
_REST_OF_A_SECOND_MS = 999  # a `Date` header names the second
_SECONDS_BELOW = 100_000_000_000  # a larger number is one of milliseconds
_LAST_MS = 253_402_300_799_999  # the end of the year 9999; a later time is invalid


def observed_at(local_ms: int, dates: Iterable[int | None]) -> int:
    """The time of a poll with these response dates, in epoch ms; without any date, the local time.

    Of several dates the earliest counts, so that no later period appears longer than it was. The local clock
    supplies the milliseconds within the second that the source names.
    """
    named = min((each for each in dates if each is not None), default=None)
    if named is None:
        return local_ms
    return min(max(local_ms, named), named + _REST_OF_A_SECOND_MS)


def date_ms(header: str | None) -> int | None:
    """A `Date` header in epoch ms; None if it is absent or invalid."""
    try:
        moment = parsedate_to_datetime(header or "")
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": UTC, zone unknown
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def response_date_ms(headers: Message) -> int | None:
    """When an HTTP server, or the cache in front of it, sent this response."""
    sent, age = date_ms(headers["Date"]), str(headers["Age"] or "")
    if sent is None or not (age.isascii() and age.isdigit()):
        return sent
    return sent + int(age[:_AGE_DIGITS]) * 1000


def sdk_date_ms(response: Mapping[str, Any]) -> int | None:
    """The date of a response as boto3 returns it."""
    headers = (response.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    return date_ms(headers.get("date"))


def time_ms(value: object) -> int | None:
    """Epoch milliseconds from a date, from ISO 8601, or from a number of seconds or milliseconds."""
    match value:
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return round(moment.timestamp() * 1000)
        case bool() | None:
            return None
        case int() | float() if 0 <= value <= _LAST_MS:
            return round(value * 1000 if value < _SECONDS_BELOW else value)
        case str():
            try:
                return ms_from_iso(value)
            except ValueError:
                return None
    return None


def iso_seconds(ms: int) -> str:
    """`2026-11-15T10:00:00Z`."""
    return f"{iso_from_ms(ms)[:-5]}Z"


def parse_retry_after(header: str | None, *, date: str | None = None) -> float | None:
    """The seconds of a `Retry-After` header. A time in it is compared with the server's own `date`."""
    until = date_seconds(header)
    return (
        bounded_seconds(header)
        if until is None
        else bounded_seconds(until - (date_seconds(date) or time.time()))
    )


def date_seconds(header: str | None) -> float | None:
    """The epoch seconds of an HTTP date."""
    ms = date_ms(header)
    return None if ms is None else ms / 1000


def bounded_seconds(value: object) -> float | None:
    """A positive number of seconds to wait, at most a day; None for anything else."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(seconds, LONGEST_WAIT_SECONDS) if seconds > 0 else None
