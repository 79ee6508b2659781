"""A Yjs document in memory, made from what a store holds of it. The only module that knows pycrdt.

Bytes from outside are looked through before pycrdt sees them. Three traps are dealt with here. A deletion
does not change the state vector, so a change is found by comparing what is there and what is deleted. An
update that arrives before one it builds on waits, and pycrdt leaves it out of `Doc.get_update`; then the
stored updates are merged as they are. Positions in a text count bytes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc, Map, Snapshot, Text, get_update, merge_updates

from longwatch.documents.files import Kind
from longwatch.documents.text_edits import TextEdit, applied, byte_offsets, edits, rebased
from longwatch.documents.yjs_encoding import EMPTY_UPDATE, DocumentFingerprint, state_vector, waits_for_more
from longwatch.documents.yjs_updates import check_state_vector, check_update, mended
from longwatch.errors import InvalidUpdate, JournalUnusable

TEXT_ROOT = "content"
BINARY_ROOT = "file"
BINARY_KEY = "bytes"


def new_author() -> int:
    """A client id as Yjs makes them: 32 bits, which collide as rarely as theirs."""
    return secrets.randbits(32)


class Replica:
    """One document: the updates that a store holds, put together. Used by one thread."""

    def __init__(
        self, updates: Sequence[bytes] = (), *, waits: bool = False, author: int | None = None
    ) -> None:
        self.waits = waits  # whether one of the updates waits for another that is not there
        self._author = new_author() if author is None else author
        self._load(mended(updates))

    def _load(self, updates: Sequence[bytes]) -> None:
        self._updates = updates
        self._doc: Doc[Any] = Doc(client_id=self._author)
        try:
            with self._doc.transaction():
                for update in updates:
                    self._doc.apply_update(update)
        except (ValueError, RuntimeError) as error:
            raise JournalUnusable(
                f"A stored document can not be read ({error}). Restore the store from a backup."
            ) from error

    def merge(self, update: bytes) -> bytes | None:
        """Take the update in. What has to be stored of it, or None if all of it was known.

        Raises `InvalidUpdate` for bytes that are no update; this replica is of no use after that.
        """
        check_update(update)
        known = self._updates
        *whole, update = mended([*known, update])
        if any(new is not old for new, old in zip(whole, known, strict=True)):
            self._load(whole)
        before, had = self._picture(), self._doc.get_state()
        try:
            with panics_raised():
                self._doc.apply_update(update)
            plain = merge_updates(update)  # without what may follow the update's end
        except (ValueError, RuntimeError) as error:
            raise InvalidUpdate(
                f"These {len(update):,} bytes are no Yjs update that fits the document ({error}). "
                "Send an update of version 1, as Y.encodeStateAsUpdate makes it."
            ) from error
        waited, self._updates = self.waits, [*whole, plain]
        self.waits = self._any_waits(self._updates if waited else [plain])
        if self._picture() == before and not (self.waits and self._adds(plain, whole)):
            return None
        if self.waits or waited:
            return plain
        # A client may send all it has for one letter that is new.
        return min(plain, self._doc.get_update(had), key=len)

    def state(self) -> bytes:
        """The whole document as one update."""
        if self.waits:
            return merge_updates(*self._updates)
        return self._doc.get_update()

    def diff(self, state: bytes) -> bytes:
        """What somebody lacks who has this state vector. It may hold more while an update waits."""
        check_state_vector(state)
        try:
            lacking = self._doc.get_update(state)
        except ValueError as error:
            raise InvalidUpdate(
                f"These {len(state):,} bytes are no Yjs state vector. Send what Y.encodeStateVector makes."
            ) from error
        return self.state() if self.waits else lacking

    def text(self) -> str:
        """The text of a text document."""
        return str(self._text())

    def content(self, kind: Kind) -> bytes:
        """The file's bytes."""
        if kind is Kind.TEXT:
            return self.text().encode()
        held = self._file().get(BINARY_KEY)
        # Any client can put anything there; only bytes are a file.
        return bytes(held) if isinstance(held, bytes | bytearray) else b""

    def write_text(self, text: str, *, base: str | None = None) -> bytes:
        """Change the text into this one by small edits, as an update.

        `base` is the text that the writer started from: what others changed since then stays.
        """

        def write() -> None:
            self._forget_bytes()
            now = self.text()
            changes = edits(now, text) if base is None else rebased(edits(base, text), edits(base, now))
            _make(self._text(), now, changes)

        return self._edited(write)

    def write_bytes(self, data: bytes) -> bytes:
        """Replace the bytes of the file, as an update. Of two who do so at once, one is kept."""

        def write() -> None:
            self._text().clear()
            if BINARY_KEY not in self._file() or self.content(Kind.BINARY) != data:
                self._file()[BINARY_KEY] = data

        return self._edited(write)

    def clear(self) -> bytes:
        """Empty the document, as an update. What somebody writes at the same moment survives."""
        return self._edited(lambda: empty(self._doc))

    def _edited(self, edit: Callable[[], None]) -> bytes:
        made: list[bytes] = []
        watching = self._doc.observe(lambda event: made.append(event.update))
        with self._doc.transaction():
            edit()
        self._doc.unobserve(watching)
        return made[0] if made else EMPTY_UPDATE

    def _forget_bytes(self) -> None:
        if BINARY_KEY in self._file():
            del self._file()[BINARY_KEY]

    def _text(self) -> Text:
        found: Text = self._doc.get(TEXT_ROOT, type=Text)
        return found

    def _file(self) -> Map[Any]:
        found: Map[Any] = self._doc.get(BINARY_ROOT, type=Map)
        return found

    def _picture(self) -> DocumentFingerprint:
        return DocumentFingerprint.of_snapshot(Snapshot.from_doc(self._doc).encode())

    def _adds(self, update: bytes, known: Sequence[bytes]) -> bool:
        """Whether an update says anything that is not known. Merging twice the same puts it in order."""
        return merge_updates(*known, update) != merge_updates(*known, *known, EMPTY_UPDATE)

    def _any_waits(self, updates: Sequence[bytes]) -> bool:
        state = self._doc.get_state()
        there = state_vector(state)
        return any(waits_for_more(get_update(update, state), there) for update in updates)


def empty(doc: Doc[Any]) -> None:
    """Remove the text and the bytes of a file from its document. Other types that are in it stay."""
    text, file = doc.get(TEXT_ROOT, type=Text), doc.get(BINARY_ROOT, type=Map)
    with doc.transaction():
        text.clear()
        if BINARY_KEY in file:
            del file[BINARY_KEY]


def _make(shown: Text, now: str, changes: Sequence[TextEdit]) -> None:
    for start, end, new in byte_offsets(now, changes):
        if start != end:
            del shown[start:end]
        if new:
            shown.insert(start, new)
    wanted = applied(now, changes)
    if str(shown) != wanted:  # something that is no text, such as a picture, takes up a place in it
        shown.clear()
        shown.insert(0, wanted)


@contextmanager
def panics_raised() -> Iterator[None]:
    """A panic of the library as an error: it comes as something that only the end of a program should be."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RuntimeError(str(error)) from error
        raise
