"""The document store: a protocol, whose promises tests/contract checks, and its implementation."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from longwatch.clock import Clock
from longwatch.documents.files import (
    MAX_CONTENT_BYTES,
    MAX_PATH_BYTES,
    Applied,
    DocumentState,
    FileEntry,
    FileList,
    Kind,
    ProjectFiles,
    checked_path,
    checked_prefix,
    checked_project,
)
from longwatch.documents.replica import Replica, new_author
from longwatch.documents.stores.base import DocumentBackend, Head, StoredDocument, next_head
from longwatch.documents.yjs_encoding import EMPTY_UPDATE
from longwatch.errors import DocumentNotFound, InvalidInput, InvalidUpdate, JournalBusy, JournalUnavailable
from longwatch.journal.base import ClosesOnExit
from longwatch.storage.change_signal import ChangeSignal, OnChange


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

    def create_project(self, project: str, name: str | None = None) -> ProjectFiles:
        """Make the project, unless it is there; then it is returned as it is. Writing a file does so too."""

    def project(self, project: str) -> ProjectFiles | None:
        """The project, or None."""

    def projects(self) -> tuple[ProjectFiles, ...]:
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

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each change of this process to this store.

        The returned `ChangeSignal` reports the changes of other processes.
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


MOST_TRIES = 100  # each lost race is somebody else's success
FIRST_WAIT_SECONDS = 0.001
LONGEST_WAIT_SECONDS = 0.25
LOCKS = 64


@dataclass(frozen=True, slots=True)
class Edit:
    """What somebody wants of a document."""

    make: Callable[[StoredDocument | None], bytes]  # the update, given what is there
    kind: Kind | None = None  # None: as it is
    new_kind: Kind = Kind.TEXT  # of a document that is not there
    is_there: bool | None = None  # afterwards; None: if it was, or if there is something in it


class KeptDocuments(ClosesOnExit):
    """A `DocumentStore` on a shelf."""

    def __init__(self, shelf: DocumentBackend, *, clock: Clock) -> None:
        self._shelf = shelf
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        # A thread waits here for another rather than race it, so that the author's numbers stay in order.
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._author = new_author()

    @property
    def url(self) -> str:
        return self._shelf.url

    def create_project(self, project: str, name: str | None = None) -> ProjectFiles:
        return self._shelf.create_project(checked_project(project), name or project, self._clock.now_ms())

    def project(self, project: str) -> ProjectFiles | None:
        return self._shelf.project(checked_project(project))

    def projects(self) -> tuple[ProjectFiles, ...]:
        return tuple(sorted(self._shelf.projects(), key=lambda each: each.project))

    def project_version(self, project: str) -> int:
        return self._shelf.project_version(checked_project(project))

    def files(self, project: str, *, prefix: str | None = None, since: int | None = None) -> FileList:
        project, prefix = checked_project(project), checked_prefix(prefix or "")
        version = self._shelf.project_version(project)  # first, so that the list holds all that it counts
        if len(prefix.encode()) > MAX_PATH_BYTES:
            return FileList(version, ())
        found = self._shelf.entries(project, prefix=prefix, since=since or 0)
        return FileList(version, tuple(each for each in found if since is not None or not each.deleted))

    def entries(self, project: str, paths: Sequence[str]) -> tuple[FileEntry, ...]:
        project, wanted = checked_project(project), [checked_path(path) for path in paths]
        found = {each.path: each for each in self._shelf.entries_at(project, list(dict.fromkeys(wanted)))}
        return tuple(found[path] for path in wanted if path in found)

    def entry(self, project: str, path: str) -> FileEntry | None:
        found = self.entries(project, [path])
        return found[0] if found else None

    def read(self, project: str, path: str) -> DocumentState:
        stored = self._living(project, path)
        return DocumentState(stored.head.entry.version, _state_of(stored), stored.head.entry)

    def diff(self, project: str, path: str, state_vector: bytes) -> DocumentState:
        stored = self._living(project, path)
        lacking = _replica_of(stored).diff(state_vector)
        return DocumentState(stored.head.entry.version, lacking, stored.head.entry)

    def text(self, project: str, path: str) -> str:
        stored = self._living(project, path)
        if stored.head.entry.kind is not Kind.TEXT:
            raise InvalidInput(f"{path!r} of project {project!r} is no text; read its bytes instead.")
        return _replica_of(stored).text()

    def content(self, project: str, path: str) -> bytes:
        stored = self._living(project, path)
        return _replica_of(stored).content(stored.head.entry.kind)

    def apply(self, project: str, path: str, update: bytes, *, kind: Kind | str = Kind.TEXT) -> Applied:
        try:
            new_kind = Kind(kind)
        except ValueError as error:
            raise InvalidInput(f"{kind!r} is no kind of document; write text or binary.") from error
        return self._commit(project, path, Edit(lambda _: update, new_kind=new_kind))

    def write_text(self, project: str, path: str, text: str, *, base: str | None = None) -> Applied:
        _refuse_too_much(_utf8(text, path), path)
        edit = _once(lambda stored: self._replica(stored).write_text(text, base=base))
        return self._commit(project, path, Edit(edit, kind=Kind.TEXT, is_there=True))

    def write_bytes(self, project: str, path: str, data: bytes) -> Applied:
        _refuse_too_much(len(data), path)
        edit = _once(lambda stored: self._replica(stored).write_bytes(data))
        return self._commit(project, path, Edit(edit, kind=Kind.BINARY, is_there=True))

    def delete(self, project: str, path: str) -> FileEntry:
        def clear(stored: StoredDocument | None) -> bytes:
            if stored is None:
                raise DocumentNotFound(f"Project {project!r} has no document {path!r}.")
            # A tombstone is left as it is, also if an update that waited has put something under it.
            return EMPTY_UPDATE if stored.head.entry.deleted else self._replica(stored).clear()

        self._commit(project, path, Edit(clear, is_there=False))
        entry = self.entry(project, path)
        assert entry is not None  # heads are never removed
        return entry

    def compact(self, project: str, path: str) -> bool:
        stored = self._shelf.load(checked_project(project), checked_path(path))
        if stored is None:
            raise DocumentNotFound(f"Project {project!r} has no document {path!r}.")
        if stored.head.base == stored.head.entry.version:
            return False
        return self._compact(project, stored.head, _state_of(stored))

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._shelf.subscribe(on_change)

    def close(self) -> None:
        self._shelf.close()

    def _living(self, project: str, path: str) -> StoredDocument:
        stored = self._shelf.load(checked_project(project), checked_path(path))
        if stored is None or stored.head.entry.deleted:
            gone = "no longer has" if stored else "has no"
            raise DocumentNotFound(f"Project {project!r} {gone} document {path!r}.")
        return stored

    def _commit(self, project: str, path: str, edit: Edit) -> Applied:
        project, path = checked_project(project), checked_path(path)
        with self._lock_of(project, path):
            for number in range(MOST_TRIES):
                if number:
                    self._clock.sleep(_pause(number))
                try:
                    done = self._try(project, path, edit)
                except JournalUnavailable:
                    # It may have been stored, or may yet be: another author must not go on from its numbers.
                    self._author = new_author()
                    raise
                if done is not None:
                    return done
        raise JournalBusy(
            f"Others changed {path!r} of project {project!r} each time in {MOST_TRIES} tries; try again."
        )

    def _try(self, project: str, path: str, edit: Edit) -> Applied | None:
        """Make the edit on what is there now. None: somebody else was faster."""
        stored = self._shelf.load(project, path)
        before = stored.head if stored else None
        update = edit.make(stored)
        replica = _replica_of(stored)
        news = replica.merge(update)
        kind = edit.kind or (before.entry.kind if before and not before.entry.deleted else edit.new_kind)
        content = replica.content(kind)
        if len(content) > MAX_CONTENT_BYTES:
            raise InvalidUpdate(_too_much(len(content), path))
        is_there = edit.is_there
        if is_there is None:
            is_there = bool(content) if before and before.entry.deleted else True
        as_it_was = before is not None and before.entry.kind is kind and before.entry.deleted is not is_there
        if news is None and (as_it_was or edit.is_there is None):
            return Applied(before.entry.version if before else 0, changed=False)
        update = news or EMPTY_UPDATE
        after = next_head(
            before,
            path=path,
            kind=kind,
            content=content,
            deleted=not is_there,
            waits=replica.waits,
            update_bytes=len(update),
            now_ms=self._clock.now_ms(),
        )
        kept = self._shelf.append(project, before, after, update)
        if kept is None:
            return None
        if kept.is_due:
            self._compact_unless_away(project, kept, replica.state())
        return Applied(kept.entry.version, changed=True)

    def _compact_unless_away(self, project: str, head: Head, state: bytes) -> None:
        try:
            self._compact(project, head, state)
        except JournalUnavailable:
            pass  # what was asked for is stored; the next change tries again

    def _compact(self, project: str, head: Head, state: bytes) -> bool:
        return self._shelf.replace_log(project, head, head.compacted(len(state)), state)

    def _replica(self, stored: StoredDocument | None) -> Replica:
        """The document, to be edited by this store."""
        return _replica_of(stored, author=self._author)

    def _lock_of(self, project: str, path: str) -> threading.Lock:
        if self._process != os.getpid():  # after a fork: the parent's locks may be held, its author is taken
            self._begin()
        return self._locks[hash((project, path)) % LOCKS]


def _replica_of(stored: StoredDocument | None, *, author: int | None = None) -> Replica:
    if stored is None:
        return Replica(author=author)
    return Replica(stored.updates, waits=stored.head.waits, author=author)


def _state_of(stored: StoredDocument) -> bytes:
    # Right after a compaction the log is the state itself.
    return stored.updates[0] if len(stored.updates) == 1 else _replica_of(stored).state()


def _once(make: Callable[[StoredDocument | None], bytes]) -> Callable[[StoredDocument | None], bytes]:
    """The same edit at every try: made anew, it would undo what the faster one has written."""
    made: list[bytes] = []

    def edit(stored: StoredDocument | None) -> bytes:
        if not made:
            made.append(make(stored))
        return made[0]

    return edit


def _pause(losses: int) -> float:
    """Longer after each lost race, and never the same for two."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(losses, 10))
    return random.uniform(0, longest)


def _utf8(text: str, path: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The text for {path!r} has half a character and is no Unicode ({error})."
        ) from error


def _refuse_too_much(size: int, path: str) -> None:
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(_too_much(size, path))


def _too_much(size: int, path: str) -> str:
    return f"{path!r} would have {size:,} bytes, and a document holds at most {MAX_CONTENT_BYTES:,}."
