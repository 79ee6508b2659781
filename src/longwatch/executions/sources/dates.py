"""When a source answered, by the `Date` header of its response: the one clock that all pollers share.

Pollers run on machines whose clocks differ and jump. The clock of a source is the same for all of them, so
differences between its dates are true, whichever poller saw them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

_AGE_DIGITS = 9  # of a cached response; it is in seconds
_REST_OF_A_SECOND_MS = 999  # a `Date` header names the second


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
