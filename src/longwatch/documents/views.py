"""Files of a project, as the API and the feed return them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from longwatch.clock import iso_from_ms
from longwatch.documents.files import Applied, FileEntry
from longwatch.model.json_schema import STRICT, Time

ChangeWord = Literal["created", "modified", "deleted"]


@dataclass(frozen=True, kw_only=True)
class FileView:
    """One file. Deleted files appear only among changes."""

    __pydantic_config__ = STRICT

    path: str
    version: int
    last_modified: Time
    created_at: Time
    size: int
    sha256: str
    kind: Literal["text", "binary"]
    deleted: bool

    @classmethod
    def of(cls, entry: FileEntry) -> FileView:
        return cls(
            path=entry.path,
            version=entry.version,
            last_modified=iso_from_ms(entry.last_modified),
            created_at=iso_from_ms(entry.created_at),
            size=entry.size,
            sha256=entry.sha256,
            kind=entry.kind.value,
            deleted=entry.deleted,
        )


@dataclass(frozen=True, kw_only=True)
class FileListView:
    """Files by path, with every change up to `version` of the project."""

    __pydantic_config__ = STRICT

    version: int
    files: list[FileView]


@dataclass(frozen=True, kw_only=True)
class FileChangeView:
    """A file that differs from what the client has."""

    __pydantic_config__ = STRICT

    path: str
    last_modified: Time
    version: int
    change_type: ChangeWord

    @classmethod
    def of(cls, entry: FileEntry, versions: Mapping[str, int] | None) -> FileChangeView | None:
        """The change since the versions of the client; None if there is none."""
        change = change_since(entry, versions)
        if change is None:
            return None
        modified = iso_from_ms(entry.last_modified)
        return cls(path=entry.path, last_modified=modified, version=entry.version, change_type=change)


def change_since(entry: FileEntry, versions: Mapping[str, int] | None) -> ChangeWord | None:
    """How a file differs from the version of the client, if it does."""
    version = versions.get(entry.path) if versions is not None else None
    if version == entry.version:
        return None
    if entry.deleted:
        # A client that states its versions and never had the file needs no deletion.
        return "deleted" if version is not None or versions is None else None
    return "created" if version is None else "modified"


@dataclass(frozen=True, kw_only=True)
class ChangedFiles:
    """Only the files that changed."""

    __pydantic_config__ = STRICT

    changes: list[FileChangeView]


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """The version of a file after a write."""

    __pydantic_config__ = STRICT

    version: int
    changed: bool

    @classmethod
    def of(cls, applied: Applied) -> WriteResult:
        return cls(version=applied.version, changed=applied.changed)
