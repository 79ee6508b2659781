"""The journal in one SQLite file: the default, for a laptop or a single server."""

from longwatch.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
