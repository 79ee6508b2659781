"""Files of a project: paths, kinds, versions, hashes, and how a file changed."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from longwatch.errors import InvalidPath

MAX_CONTENT_BYTES = 64 * 1024 * 1024  # of one file, and of one update


class Kind(StrEnum):
    """What is in a document, and under which name a Yjs client finds it."""

    TEXT = "text"  # doc.getText("content")
    BINARY = "binary"  # doc.getMap("file").get("bytes"), a Uint8Array


class FileChange(StrEnum):
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

    def change_since(self, project_version: int) -> FileChange:
        """What happened to the file after that version of the project, given that something did."""
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
    """What became of a write: the version now, and whether there was anything new in it."""

    version: int
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """A set of files with a version of its own, which grows by one with each change of any of them."""

    project: str
    name: str
    created_at: int  # epoch ms
    version: int


MAX_PATH_BYTES = 1024  # of UTF-8: what a sort key of DynamoDB holds
MAX_PROJECT_CHARACTERS = 128

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@~-]*")
_DRIVE = re.compile(r"[A-Za-z]:")
# Control characters, halves of a surrogate pair, and separators of lines and paragraphs.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They turn the reading direction, so that a name looks like another one.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def checked_path(path: str) -> str:
    """The path in the one form in which it is stored: relative, divided by "/", Unicode form NFC.

    Raises `InvalidPath` for one that could leave the project or that some store can not hold.
    """
    normal = unicodedata.normalize("NFC", path)
    problem = _problem_of(normal)
    if problem is not None:
        raise InvalidPath(
            f"{_shown(path)} is no path of a document: it {problem}. Write it relative to the project, "
            "such as docs/notes.md."
        )
    return normal


def _problem_of(path: str) -> str | None:
    if not path:
        return "is empty"
    if any(unicodedata.category(each) in _REFUSED_CATEGORIES or each in _TURNING for each in path):
        return "has a control character"
    if "\\" in path:
        return 'has a backslash where "/" divides folders'
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if path.endswith("/"):
        return "ends with a slash, as a folder does"
    segments = path.split("/")
    if "" in segments:
        return "has two slashes side by side"
    if "." in segments or ".." in segments:
        return 'has a segment "." or ".."'
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    return None


def checked_prefix(prefix: str) -> str:
    """The beginning of paths to list, in the form in which paths are stored. Any text: it names no file."""
    normal = unicodedata.normalize("NFC", prefix)
    if any(unicodedata.category(each) == "Cs" for each in normal):
        raise InvalidPath(f"{_shown(prefix)} is no beginning of a path: it has half a character.")
    return normal


def checked_project(project: str) -> str:
    """The project id, if it can be a key and a part of an address. Raises `InvalidPath` if not."""
    if len(project) <= MAX_PROJECT_CHARACTERS and _PROJECT.fullmatch(project):
        return project
    raise InvalidPath(
        f"{_shown(project)} is no project id. Write 1 to {MAX_PROJECT_CHARACTERS} letters without accents, "
        "digits and . _ : @ ~ - with a letter or digit first."
    )


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
