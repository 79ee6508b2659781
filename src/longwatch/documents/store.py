"""The promises every document store keeps. Each is a test in tests/contract that every adapter inherits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from longwatch.documents.files import Applied, DocumentState, FileEntry, FileList, Kind, Project
from longwatch.storage.change_signal import ChangeSignal


class DocumentStore(Protocol):
    """Projects of files, each a Yjs document that any number of writers edit at once. Blocking.

    Whoever writes at the same moment, from threads, processes or machines: nothing is lost, and each change
    that was accepted has a version of its own. When a writing call returns, what it wrote is durable. A call
    that raises `JournalUnavailable` has stored all or nothing: make it again, it changes nothing twice.

    Every call checks its names: `InvalidPath` for a project id or a path that can not be one.
    """

    @property
    def url(self) -> str:
        """The address under which `open_documents` opens this store again."""

    def create_project(self, project: str, name: str | None = None) -> Project:
        """Make the project, unless it is there; then it is returned as it is. Writing a file does so too."""

    def project(self, project: str) -> Project | None:
        """The project, or None."""

    def projects(self) -> tuple[Project, ...]:
        """Every project, in the order of their ids."""

    def project_version(self, project: str) -> int:
        """How many changes the project has seen; 0 for an unknown one. Cheap: for asking often."""

    def files(self, project: str, *, prefix: str | None = None, since: int | None = None) -> FileList:
        """The files there are, by path; with `since`, what changed after that version, deletions included.

        Every change up to `version` of the list is in it; one that was made meanwhile may be too. An unknown
        project reads as empty. `prefix` is a beginning of paths; end it with "/" for a folder.
        """

    def entries(self, project: str, paths: Sequence[str]) -> tuple[FileEntry, ...]:
        """What is known of these files, in the order asked, tombstones included and unknown ones left out."""

    def entry(self, project: str, path: str) -> FileEntry | None:
        """What is known of one file, a tombstone included. Reads no content."""

    def read(self, project: str, path: str) -> DocumentState:
        """The whole document as one update. `DocumentNotFound` if it is not there, or deleted."""

    def diff(self, project: str, path: str, state_vector: bytes) -> DocumentState:
        """What a client lacks that has this state vector. `InvalidUpdate` if it is none."""

    def text(self, project: str, path: str) -> str:
        """The text of a text document. `InvalidInput` for a binary one."""

    def content(self, project: str, path: str) -> bytes:
        """The bytes of a document: a text in UTF-8."""

    def apply(self, project: str, path: str, update: bytes, *, kind: Kind | str = Kind.TEXT) -> Applied:
        """Merge a Yjs update into the document, which is made if it is not there; `kind` is for that alone.

        An update that holds nothing new keeps the version and is no error. One that builds on another that
        has not arrived is kept until it can take effect. `InvalidUpdate` changes nothing. A deleted file
        comes back if the update leaves something in it.
        """

    def write_text(self, project: str, path: str, text: str, *, base: str | None = None) -> Applied:
        """Make the file hold this text, by small edits, so that edits made at the same moment stay.

        `base` is the text that the writer had read: what others changed between that and now stays as well.
        The file is made, brought back or turned into a text as needed.
        """

    def write_bytes(self, project: str, path: str, data: bytes) -> Applied:
        """Make the file hold these bytes. Of two who write at the same moment, one wins."""

    def delete(self, project: str, path: str) -> FileEntry:
        """Empty the document and leave a tombstone, which is returned. Deleting again changes nothing.

        `DocumentNotFound` if there never was one.
        """

    def compact(self, project: str, path: str) -> bool:
        """Put the stored updates of a document together into one, and remove them. No version changes.

        Stores do so by themselves from time to time. Returns whether there was anything to do.
        """

    def listen(self, heard: Callable[[], None]) -> ChangeSignal:
        """Call `heard`, from any thread, after each change of this process to this store.

        What the returned object says tells of other processes: see `ChangeSignal`.
        """

    def close(self) -> None:
        """Let go of files and connections. A closed store can not be used again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
