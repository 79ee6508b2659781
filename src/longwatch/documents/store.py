"""The document store: validates names, merges edits and retries lost races on any `DocumentBackend`."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.documents.files import (
    MAX_CONTENT_BYTES,
    MAX_PATH_BYTES,
    Applied,
    DocumentState,
    FileEntry,
    FileKind,
    FileList,
    ProjectFiles,
    validate_path,
    validate_prefix,
    validate_project,
)
from longwatch.documents.replica import Replica, new_author
from longwatch.documents.stores.base import DocumentBackend, Head, StoredDocument, next_head
from longwatch.documents.yjs_encoding import EMPTY_UPDATE
from longwatch.errors import DocumentNotFound, InvalidInput, InvalidUpdate, JournalBusy, JournalUnavailable
from longwatch.journal.base import ClosesOnExit
from longwatch.storage.change_signal import ChangeSignal, OnChange

MAX_ATTEMPTS = 100  # each lost race is the success of another writer
FIRST_WAIT_SECONDS = 0.001
LONGEST_WAIT_SECONDS = 0.25
LOCKS = 64


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a document."""

    make: Callable[[StoredDocument | None], bytes]  # the update, given what is stored
    kind: FileKind | None = None  # None: as it is
    new_kind: FileKind = FileKind.TEXT  # of a document that does not exist yet
    exists: bool | None = None  # afterwards; None: if it existed, or if it has content now


