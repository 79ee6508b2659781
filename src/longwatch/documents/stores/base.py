"""The operations that differ between documents in memory, SQLite and DynamoDB.

A document is a head and a log. The log has one update for each version; the first one, the base, is a whole
state after a compaction. A head changes only by compare-and-set on its version and its base.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from longwatch.documents.files import FileEntry, FileKind, ProjectFiles
from longwatch.storage.change_signal import ChangeSignal, OnChange

# When a store compacts a log. A large document is rewritten less often, because that costs more.
MAX_UPDATES = 64
BYTES_PER_FURTHER_UPDATE = 16 * 1024
MAX_LOG_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is stored of a document beside its updates."""

    entry: FileEntry
    base: int  # first version in the log
    base_bytes: int
    log_bytes: int  # of the updates after the base
    waits: bool  # whether an update depends on one that has not arrived

    @property
    def is_due(self) -> bool:
        """Whether the log is long enough to be worth compacting."""
        updates = self.entry.version - self.base
        return updates >= MAX_UPDATES + self.base_bytes // BYTES_PER_FURTHER_UPDATE or self.log_bytes >= max(
            MAX_LOG_BYTES, self.base_bytes
        )

    def with_base(self, state_bytes: int) -> Head:
        """The head after the log was compacted to one state of this size."""
        return replace(self, base=self.entry.version, base_bytes=state_bytes, log_bytes=0)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as stored: its head, and its log from the base to the current version."""

    head: Head
    updates: Sequence[bytes]


def next_head(
    before: Head | None,
    *,
    path: str,
    kind: FileKind,
    content: bytes,
    deleted: bool,
    waits: bool,
    update_bytes: int,
    now_ms: int,
) -> Head:
    """The head of the next version. The backend adds the project's version when it stores it."""
    appears = before is None or (before.entry.deleted and not deleted)
    version = before.entry.version + 1 if before else 1
    entry = FileEntry(
        path=path,
        version=version,
        project_version=0,
        created_version=0 if appears or before is None else before.entry.created_version,
        # The clocks of machines differ, and a change must not make a file older.
        last_modified=max(now_ms, before.entry.last_modified) if before else now_ms,
        created_at=now_ms if appears or before is None else before.entry.created_at,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        kind=kind,
        deleted=deleted,
    )
    if before is None:
        return Head(entry=entry, base=version, base_bytes=update_bytes, log_bytes=0, waits=waits)
    return replace(before, entry=entry, log_bytes=before.log_bytes + update_bytes, waits=waits)


def set_project_version(head: Head, project_version: int) -> Head:
    """The head as stored, with the project's version."""
    created = head.entry.created_version or project_version
    return replace(head, entry=replace(head.entry, project_version=project_version, created_version=created))


class DocumentBackend(Protocol):
    """The storage of a document store, which has validated all names."""

    url: str

    def create_project(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        """The project, created if it does not exist."""

    def project(self, project: str) -> ProjectFiles | None: ...

    def projects(self) -> Sequence[ProjectFiles]: ...

    def project_version(self, project: str) -> int: ...

    def entries(self, project: str, *, prefix: str, since: int) -> Sequence[FileEntry]:
        """The entries that changed after a project's version, including tombstones, by path."""

    def entries_at(self, project: str, paths: Sequence[str]) -> Sequence[FileEntry]:
        """The entries of these paths, in any order."""

    def load(self, project: str, path: str) -> StoredDocument | None:
        """The document as of one moment."""

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        """Store the next version with its update and return its head; None if the head is not `before`.

        The same step increments the project's version, which the returned head contains. No reader sees a
        version of the project before all lower ones.
        """

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        """Replace the log by the state; False if the head is not `before`."""

    def subscribe(self, on_change: OnChange) -> ChangeSignal: ...

    def close(self) -> None: ...
