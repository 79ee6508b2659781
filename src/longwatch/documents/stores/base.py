"""Where documents lie: the few operations that differ between memory, SQLite and DynamoDB.

A document is a head and a log. The log is a row of updates, one a version; its first, the base, is a whole
state once the log has been compacted. A head changes only by compare-and-set on its version and its base.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from longwatch.documents.files import FileEntry, Kind, ProjectFiles
from longwatch.storage.change_signal import ChangeSignal, OnChange

# When a log is compacted by itself. A large document is rewritten less often, because that costs more.
MOST_UPDATES = 64
BYTES_PER_FURTHER_UPDATE = 16 * 1024
MOST_LOG_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a store keeps of a document beside its updates."""

    entry: FileEntry
    base: int  # the version at which the log begins
    base_bytes: int
    log_bytes: int  # of the updates after the base
    waits: bool  # whether an update waits for another one that has not arrived

    @property
    def is_due(self) -> bool:
        """Whether the log is long enough to be worth compacting."""
        updates = self.entry.version - self.base
        return updates >= MOST_UPDATES + self.base_bytes // BYTES_PER_FURTHER_UPDATE or self.log_bytes >= max(
            MOST_LOG_BYTES, self.base_bytes
        )

    def compacted(self, state_bytes: int) -> Head:
        """The head of the same document after its log became one state of that many bytes."""
        return replace(self, base=self.entry.version, base_bytes=state_bytes, log_bytes=0)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it lies there: its head, and its log from the base to the version."""

    head: Head
    updates: Sequence[bytes]


def next_head(
    before: Head | None,
    *,
    path: str,
    kind: Kind,
    content: bytes,
    deleted: bool,
    waits: bool,
    update_bytes: int,
    now_ms: int,
) -> Head:
    """The head of the next version. The shelf fills in the project's version when it stores it."""
    appears = before is None or (before.entry.deleted and not deleted)
    version = before.entry.version + 1 if before else 1
    entry = FileEntry(
        path=path,
        version=version,
        project_version=0,
        created_version=0 if appears or before is None else before.entry.created_version,
        # Machines do not agree on the time, and a file must not look older after a change.
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


def placed(head: Head, project_version: int) -> Head:
    """The head with the project's version in it, as it is stored."""
    created = head.entry.created_version or project_version
    return replace(head, entry=replace(head.entry, project_version=project_version, created_version=created))


class DocumentBackend(Protocol):
    """The storage under a document store. Names are checked already."""

    url: str

    def create_project(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        """The project, made if it is not there."""

    def project(self, project: str) -> ProjectFiles | None: ...

    def projects(self) -> Sequence[ProjectFiles]: ...

    def project_version(self, project: str) -> int: ...

    def entries(self, project: str, *, prefix: str, since: int) -> Sequence[FileEntry]:
        """Everything that changed after a project's version, tombstones included, by path."""

    def entries_at(self, project: str, paths: Sequence[str]) -> Sequence[FileEntry]:
        """What there is at these paths, in any order."""

    def load(self, project: str, path: str) -> StoredDocument | None:
        """The document as of one moment."""

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        """Store the next version with its update, unless the head is no longer `before`: then None.

        The project's version grows by one in the same step, and is in the head that is returned. No reader
        sees a version of the project before all lower ones.
        """

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        """Store the state in the place of the whole log, unless the head is no longer `before`."""

    def subscribe(self, on_change: OnChange) -> ChangeSignal: ...

    def close(self) -> None: ...
