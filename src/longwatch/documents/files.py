"""What a store says of its files: kinds, versions, hashes, and how a file changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_CONTENT_BYTES = 64 * 1024 * 1024  # of one file, and of one update


class Kind(StrEnum):
    """What is in a document, and under which name a Yjs client finds it."""

    TEXT = "text"  # doc.getText("content")
    BINARY = "binary"  # doc.getMap("file").get("bytes"), a Uint8Array


class Change(StrEnum):
    """What became of a file since a version of its project."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file as a list shows it. A deleted one stays as a tombstone, so that its versions go on."""

    path: str
    version: int  # grows by one with each accepted update
    project_version: int  # the project's when this version was stored
    created_version: int  # the project's when the file appeared, or came back after a deletion
    last_modified: int  # epoch ms
    created_at: int  # epoch ms
    size: int  # bytes of the content
    sha256: str  # of the content, in hex
    kind: Kind
    deleted: bool = False

    def change_since(self, project_version: int) -> Change:
        """What happened to the file after that version of the project, given that something did."""
        if self.deleted:
            return Change.DELETED
        return Change.CREATED if self.created_version > project_version else Change.MODIFIED


@dataclass(frozen=True, slots=True)
class FileList:
    """Files in the order of their paths, with every change up to `version` of the project."""

    version: int
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document, or what a client lacks of it, as one Yjs update."""

    version: int
    update: bytes
    entry: FileEntry


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a write: the version now, and whether there was anything new in it."""

    version: int
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A set of files with a version of its own, which grows by one with each change of any of them."""

    project: str
    name: str
    created_at: int  # epoch ms
    version: int