class DocumentStore(ClosesOnExit):
    """Projects of files, each a Yjs document that any number of writers edit at once. Blocking.

    Writers in other threads, processes and on other machines lose nothing, and each accepted change has a
    version of its own. When a writing call returns, the change is durable. A call that raises
    `JournalUnavailable` has stored all or nothing: repeat it, no change is applied twice.

    Every call validates its names and raises `InvalidPath` for an invalid project ID or path.
    """

    def __init__(self, backend: DocumentBackend, *, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        # A thread waits for another one instead of racing it, so that the author's numbers stay in order.
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._author = new_author()

    @property
    def url(self) -> str:
        """The URL with which `open_documents` opens this store again."""
        return self._backend.url

    def create_project(self, project: str, name: str | None = None) -> ProjectFiles:
        """Create the project, or return the existing one. Writing a file creates its project too."""
        return self._backend.create_project(validate_project(project), name or project, self._clock.now_ms())

    def project(self, project: str) -> ProjectFiles | None:
        return self._backend.project(validate_project(project))

    def projects(self) -> tuple[ProjectFiles, ...]:
        """Every project, ordered by ID."""
        return tuple(sorted(self._backend.projects(), key=lambda each: each.project))

    def project_version(self, project: str) -> int:
        """The number of changes in the project; 0 for an unknown one. Cheap enough for frequent polls."""
        return self._backend.project_version(validate_project(project))

    def files(self, project: str, *, prefix: str | None = None, since: int | None = None) -> FileList:
        """The existing files by path; with `since`, the changes after that version, including deletions.

        The list contains every change up to its `version`, and possibly later ones. An unknown project is
        empty. `prefix` is a beginning of paths; end it with "/" for a folder.
        """
        project, prefix = validate_project(project), validate_prefix(prefix or "")
        version = self._backend.project_version(project)  # first, so that the list is complete up to it
        if len(prefix.encode()) > MAX_PATH_BYTES:
            return FileList(version, ())
        found = self._backend.entries(project, prefix=prefix, since=since or 0)
        return FileList(version, tuple(each for each in found if since is not None or not each.deleted))

    def entries(self, project: str, paths: Sequence[str]) -> tuple[FileEntry, ...]:
        """The entries of these files in the given order, including tombstones; unknown files are left out."""
        project, wanted = validate_project(project), [validate_path(path) for path in paths]
        found = {each.path: each for each in self._backend.entries_at(project, list(dict.fromkeys(wanted)))}
        return tuple(found[path] for path in wanted if path in found)

    def entry(self, project: str, path: str) -> FileEntry | None:
        """The entry of one file, which may be a tombstone. Reads no content."""
        found = self.entries(project, [path])
        return found[0] if found else None

    def read(self, project: str, path: str) -> DocumentState:
        """The whole document as one update. `DocumentNotFound` if it does not exist or was deleted."""
        stored = self._load_existing(project, path)
        return DocumentState(stored.head.entry.version, _encode_state(stored), stored.head.entry)

    def diff(self, project: str, path: str, state_vector: bytes) -> DocumentState:
        """What a client with this state vector lacks. `InvalidUpdate` for an invalid state vector."""
        stored = self._load_existing(project, path)
        lacking = _load_replica(stored).diff(state_vector)
        return DocumentState(stored.head.entry.version, lacking, stored.head.entry)

    def text(self, project: str, path: str) -> str:
        """The text of a text document. `InvalidInput` for a binary one."""
        stored = self._load_existing(project, path)
        if stored.head.entry.kind is not FileKind.TEXT:
            raise InvalidInput(f"{path!r} of project {project!r} is binary. Read its bytes instead.")
        return _load_replica(stored).text()

    def content(self, project: str, path: str) -> bytes:
        """The bytes of a document; those of a text in UTF-8."""
        stored = self._load_existing(project, path)
        return _load_replica(stored).content(stored.head.entry.kind)

    def apply(
        self, project: str, path: str, update: bytes, *, kind: FileKind | str = FileKind.TEXT
    ) -> Applied:
        """Merge a Yjs update into the document. `kind` applies only if this creates the document.

        An update without anything new leaves the version as it is. An update that depends on one that has not
        arrived is stored and takes effect later. `InvalidUpdate` changes nothing. A deleted file is restored
        if the update leaves content in it.
        """
        try:
            new_kind = FileKind(kind)
        except ValueError as error:
            raise InvalidInput(f"Invalid document kind {kind!r}. Use text or binary.") from error
        return self._commit(project, path, Edit(lambda _: update, new_kind=new_kind))

    def write_text(self, project: str, path: str, text: str, *, base: str | None = None) -> Applied:
        """Change the file to this text by small edits, which preserve concurrent edits.

        `base` is the text that the writer had read: changes that others made since then are preserved too.
        The file is created, restored or converted to text as needed.
        """
        _refuse_too_much(_utf8_bytes(text, path), path)
        edit = _make_once(lambda stored: self._replica(stored).write_text(text, base=base))
        return self._commit(project, path, Edit(edit, kind=FileKind.TEXT, exists=True))

    def write_bytes(self, project: str, path: str, data: bytes) -> Applied:
        """Replace the file's content by these bytes. Of two concurrent writers, one wins."""
        _refuse_too_much(len(data), path)
        edit = _make_once(lambda stored: self._replica(stored).write_bytes(data))
        return self._commit(project, path, Edit(edit, kind=FileKind.BINARY, exists=True))

    def delete(self, project: str, path: str) -> FileEntry:
        """Empty the document and return its tombstone. Deleting it again changes nothing.

        `DocumentNotFound` if it never existed.
        """

        def clear(stored: StoredDocument | None) -> bytes:
            if stored is None:
                raise DocumentNotFound(f"Project {project!r} has no document {path!r}.")
            # A tombstone stays as it is, even if a delayed update has put content into the document.
            return EMPTY_UPDATE if stored.head.entry.deleted else self._replica(stored).clear()

        self._commit(project, path, Edit(clear, exists=False))
        entry = self.entry(project, path)
        assert entry is not None  # heads are never removed
        return entry

    def compact(self, project: str, path: str) -> bool:
        """Merge the stored updates of a document into one. No version changes.

        Stores compact documents by themselves now and then. Returns whether there was anything to merge.
        """
        stored = self._backend.load(validate_project(project), validate_path(path))
        if stored is None:
            raise DocumentNotFound(f"Project {project!r} has no document {path!r}.")
        if stored.head.base == stored.head.entry.version:
            return False
        return self._compact(project, stored.head, _encode_state(stored))

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each change of this process to this store.

        The returned `ChangeSignal` reports the changes of other processes.
        """
        return self._backend.subscribe(on_change)

    def close(self) -> None:
        """Close files and connections. A closed store cannot be used again."""
        self._backend.close()

    def _load_existing(self, project: str, path: str) -> StoredDocument:
        stored = self._backend.load(validate_project(project), validate_path(path))
        if stored is None or stored.head.entry.deleted:
            has = "no longer has" if stored else "has no"
            raise DocumentNotFound(f"Project {project!r} {has} document {path!r}.")
        return stored

    def _commit(self, project: str, path: str, edit: Edit) -> Applied:
        project, path = validate_project(project), validate_path(path)
        with self._lock_of(project, path):
            for number in range(MAX_ATTEMPTS):
                if number:
                    self._clock.sleep(_retry_seconds(number))
                try:
                    result = self._try_once(project, path, edit)
                except JournalUnavailable:
                    # The update may be stored, now or later: the author's numbers must not be used again.
                    self._author = new_author()
                    raise
                if result is not None:
                    return result
        raise JournalBusy(
            f"Other writers changed {path!r} of project {project!r} in all of {MAX_ATTEMPTS} attempts. Retry."
        )

    def _try_once(self, project: str, path: str, edit: Edit) -> Applied | None:
        """Apply the edit to the stored document; None if another writer was faster."""
        stored = self._backend.load(project, path)
        before = stored.head if stored else None
        update = edit.make(stored)
        replica = _load_replica(stored)
        news = replica.merge(update)
        kind = edit.kind or (before.entry.kind if before and not before.entry.deleted else edit.new_kind)
        content = replica.content(kind)
        if len(content) > MAX_CONTENT_BYTES:
            raise InvalidUpdate(_size_message(len(content), path))
        exists = edit.exists
        if exists is None:
            exists = bool(content) if before and before.entry.deleted else True
        is_unchanged = before is not None and before.entry.kind is kind and before.entry.deleted is not exists
        if news is None and (is_unchanged or edit.exists is None):
            return Applied(before.entry.version if before else 0, changed=False)
        update = news or EMPTY_UPDATE
        after = next_head(
            before,
            path=path,
            kind=kind,
            content=content,
            deleted=not exists,
            waits=replica.waits,
            update_bytes=len(update),
            now_ms=self._clock.now_ms(),
        )
        head = self._backend.append(project, before, after, update)
        if head is None:
            return None
        if head.is_due:
            try:
                self._compact(project, head, replica.state())
            except JournalUnavailable:
                pass  # the edit itself is stored; the next one tries to compact again
        return Applied(head.entry.version, changed=True)

    def _compact(self, project: str, head: Head, state: bytes) -> bool:
        return self._backend.replace_log(project, head, head.with_base(len(state)), state)

    def _replica(self, stored: StoredDocument | None) -> Replica:
        """The document, for an edit by this store's author."""
        return _load_replica(stored, author=self._author)

    def _lock_of(self, project: str, path: str) -> threading.Lock:
        if self._process != os.getpid():  # forked: the locks may be held, and the author is the parent's
            self._reset()
        return self._locks[hash((project, path)) % LOCKS]


def _load_replica(stored: StoredDocument | None, *, author: int | None = None) -> Replica:
    if stored is None:
        return Replica(author=author)
    return Replica(stored.updates, waits=stored.head.waits, author=author)


def _encode_state(stored: StoredDocument) -> bytes:
    # Right after a compaction the log is the state itself.
    return stored.updates[0] if len(stored.updates) == 1 else _load_replica(stored).state()


def _make_once(make: Callable[[StoredDocument | None], bytes]) -> Callable[[StoredDocument | None], bytes]:
    """The same edit at every attempt: a new one would undo what the faster writer has stored."""
    made: list[bytes] = []

    def edit(stored: StoredDocument | None) -> bytes:
        if not made:
            made.append(make(stored))
        return made[0]

    return edit


def _retry_seconds(losses: int) -> float:
    """Longer after each lost race, and random, so that two writers do not stay in step."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(losses, 10))
    return random.uniform(0, longest)


def _utf8_bytes(text: str, path: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The text for {path!r} is not valid Unicode ({error}).") from error


def _refuse_too_much(size: int, path: str) -> None:
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(_size_message(size, path))


def _size_message(size: int, path: str) -> str:
    return f"{path!r} would have {size:,} bytes; the limit of a document is {MAX_CONTENT_BYTES:,}."
