"""A Yjs document in memory, built from the stored updates. The only module that imports pycrdt.

Bytes from outside are validated before pycrdt parses them. Three properties of pycrdt matter here. A deletion
does not change the state vector, so a change is detected by comparing units and deletions. An update that
arrives before one it depends on is pending, and pycrdt omits it from `Doc.get_update`; then the stored
updates are merged as they are. Positions in a text count bytes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc, Map, Snapshot, Text, get_update, merge_updates

from longwatch.documents.files import FileKind
from longwatch.documents.text_edits import TextEdit, apply_edits, byte_offsets, find_edits, rebase_edits
from longwatch.documents.yjs_encoding import EMPTY_UPDATE, DocumentFingerprint, state_vector, waits_for_more
from longwatch.documents.yjs_updates import check_state_vector, check_update, repair_updates
from longwatch.errors import InvalidUpdate, JournalUnusable

TEXT_ROOT = "content"
BINARY_ROOT = "file"
BINARY_KEY = "bytes"


def new_author() -> int:
    """A random client ID of 32 bits, as in Yjs."""
    return secrets.randbits(32)


class Replica:
    """One document, merged from its stored updates. Not thread-safe."""

    def __init__(
        self, updates: Sequence[bytes] = (), *, waits: bool = False, author: int | None = None
    ) -> None:
        self.waits = waits  # whether an update depends on one that has not arrived
        self._author = new_author() if author is None else author
        self._load(repair_updates(updates))

    def _load(self, updates: Sequence[bytes]) -> None:
        self._updates = updates
        self._doc: Doc[Any] = Doc(client_id=self._author)
        try:
            with self._doc.transaction():
                for update in updates:
                    self._doc.apply_update(update)
        except (ValueError, RuntimeError) as error:
            raise JournalUnusable(
                f"A stored document cannot be read ({error}). Restore the store from a backup."
            ) from error

    def merge(self, update: bytes) -> bytes | None:
        """Apply the update and return the part to store, or None if it contains nothing new.

        Raises `InvalidUpdate` for an invalid update; discard this replica then.
        """
        check_update(update)
        stored = self._updates
        *repaired, update = repair_updates([*stored, update])
        if any(new is not old for new, old in zip(repaired, stored, strict=True)):
            self._load(repaired)
        before, state_before = self._fingerprint(), self._doc.get_state()
        try:
            with raise_panics():
                self._doc.apply_update(update)
            plain = merge_updates(update)  # without bytes after the update's end
        except (ValueError, RuntimeError) as error:
            raise InvalidUpdate(
                f"Invalid Yjs update of {len(update):,} bytes for this document ({error}). "
                "Send an update of version 1, as Y.encodeStateAsUpdate returns it."
            ) from error
        waited, self._updates = self.waits, [*repaired, plain]
        self.waits = self._any_waits(self._updates if waited else [plain])
        if self._fingerprint() == before and not (self.waits and self._adds(plain, repaired)):
            return None
        if self.waits or waited:
            return plain
        # A client may send its whole state for one new letter.
        return min(plain, self._doc.get_update(state_before), key=len)

    def state(self) -> bytes:
        """The whole document as one update."""
        if self.waits:
            return merge_updates(*self._updates)
        return self._doc.get_update()

    def diff(self, state: bytes) -> bytes:
        """What a client with this state vector lacks; more than that while an update is pending."""
        check_state_vector(state)
        try:
            lacking = self._doc.get_update(state)
        except ValueError as error:
            raise InvalidUpdate(
                f"Invalid Yjs state vector of {len(state):,} bytes. Send what Y.encodeStateVector returns."
            ) from error
        return self.state() if self.waits else lacking

    def text(self) -> str:
        """The text of a text document."""
        return str(self._text())

    def content(self, kind: FileKind) -> bytes:
        """The file's bytes."""
        if kind is FileKind.TEXT:
            return self.text().encode()
        held = self._file().get(BINARY_KEY)
        # A client can store any value there; only bytes are a file.
        return bytes(held) if isinstance(held, bytes | bytearray) else b""

    def write_text(self, text: str, *, base: str | None = None) -> bytes:
        """Change the text by small edits and return them as an update.

        `base` is the text that the writer had read: changes that others made since then are preserved.
        """

        def write() -> None:
            self._delete_bytes()
            now = self.text()
            ours = find_edits(now if base is None else base, text)
            changes = ours if base is None else rebase_edits(ours, find_edits(base, now))
            _apply(self._text(), now, changes)

        return self._record_update(write)

    def write_bytes(self, data: bytes) -> bytes:
        """Replace the file's bytes and return the update. Of two concurrent writers, one wins."""

        def write() -> None:
            self._text().clear()
            if BINARY_KEY not in self._file() or self.content(FileKind.BINARY) != data:
                self._file()[BINARY_KEY] = data

        return self._record_update(write)

    def clear(self) -> bytes:
        """Empty the document and return the update. Concurrent edits of others survive."""
        return self._record_update(lambda: empty(self._doc))

    def _record_update(self, edit: Callable[[], None]) -> bytes:
        made: list[bytes] = []
        subscription = self._doc.observe(lambda event: made.append(event.update))
        with self._doc.transaction():
            edit()
        self._doc.unobserve(subscription)
        return made[0] if made else EMPTY_UPDATE

    def _delete_bytes(self) -> None:
        if BINARY_KEY in self._file():
            del self._file()[BINARY_KEY]

    def _text(self) -> Text:
        found: Text = self._doc.get(TEXT_ROOT, type=Text)
        return found

    def _file(self) -> Map[Any]:
        found: Map[Any] = self._doc.get(BINARY_ROOT, type=Map)
        return found

    def _fingerprint(self) -> DocumentFingerprint:
        return DocumentFingerprint.of_snapshot(Snapshot.from_doc(self._doc).encode())

    def _adds(self, update: bytes, stored: Sequence[bytes]) -> bool:
        """Whether an update contains anything new. Merging the stored ones twice normalises their order."""
        return merge_updates(*stored, update) != merge_updates(*stored, *stored, EMPTY_UPDATE)

    def _any_waits(self, updates: Sequence[bytes]) -> bool:
        state = self._doc.get_state()
        units = state_vector(state)
        return any(waits_for_more(get_update(update, state), units) for update in updates)


def empty(doc: Doc[Any]) -> None:
    """Remove the text and the bytes of a file from its document. Other types in it remain."""
    text, file = doc.get(TEXT_ROOT, type=Text), doc.get(BINARY_ROOT, type=Map)
    with doc.transaction():
        text.clear()
        if BINARY_KEY in file:
            del file[BINARY_KEY]


def _apply(text: Text, now: str, changes: Sequence[TextEdit]) -> None:
    for start, end, new in byte_offsets(now, changes):
        if start != end:
            del text[start:end]
        if new:
            text.insert(start, new)
    wanted = apply_edits(now, changes)
    if str(text) != wanted:  # an embedded object, such as a picture, has a position in it
        text.clear()
        text.insert(0, wanted)


@contextmanager
def raise_panics() -> Iterator[None]:
    """Raise a panic of pycrdt as RuntimeError; it is a BaseException, which `except Exception` misses."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RuntimeError(str(error)) from error
        raise
