"""Heartbeats in a table: one item for each process under a reserved key, overwritten until it expires.

A producer only needs PutItem for them. If its role is limited to the keys of its runs, DynamoDB denies the
put and the recorder stops sending heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longwatch.journal.dynamodb.layout import MARKER, Layout
from longwatch.journal.dynamodb.table import KeyRange, Table
from longwatch.storage.dynamodb.values import integer_in

INTERVAL_SECONDS = 60.0  # four times as long as on SQLite: each one is a billed write
LIFETIME_SECONDS = 7 * 24 * 3600  # after the last one, so that a death can be examined days later
ALIVE_AT = "alive_at"


def put_heartbeat(table: Table, layout: Layout, process_id: str, at_ms: int) -> None:
    """Store that the process was alive at this time. A process reports its times in their order."""
    table.overwrite(
        {
            **layout.heartbeat_key(process_id),
            layout.index_names.marker: MARKER,
            ALIVE_AT: {"N": str(at_ms)},
            "ttl": {"N": str(at_ms // 1000 + LIFETIME_SECONDS)},
        }
    )


def read_heartbeats(table: Table, layout: Layout, process_ids: Sequence[str]) -> Mapping[str, int]:
    """When each of these processes was last alive; those without a heartbeat are left out."""
    found: dict[str, int] = {}
    partition, sort = layout.key_names
    for process_id in process_ids:
        key = layout.heartbeat_key(process_id)
        key_range = KeyRange(partition=key[partition], low=key[sort], high=key[sort], limit=1)
        for item in table.query(key_range).items:
            alive_at = integer_in(item, ALIVE_AT)
            if alive_at is not None:
                found[process_id] = alive_at
    return found
