"""How much one caller may ask of the server. Every number here is a promise to all the others."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
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
