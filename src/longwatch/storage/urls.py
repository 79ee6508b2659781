"""URLs of stores: `sqlite:///path`, `memory://NAME` and `dynamodb://TABLE`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from longwatch.errors import InvalidJournalUrl
from longwatch.settings import Settings, load_settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """A DynamoDB table and how to reach it."""

    table: str
    region: str | None = None
    layout: str = "workflow"
    endpoint: str | None = None
    fast_query: bool = True  # send queries with `FastQuery`

    @property
    def where(self) -> str:
        """The region or the endpoint, as error messages name it."""
        return self.endpoint or self.region or "the default region"


@dataclass(frozen=True, slots=True)
class MemoryName:
    """The name of a store in memory; empty for one that is not shared."""

    name: str


class NamedStores(Generic[T]):
    """Stores in memory: one for each name in the whole process, and a new one each time without a name."""

    def __init__(self) -> None:
        self._named: dict[str, T] = {}
        self._naming = threading.Lock()

    def open(self, name: str, make: Callable[[], T]) -> T:
        if not name:
            return make()
        with self._naming:
            if name not in self._named:
                self._named[name] = make()
            return self._named[name]


def locate_store(
    url: str, kind: str, *, settings: Settings | None = None, default_table: str | None = None
) -> Path | MemoryName | TableAddress:
    """What the URL of a store names: a SQLite file, a store in memory or a DynamoDB table.

    `kind` is the store's name in error messages. Without a `default_table` the store is a journal:
    the settings name its table and layout. Settings that are not given are loaded if the URL needs them.
    """
    is_journal = default_table is None
    forms = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION" + (
        "&layout=workflow|session" if is_journal else ""
    )
    try:
        parts = urlsplit(url, allow_fragments=False)  # a "#" is part of a file's name here
    except ValueError as error:
        raise InvalidJournalUrl(f"Invalid {kind} URL {url!r} ({error}). Use {forms}.") from error
    match parts.scheme:
        case "sqlite":
            return _sqlite_path(url, parts)
        case "memory":
            _options(url, parts, allowed=())
            if parts.path:
                raise InvalidJournalUrl(f"Invalid URL {url!r}: memory:// takes no path. Use memory://NAME.")
            return MemoryName(parts.netloc)
        case "dynamodb":
            return _table_address(url, parts, settings or load_settings(), default_table)
        case "" if url:
            raise InvalidJournalUrl(
                f"Invalid {kind} URL {url!r}. For a file, use sqlite:///{url}; otherwise {forms}."
            )
        case _:
            raise InvalidJournalUrl(f"Invalid {kind} URL {url!r}. Use {forms}.")


def beside_journal(settings: Settings, table: str) -> str:
    """The default URL of another store: the journal's file, or a table in the same region and endpoint."""
    scheme, _, rest = settings.journal.partition("://")
    if scheme != "dynamodb":
        return settings.journal
    options = [
        option for option in rest.partition("?")[2].split("&") if option.startswith(("region=", "endpoint="))
    ]
    return f"dynamodb://{table}" + (f"?{'&'.join(options)}" if options else "")


def _table_address(
    url: str, parts: SplitResult, settings: Settings, default_table: str | None
) -> TableAddress:
    is_journal = default_table is None
    allowed = ("region", "layout", "endpoint") if is_journal else ("region", "endpoint")
    options = _options(url, parts, allowed=allowed)
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: nothing may follow the table name. Use dynamodb://{parts.netloc}."
        )
    return TableAddress(
        table=unquote(parts.netloc) or default_table or settings.table_name,
        region=options.get("region") or settings.region,
        layout=options.get("layout") or (settings.layout if is_journal else "workflow"),
        endpoint=options.get("endpoint") or settings.endpoint,
        fast_query=settings.fast_query,
    )


def _sqlite_path(url: str, parts: SplitResult) -> Path:
    """Three slashes and a relative path, or four for an absolute one; "~" is the user's home."""
    if parts.netloc:
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: it has a host. Use sqlite:///{parts.netloc}{parts.path} for a "
            "relative path, or sqlite:////path for an absolute one."
        )
    _options(url, parts, allowed=())
    name = unquote(parts.path.removeprefix("/"))
    if not url.lower().startswith("sqlite:///") or not name:
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: the file name is missing. Use sqlite:///longwatch.db for a "
            "relative path, or sqlite:////path for an absolute one."
        )
    if name == ":memory:":
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: each thread would get its own database. Use memory:// instead."
        )
    if "\0" in name:
        raise InvalidJournalUrl(f"Invalid URL {url!r}: a file name cannot contain a null byte.")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: unknown home directory ({error}). Use an absolute path."
        ) from error


def _options(url: str, parts: SplitResult, *, allowed: tuple[str, ...]) -> dict[str, str]:
    """The query string as options. Raises `InvalidJournalUrl` for an option that is not allowed."""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(allowed))
    if unknown:
        known = ", ".join(allowed) or "none; write a question mark in a file name as %3F"
        raise InvalidJournalUrl(
            f"Unknown option {', '.join(unknown)} in URL {url!r}. Known options: {known}."
        )
    return options
