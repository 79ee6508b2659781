"""Files of a project: paths, kinds, versions, hashes, and how a file changed."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from longwatch.errors import InvalidPath

MAX_CONTENT_BYTES = 64 * 1024 * 1024  # of one file, and of one update


class FileKind(StrEnum):
    """The content of a document, and the name under which a Yjs client finds it."""

    TEXT = "text"  # doc.getText("content")
    BINARY = "binary"  # doc.getMap("file").get("bytes"), a Uint8Array


class FileChange(StrEnum):
    """How a file changed since a version of its project."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file in a list. A deleted file remains as a tombstone, so that its versions continue."""

    path: str
    version: int  # grows by one with each accepted update
    project_version: int  # the project's when this version was stored
    created_version: int  # the project's when the file appeared, or came back after a deletion
    last_modified: int  # epoch ms
    created_at: int  # epoch ms
    size: int  # bytes of the content
    sha256: str  # of the content, in hex
    kind: FileKind
    deleted: bool = False

    def change_since(self, project_version: int) -> FileChange:
        """How the file changed after that version of the project, given that it did."""
        if self.deleted:
            return FileChange.DELETED
        return FileChange.CREATED if self.created_version > project_version else FileChange.MODIFIED


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
    """The result of a write: the version, and whether it changed anything."""

    version: int
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """A set of files; its version grows by one with each change of any of them."""

    project: str
    name: str
    created_at: int  # epoch ms
    version: int


MAX_PATH_BYTES = 1024  # in UTF-8: the limit of a DynamoDB sort key
MAX_PROJECT_CHARACTERS = 128

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@~-]*")
_DRIVE = re.compile(r"[A-Za-z]:")
# Control characters, halves of a surrogate pair, and separators of lines and paragraphs.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They change the reading direction, so that one name looks like another.
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def validate_path(path: str) -> str:
    """The path as it is stored: relative, separated by "/", Unicode form NFC.

    Raises `InvalidPath` for a path that could leave the project or that some store cannot hold.
    """
    normal = unicodedata.normalize("NFC", path)
    problem = _problem_of(normal)
    if problem is not None:
        raise InvalidPath(
            f"Invalid document path {_quote(path)}: it {problem}. Use a path relative to the project, "
            "such as docs/notes.md."
        )
    return normal


def _problem_of(path: str) -> str | None:
    if not path:
        return "is empty"
    if any(unicodedata.category(each) in _REFUSED_CATEGORIES or each in _BIDI_CONTROLS for each in path):
        return "contains a control character"
    if "\\" in path:
        return 'contains a backslash; separate folders with "/"'
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if path.endswith("/"):
        return "ends with a slash"
    segments = path.split("/")
    if "" in segments:
        return "contains an empty segment"
    if "." in segments or ".." in segments:
        return 'contains a segment "." or ".."'
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    return None


def validate_prefix(prefix: str) -> str:
    """The prefix of paths to list, in the form in which paths are stored. It need not be a valid path."""
    normal = unicodedata.normalize("NFC", prefix)
    if any(unicodedata.category(each) == "Cs" for each in normal):
        raise InvalidPath(f"Invalid path prefix {_quote(prefix)}: it is not valid Unicode.")
    return normal


def validate_project(project: str) -> str:
    """The project ID. Raises `InvalidPath` unless it is valid as a key and as a part of a URL."""
    if len(project) <= MAX_PROJECT_CHARACTERS and _PROJECT.fullmatch(project):
        return project
    raise InvalidPath(
        f"Invalid project ID {_quote(project)}. Use 1 to {MAX_PROJECT_CHARACTERS} ASCII letters, digits and "
        ". _ : @ ~ - with a letter or digit first."
    )


def _quote(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
