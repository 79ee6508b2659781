"""From the address of an execution store to the store."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.journal.opening import options_of, sqlite_path
from longwatch.settings import Settings, load_settings

if TYPE_CHECKING:
    from longwatch.watching.stores.base import ExecutionStore
    from longwatch.watching.stores.memory import MemoryExecutionStore

DEFAULT_TABLE = "longwatch-executions"
FORMS = "sqlite:///path/to/file.db, memory://NAME or dynamodb://TABLE?region=REGION"

_named: dict[str, MemoryExecutionStore] = {}
_naming = threading.Lock()


def open_executions(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> ExecutionStore:
    """Open the execution store at this address, or the one beside the journal that the settings name.

    Nothing is connected or created until the store is first used. `memory://NAME` is one store for the whole
    process.
    """
    settings = settings or load_settings()
    url = url or executions_url(settings)
    try:
        parts = urlsplit(url, allow_fragments=False)  # a "#" is part of a file's name here
    except ValueError as error:
        raise InvalidJournalUrl(f"{url!r} is no address of executions ({error}); write {FORMS}") from error
    match parts.scheme:
        case "sqlite":
            from longwatch.watching.stores.sqlite import SqliteExecutionStore

            return SqliteExecutionStore(sqlite_path(url, parts), clock=clock)
        case "memory":
            return _open_memory(parts.netloc)
        case "dynamodb":
            return _open_dynamodb(url, parts, settings)
        case _:
            raise InvalidJournalUrl(f"{url!r} is no address of executions; write {FORMS}")


def executions_url(settings: Settings) -> str:
    """Where executions are kept: in the journal's file, or in the table `longwatch-executions` beside it."""
    scheme, _, rest = settings.journal.partition("://")
    if scheme != "dynamodb":
        return settings.journal
    kept = [
        option for option in rest.partition("?")[2].split("&") if option.startswith(("region=", "endpoint="))
    ]
    return f"dynamodb://{DEFAULT_TABLE}" + (f"?{'&'.join(kept)}" if kept else "")


def _open_memory(name: str) -> ExecutionStore:
    from longwatch.watching.stores.memory import MemoryExecutionStore

    with _naming:
        return _named.setdefault(name, MemoryExecutionStore()) if name else MemoryExecutionStore()


def _open_dynamodb(url: str, parts: SplitResult, settings: Settings) -> ExecutionStore:
    options = options_of(url, parts, allowed=("region", "endpoint"))
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(f"{url!r} has a path after the table; write dynamodb://{parts.netloc}")
    if find_spec("boto3") is None:
        raise MissingExtra("DynamoDB", "aws")

    from longwatch.journal.dynamodb.failures import TableAddress
    from longwatch.watching.stores.dynamodb import DynamoExecutionStore

    return DynamoExecutionStore(
        TableAddress(
            table=unquote(parts.netloc) or DEFAULT_TABLE,
            region=options.get("region") or settings.region,
            endpoint=options.get("endpoint") or settings.endpoint,
        )
    )
