"""Documents in a SQLite file: the journal's own, or another."""

from longwatch.documents.sqlite.store import SqliteDocumentStore

__all__ = ["SqliteDocumentStore"]
