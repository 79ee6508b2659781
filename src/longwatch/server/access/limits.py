"""Limits of the server, and the rate of requests that one caller may make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What the server takes and gives at most."""

    body_bytes: int = 16 * MIB
    header_bytes: int = 32 * KIB  # all headers of a request together
    header_count: int = 100
    target_bytes: int = 16 * KIB  # of path and query; a cursor of DynamoDB may take some of that
    batch_events: int = 5_000  # in one append
    body_seconds: float = 30.0  # for a request's body to arrive
    header_seconds: float = 10.0  # for a request's headers to arrive, from when the connection opens
    answer_seconds: float = 60.0  # for an answer to begin, beyond what `wait` asks for
    wait_seconds: float = 30.0  # the longest poll
    connections: int = 20_000  # open at once, of any kind
    streams: int = 10_000  # streams, sockets and long polls at once
    streams_per_client: int = 10_000  # of one address; behind a proxy all have the same
    writes_per_second: float = 200.0  # of one client, on average
    writes_at_once: int = 1_000  # of one client, before the average holds


MOST_CLIENTS = 10_000  # that are remembered


class Rates:
    """A bucket for each client: it holds some writes at once and fills again at a steady rate."""

    def __init__(self, per_second: float, at_once: int) -> None:
        self._per_second = per_second
        self._at_once = float(at_once)
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was so

    def take(self, client: str, now: float) -> float:
        """Count one write. Returns how many seconds too early it is; 0 if it may be made."""
        left, then = self._buckets.get(client, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second)
        if left < 1.0:
            return (1.0 - left) / self._per_second
        if client not in self._buckets and len(self._buckets) >= MOST_CLIENTS:
            self._forget(now)
        self._buckets[client] = (left - 1.0, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Whose bucket is full again needs none; if that frees nothing, all begin anew."""
        full = self._at_once / self._per_second
        self._buckets = {client: known for client, known in self._buckets.items() if now - known[1] < full}
        if len(self._buckets) >= MOST_CLIENTS:
            self._buckets.clear()


@dataclass(slots=True)
class Traffic:
    """What has come in, counted."""

    requests: int = 0
    refused: int = 0
    held: int = 0  # streams, sockets and long polls that are open
    journal_failures: int = 0  # requests that found the journal unavailable


class Slots:
    """How many streams, sockets and long polls are open."""

    def __init__(self, most: int, most_per_client: int, traffic: Traffic | None = None) -> None:
        self._most = most
        self._most_per_client = most_per_client
        self._held: Counter[str] = Counter()
        self._traffic = traffic or Traffic()

    @property
    def taken(self) -> int:
        return self._traffic.held

    @contextmanager
    def held(self, client: str) -> Iterator[bool]:
        """Hold one while the block runs. False if there is none left for this client."""
        if self.taken >= self._most or self._held[client] >= self._most_per_client:
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
