"""From the address of an execution store to the store."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import (
    NamedStores,
    TableLocation,
    beside_journal,
    parts_of,
    sqlite_path,
    table_place,
)

if TYPE_CHECKING:
    from longwatch.executions.stores.base import ExecutionStore
    from longwatch.executions.stores.memory import MemoryExecutionStore

DEFAULT_TABLE = "longwatch-executions"
FORMS = "sqlite:///path/to/file.db, memory://NAME or dynamodb://TABLE?region=REGION"

_memory: NamedStores[MemoryExecutionStore] = NamedStores()


def open_executions(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> ExecutionStore:
    """Open the execution store at this address, or the one beside the journal that the settings name.

    Nothing is connected or created until the store is first used. `memory://NAME` is one store for the whole
    process.
    """
    settings = settings or load_settings()
    url = url or executions_url(settings)
    parts = parts_of(url, "execution store URL", FORMS)
    match parts.scheme:
        case "sqlite":
            from longwatch.executions.stores.sqlite import SqliteExecutionStore

            return SqliteExecutionStore(sqlite_path(url, parts), clock=clock)
        case "memory":
            from longwatch.executions.stores.memory import MemoryExecutionStore

            return _memory.open(url, parts, lambda _: MemoryExecutionStore())
        case "dynamodb":
            place = table_place(url, parts, settings, default_table=DEFAULT_TABLE)
            return _open_dynamodb(place, settings.other_statuses, clock)
        case _:
            raise InvalidJournalUrl(f"Invalid execution store URL {url!r}. Use {FORMS}.")


def executions_url(settings: Settings) -> str:
    """Where executions are kept: in the journal's file, or in the table `longwatch-executions` beside it."""
    return beside_journal(settings, DEFAULT_TABLE)


def _open_dynamodb(place: TableLocation, other_statuses: tuple[str, ...], clock: Clock) -> ExecutionStore:
    if find_spec("boto3") is None:
        raise MissingExtra("DynamoDB", "aws")

    from longwatch.executions.stores.dynamodb import DynamoExecutionStore
    from longwatch.storage.dynamodb.errors import TableAddress

    return DynamoExecutionStore(
        TableAddress(
            table=place.table, region=place.region, endpoint=place.endpoint, short_way=place.short_way
        ),
        other_statuses=other_statuses,
        clock=clock,
    )
