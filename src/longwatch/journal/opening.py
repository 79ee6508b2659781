"""From a journal's address to the journal."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.settings import Settings, load_settings

FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION&layout=workflow|session"
DYNAMODB_OPTIONS = ("region", "layout", "endpoint")

_named: dict[str, MemoryJournal] = {}
_naming = threading.Lock()


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
    try:
        # A "#" is part of a file's name here, not the beginning of a fragment.
        parts = urlsplit(url, allow_fragments=False)
    except ValueError as error:
        raise InvalidJournalUrl(f"{url!r} is no journal address ({error}); write {FORMS}") from error
    match parts.scheme:
        case "sqlite":
            return _open_sqlite(url, parts, clock)
        case "memory":
            return _open_memory(url, parts, clock)
        case "dynamodb":
            return _open_dynamodb(url, parts, settings or load_settings(), clock)
        case "" if url:
            raise InvalidJournalUrl(
                f"{url!r} is no journal address; if it is a file, write sqlite:///{url}, else {FORMS}"
            )
        case _:
            raise InvalidJournalUrl(f"{url!r} is no journal address; write {FORMS}")


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


def _open_memory(url: str, parts: SplitResult, clock: Clock) -> Journal:
    options_of(url, parts, allowed=())
    if parts.path:
        raise InvalidJournalUrl(f"{url!r} has a path, which memory has not; write memory://NAME")
    if not parts.netloc:
        return MemoryJournal(clock=clock)
    with _naming:
        if parts.netloc not in _named:
            _named[parts.netloc] = MemoryJournal(parts.netloc, clock=clock)
        return _named[parts.netloc]


def _open_dynamodb(url: str, parts: SplitResult, settings: Settings, clock: Clock) -> Journal:
    options = options_of(url, parts, allowed=DYNAMODB_OPTIONS)
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(f"{url!r} has a path after the table; write dynamodb://{parts.netloc}")

    from longwatch.journal.dynamodb.opening import open_dynamodb

    return open_dynamodb(
        table=unquote(parts.netloc) or settings.table_name,
        region=options.get("region") or settings.region,
        layout=options.get("layout") or settings.layout,
        endpoint=options.get("endpoint") or settings.endpoint,
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
