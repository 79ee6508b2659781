"""What the parts of the documents' contract share: a store to be opened again, and editors of a file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from pycrdt import Doc, Map, Text

from longwatch.documents.files import Applied, FileKind
from longwatch.documents.store import DocumentStore
from longwatch.testing.clock import FakeClock

OpenStore = Callable[[], DocumentStore]
"""Opens the same store once more, as another process would."""


class DocumentsBasis:
    """An adapter's test class defines how to open it."""

    examples = 50  # of hypothesis; an engine over HTTP takes fewer
    shrinks = True  # False: an example takes too long to search for a smaller one
    opens_by_url = True  # False: what it holds is gone when its address is opened again

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def open_store(self) -> Iterator[OpenStore]:
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> DocumentStore:
        return open_store()

    @pytest.fixture
    def project(self) -> str:
        return new_project()

    def hypothesis(self) -> settings:
        """How long to search for an example that breaks a promise."""
        phases = set(Phase) if self.shrinks else {Phase.explicit, Phase.reuse, Phase.generate}
        return settings(
            max_examples=self.examples,
            phases=[phase for phase in Phase if phase in phases],
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )


def new_project() -> str:
    return f"project-{secrets.token_hex(6)}"


class Editor:
    """An editor with a Yjs document of its own, which sends and fetches on demand."""

    def __init__(self, store: DocumentStore, project: str, path: str = "notes.md") -> None:
        self._store, self._project, self._path = store, project, path
        self.doc: Doc[Text] = Doc()
        self.text = self.doc.get("content", type=Text)
        self.made: list[bytes] = []  # an update for each edit
        self._watching = self.doc.observe(lambda event: self.made.append(event.update))

    def insert(self, at: int, text: str) -> None:
        """Positions count characters."""
        self.text.insert(len(str(self.text)[:at].encode()), text)

    def delete(self, start: int, end: int) -> None:
        now = str(self.text)
        first, last = len(now[:start].encode()), len(now[:end].encode())
        if first != last:
            del self.text[first:last]

    def send(self) -> Applied:
        """Everything, as a client does that does not know what the store has."""
        return self._store.apply(self._project, self._path, self.doc.get_update())

    def fetch(self) -> None:
        state = self._store.diff(self._project, self._path, self.doc.get_state())
        self.doc.apply_update(state.update)


def text_update(text: str) -> bytes:
    """An update that brings this text into an empty document."""
    doc: Doc[Text] = Doc({"content": Text(text)})
    return doc.get_update()


def text_in(update: bytes) -> str:
    doc: Doc[Text] = Doc()
    doc.apply_update(update)
    return str(doc.get("content", type=Text))


def bytes_in(update: bytes) -> bytes:
    doc: Doc[Map[bytes]] = Doc()
    doc.apply_update(update)
    return bytes(doc.get("file", type=Map)["bytes"])


def binary_update(data: bytes) -> bytes:
    doc: Doc[Map[bytes]] = Doc({"file": Map({"bytes": data})})
    return doc.get_update()


TEXT, BINARY = FileKind.TEXT, FileKind.BINARY
