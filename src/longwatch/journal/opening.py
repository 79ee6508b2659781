"""From a journal's address to the journal, and what the addresses of all stores have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.settings import Settings, load_settings

FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION&layout=workflow|session"
DYNAMODB_OPTIONS = ("region", "layout", "endpoint")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """Which table an address names, with what the settings add to it."""

    table: str
    region: str | None
    endpoint: str | None
    short_way: bool


class NamedStores(Generic[T]):
    """Stores in memory: one for each name in the whole process, and a new one each time without a name."""

    def __init__(self) -> None:
        self._named: dict[str, T] = {}
        self._naming = threading.Lock()

    def open(self, url: str, parts: SplitResult, make: Callable[[str], T]) -> T:
        """The store at this address; `make` gets its name."""
        options_of(url, parts, allowed=())
        if parts.path:
            raise InvalidJournalUrl(f"{url!r} has a path, which memory has not; write memory://NAME")
        if not parts.netloc:
            return make("")
        with self._naming:
            if parts.netloc not in self._named:
                self._named[parts.netloc] = make(parts.netloc)
            return self._named[parts.netloc]


_memory: NamedStores[MemoryJournal] = NamedStores()


def open_journal(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> Journal:
    """Open the journal at this address, or the one that the settings name.

    Nothing is connected or checked until the journal is first used, except that a SQLite file is created.
    `memory://NAME` is one journal for the whole process, `memory://` a new one each time.
    """
    if url is None:
        settings = settings or load_settings()
        url = settings.journal
    parts = parts_of(url, "journal address", FORMS)
    match parts.scheme:
        case "sqlite":
            return _open_sqlite(url, parts, clock)
        case "memory":
            return _memory.open(url, parts, lambda name: MemoryJournal(name, clock=clock))
        case "dynamodb":
            return _open_dynamodb(url, parts, settings or load_settings(), clock)
        case "" if url:
            raise InvalidJournalUrl(
                f"{url!r} is no journal address; if it is a file, write sqlite:///{url}, else {FORMS}"
            )
        case _:
            raise InvalidJournalUrl(f"{url!r} is no journal address; write {FORMS}")


def parts_of(url: str, what: str, forms: str) -> SplitResult:
    """The parts of an address, or `InvalidJournalUrl`."""
    try:
        return urlsplit(url, allow_fragments=False)  # a "#" is part of a file's name here
    except ValueError as error:
        raise InvalidJournalUrl(f"{url!r} is no {what} ({error}); write {forms}") from error


def beside_journal(settings: Settings, table: str) -> str:
    """Where another store is by default: in the journal's file, or in a table beside its own."""
    scheme, _, rest = settings.journal.partition("://")
    if scheme != "dynamodb":
        return settings.journal
    kept = [
        option for option in rest.partition("?")[2].split("&") if option.startswith(("region=", "endpoint="))
    ]
    return f"dynamodb://{table}" + (f"?{'&'.join(kept)}" if kept else "")


def table_place(url: str, parts: SplitResult, settings: Settings, *, default_table: str) -> TablePlace:
    """The table of another store than the journal."""
    options = options_of(url, parts, allowed=("region", "endpoint"))
    _refuse_path(url, parts)
    return TablePlace(
        table=unquote(parts.netloc) or default_table,
        region=options.get("region") or settings.region,
        endpoint=options.get("endpoint") or settings.endpoint,
        short_way=settings.short_way,
    )


def _refuse_path(url: str, parts: SplitResult) -> None:
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(f"{url!r} has a path after the table; write dynamodb://{parts.netloc}")


def _open_sqlite(url: str, parts: SplitResult, clock: Clock) -> Journal:
    path = sqlite_path(url, parts)

    from longwatch.journal.sqlite import SqliteJournal

    return SqliteJournal(path, clock=clock)


def sqlite_path(url: str, parts: SplitResult) -> Path:
    """Three slashes and a relative path, or four for an absolute one; "~" is the user's home."""
    if parts.netloc:
        raise InvalidJournalUrl(
            f"{url!r} has a host where the path should begin; write sqlite:///{parts.netloc}{parts.path} "
            "for a relative path, or sqlite:////path for an absolute one"
        )
    options_of(url, parts, allowed=())
    name = unquote(parts.path.removeprefix("/"))
    if not url.lower().startswith("sqlite:///") or not name:
        raise InvalidJournalUrl(
            f"{url!r} names no file; write sqlite:///longwatch.db for a relative path, or sqlite:////path "
            "for an absolute one"
        )
    if name == ":memory:":
        raise InvalidJournalUrl(f"{url!r} would be a database for each thread; write memory:// instead")
    if "\0" in name:
        raise InvalidJournalUrl(f"{url!r} has a zero byte in its path, which no file name can hold")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InvalidJournalUrl(f"{url!r} has a home nobody knows ({error}); write the whole path") from error


def _open_dynamodb(url: str, parts: SplitResult, settings: Settings, clock: Clock) -> Journal:
    options = options_of(url, parts, allowed=DYNAMODB_OPTIONS)
    _refuse_path(url, parts)

    from longwatch.journal.dynamodb.opening import open_dynamodb

    return open_dynamodb(
        table=unquote(parts.netloc) or settings.table_name,
        region=options.get("region") or settings.region,
        layout=options.get("layout") or settings.layout,
        endpoint=options.get("endpoint") or settings.endpoint,
        short_way=settings.short_way,
        clock=clock,
    )


def options_of(url: str, parts: SplitResult, *, allowed: tuple[str, ...]) -> dict[str, str]:
    """What follows the question mark of an address. Raises `InvalidJournalUrl` for what is not allowed."""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(allowed))
    if unknown:
        known = ", ".join(allowed) or "none; a question mark in a file's name is written %3F"
        raise InvalidJournalUrl(f"{url!r} has the unknown option {', '.join(unknown)}; known are: {known}")
    return options
