"""The files of a project as a client sees them, and how two looks differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file."""

    path: str
    version: int
    last_modified: datetime
    size: int
    sha256: str
    kind: str  # text or binary

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> File:
        """The file in an answer."""
        return cls(
            path=wire["path"],
            version=wire["version"],
            last_modified=datetime.fromisoformat(wire["last_modified"]),
            size=wire["size"],
            sha256=wire["sha256"],
            kind=wire["kind"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """What became of one file."""

    file_path: str
    last_modified: datetime  # of a deleted one: when it was last seen
    change_type: str  # created, modified or deleted
    version: int


def files_of(wire: Mapping[str, Any]) -> dict[str, File]:
    """The files of a list, by path."""
    return {entry["path"]: File.of(entry) for entry in wire["files"] if not entry["deleted"]}


def changes_between(
    before: Mapping[str, File], after: Mapping[str, File], paths: Collection[str] | None = None
) -> list[DocumentChange]:
    """How the files differ, those of these paths only if any are given."""
    changes: list[DocumentChange] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if paths is not None and path not in paths:
            continue
        if new is None and old is not None:
            changes.append(_change(old, "deleted"))
        elif new is not None and old is None:
            changes.append(_change(new, "created"))
        elif new is not None and old is not None and new.version != old.version:
            changes.append(_change(new, "modified"))
    return changes


def _change(file: File, change_type: str) -> DocumentChange:
    return DocumentChange(
        file_path=file.path, last_modified=file.last_modified, change_type=change_type, version=file.version
    )
