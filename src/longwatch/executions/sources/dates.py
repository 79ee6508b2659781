"""When a source answered, by the `Date` header of its response: the one clock that all pollers share.

Pollers run on machines whose clocks differ and jump. The clock of a source is the same for all of them, so
differences between its dates are true, whichever poller saw them.
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
    """The time of an answer that took these responses, in epoch ms; without any date, the local time.

    Of several dates the earliest counts: a period since then is never taken for longer than it was. The local
    clock chooses the millisecond within the second that the source names.
    """
    named = min((each for each in dates if each is not None), default=None)
    if named is None:
        return local_ms
    return min(max(local_ms, named), named + _REST_OF_A_SECOND_MS)


def date_ms(header: str | None) -> int | None:
    """A `Date` header in epoch ms; None if there is none, or none that can be read."""
    try:
        moment = parsedate_to_datetime(header or "")
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": UTC of which the zone is not known
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


def parse_retry_after(said: str | None, *, date: str | None = None) -> float | None:
    """The seconds that a `Retry-After` means. A time in it is compared with the server's own `date`."""
    until = date_seconds(said)
    return (
        bounded_seconds(said)
        if until is None
        else bounded_seconds(until - (date_seconds(date) or time.time()))
    )


def date_seconds(said: str | None) -> float | None:
    """The epoch seconds of an HTTP date."""
    ms = date_ms(said)
    return None if ms is None else ms / 1000


def bounded_seconds(said: object) -> float | None:
    """A number of seconds to wait, if it is one that can be meant; at most a day."""
    try:
        seconds = float(said)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(seconds, LONGEST_WAIT_SECONDS) if seconds > 0 else None
