"""Limits of the server: sizes, times, rates and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from longwatch.server.errors import ApiError

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server."""

    body_bytes: int = 16 * MIB
    decompressed_bytes: int = 64 * MIB  # of a compressed body
    header_bytes: int = 32 * KIB  # all headers of a request together
    header_count: int = 100
    target_bytes: int = 16 * KIB  # of path and query; a cursor of DynamoDB may be long
    batch_events: int = 5_000  # in one append
    body_seconds: float = 30.0  # for a request's body to arrive
    header_seconds: float = 10.0  # for a request's headers to arrive, from when the connection opens
    answer_seconds: float = 60.0  # for a response to begin, beyond `wait`
    wait_seconds: float = 30.0  # the longest poll
    connections: int = 20_000  # open at once, of any kind
    streams: int = 10_000  # streams, sockets and long polls at once
    streams_per_client: int = 10_000  # of one IP address; behind a proxy all clients have the same
    writes_per_second: float = 200.0  # of one client, on average
    writes_at_once: int = 1_000  # of one client in a burst

    def url_too_long(self) -> ApiError:
        return ApiError(
            414, "uri_too_long", f"The URL is longer than {self.target_bytes} bytes. Shorten the query."
        )

    def headers_too_large(self) -> ApiError:
        return ApiError(
            431,
            "request_header_fields_too_large",
            f"More than {self.header_count} headers or {self.header_bytes} bytes of headers. Send fewer.",
        )


MOST_CLIENTS = 10_000  # with a bucket


class Rates:
    """A token bucket for each client: it allows a burst of writes and refills at a steady rate."""

    def __init__(self, per_second: float, at_once: int) -> None:
        self._per_second = per_second
        self._at_once = float(at_once)
        self._buckets: dict[str, tuple[float, float]] = {}  # writes left, and when

    def take(self, client: str, now: float) -> float:
        """Count one write. Return the seconds to wait before it; 0 if it is allowed."""
        left, then = self._buckets.get(client, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second)
        if left < 1.0:
            return (1.0 - left) / self._per_second
        if client not in self._buckets and len(self._buckets) >= MOST_CLIENTS:
            self._forget(now)
        self._buckets[client] = (left - 1.0, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop full buckets; if none is full, drop all."""
        full = self._at_once / self._per_second
        self._buckets = {client: found for client, found in self._buckets.items() if now - found[1] < full}
        if len(self._buckets) >= MOST_CLIENTS:
            self._buckets.clear()


@dataclass(slots=True)
class Traffic:
    """Counters of requests."""

    requests: int = 0
    refused: int = 0
    held: int = 0  # open streams, sockets and long polls
    journal_failures: int = 0  # requests that found the journal unavailable


class Slots:
    """Limits the number of open streams, sockets and long polls."""

    def __init__(self, most: int, most_per_client: int, traffic: Traffic | None = None) -> None:
        self._most = most
        self._most_per_client = most_per_client
        self._held: Counter[str] = Counter()
        self._traffic = traffic or Traffic()

    @contextmanager
    def held(self, client: str) -> Iterator[bool]:
        """Hold a slot while the block runs. False if none is left for this client."""
        if self._traffic.held >= self._most or self._held[client] >= self._most_per_client:
            if not self._held[client]:
                del self._held[client]
            yield False
            return
        self._traffic.held += 1
        self._held[client] += 1
        try:
            yield True
        finally:
            self._traffic.held -= 1
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]
