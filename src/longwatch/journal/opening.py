"""From a journal's address to the journal."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl
from longwatch.journal.base import Journal
from longwatch.settings import Settings, load_settings

FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION&layout=workflow|session"


def open_journal(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> Journal:
    """Open the journal at this address, or the one that the settings name.

    Nothing is connected or checked until the journal is first used, except that a SQLite file is created.
    """
    settings = settings if settings is not None else load_settings()
    address = url if url is not None else settings.journal
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    match parts.scheme:
        case "sqlite":
            from longwatch.journal.sqlite import SqliteJournal

            if parts.netloc:
                raise InvalidJournalUrl(
                    f"{address!r} has a host where the path should begin; "
                    f"write sqlite:///{parts.netloc}{parts.path} for a relative path, or sqlite:////path for an absolute one"
                )
            _refuse_options(address, options, allowed=())
            path = unquote(parts.path.removeprefix("/"))
            if not path:
                raise InvalidJournalUrl(f"{address!r} names no file; write sqlite:///longwatch.db")
            return SqliteJournal(Path(path), clock=clock)
        case "memory":
            from longwatch.journal.memory import MemoryJournal

            _refuse_options(address, options, allowed=())
            return MemoryJournal(parts.netloc, clock=clock)
        case "dynamodb":
            from longwatch.journal.dynamodb.opening import open_dynamodb

            _refuse_options(address, options, allowed=("region", "layout", "endpoint"))
            return open_dynamodb(
                table=unquote(parts.netloc) or settings.table_name,
                region=options.get("region") or settings.region,
                layout=options.get("layout") or settings.layout,
                endpoint=options.get("endpoint") or settings.endpoint,
                clock=clock,
            )
        case _:
            raise InvalidJournalUrl(f"{address!r} is no journal address; write {FORMS}")


def _refuse_options(address: str, options: dict[str, str], *, allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        known = ", ".join(allowed) or "none"
        raise InvalidJournalUrl(
            f"{address!r} has the unknown option {', '.join(unknown)}; known are: {known}"
        )
