"""URLs of stores: `sqlite:///path`, `memory://` and `dynamodb://TABLE`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from longwatch.errors import InvalidJournalUrl
from longwatch.settings import Settings

DYNAMODB_OPTIONS = ("region", "layout", "endpoint")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
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
            raise InvalidJournalUrl(f"Invalid URL {url!r}: memory:// takes no path. Use memory://NAME.")
        if not parts.netloc:
            return make("")
        with self._naming:
            if parts.netloc not in self._named:
                self._named[parts.netloc] = make(parts.netloc)
            return self._named[parts.netloc]


def parts_of(url: str, what: str, forms: str) -> SplitResult:
    """The parts of an address, or `InvalidJournalUrl`."""
    try:
        return urlsplit(url, allow_fragments=False)  # a "#" is part of a file's name here
    except ValueError as error:
        raise InvalidJournalUrl(f"Invalid {what} {url!r} ({error}). Use {forms}.") from error


def beside_journal(settings: Settings, table: str) -> str:
    """Where another store is by default: in the journal's file, or in a table beside its own."""
    scheme, _, rest = settings.journal.partition("://")
    if scheme != "dynamodb":
        return settings.journal
    kept = [
        option for option in rest.partition("?")[2].split("&") if option.startswith(("region=", "endpoint="))
    ]
    return f"dynamodb://{table}" + (f"?{'&'.join(kept)}" if kept else "")


def table_place(url: str, parts: SplitResult, settings: Settings, *, default_table: str) -> TableLocation:
    """The table of another store than the journal."""
    options = options_of(url, parts, allowed=("region", "endpoint"))
    _refuse_path(url, parts)
    return TableLocation(
        table=unquote(parts.netloc) or default_table,
        region=options.get("region") or settings.region,
        endpoint=options.get("endpoint") or settings.endpoint,
        short_way=settings.short_way,
    )


def _refuse_path(url: str, parts: SplitResult) -> None:
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: nothing may follow the table name. Use dynamodb://{parts.netloc}."
        )


def sqlite_path(url: str, parts: SplitResult) -> Path:
    """Three slashes and a relative path, or four for an absolute one; "~" is the user's home."""
    if parts.netloc:
        raise InvalidJournalUrl(
            f"Invalid URL {url!r}: it has a host. Use sqlite:///{parts.netloc}{parts.path} for a "
            "relative path, or sqlite:////path for an absolute one."
        )
    options_of(url, parts, allowed=())
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


def options_of(url: str, parts: SplitResult, *, allowed: tuple[str, ...]) -> dict[str, str]:
    """What follows the question mark of an address. Raises `InvalidJournalUrl` for what is not allowed."""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(allowed))
    if unknown:
        known = ", ".join(allowed) or "none; write a question mark in a file name as %3F"
        raise InvalidJournalUrl(
            f"Unknown option {', '.join(unknown)} in URL {url!r}. Known options: {known}."
        )
    return options
