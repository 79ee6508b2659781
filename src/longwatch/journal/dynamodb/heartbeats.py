"""Heartbeats in a table: one item for each process under a reserved key, overwritten and left to expire.

A producer needs nothing but PutItem for them. Where its role is limited to the keys of its runs the put is
denied, and the recorder sends no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longwatch.journal.dynamodb.layout import VERSION, Layout, whole_number_in
from longwatch.journal.dynamodb.table import KeyRange, Table

INTERVAL_SECONDS = 60.0  # four times as long as on SQLite: every one of them is a paid write
LIFETIME_SECONDS = 7 * 24 * 3600  # after the last one: a death can still be looked at days later
ALIVE_AT = "alive_at"


def put_heartbeat(table: Table, layout: Layout, process_id: str, at_ms: int) -> None:
    """Store that the process was alive at this time. A process reports its times in their order."""
    table.overwrite(
        {
            **layout.heartbeat_key(process_id),
            layout.directory.marker: {"N": str(VERSION)},
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
        wanted = KeyRange(partition=key[partition], low=key[sort], high=key[sort], limit=1)
        for item in table.query(wanted).items:
            alive_at = whole_number_in(item, ALIVE_AT)
            if alive_at is not None:
                found[process_id] = alive_at
    return found
