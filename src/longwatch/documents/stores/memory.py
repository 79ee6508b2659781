"""Documents in memory, for tests and experiments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.documents.files import FileEntry, ProjectFiles
from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.base import Head, StoredDocument, set_project_version
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange


class MemoryDocumentStore(DocumentStore):
    """A `DocumentStore` in memory."""

    def __init__(self, name: str = "", *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(MemoryDocuments(f"memory://{name}"), clock=clock)

    def close(self) -> None:
        """A named store stays open for its other users in this process."""


class MemoryDocuments:
    """A `DocumentBackend` of dictionaries."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._projects: dict[str, ProjectFiles] = {}
        self._documents: dict[str, dict[str, StoredDocument]] = {}
        self._signal = LocalSignal()

    def create_project(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        with self._lock:
            return self._create(project, name, now_ms)

    def _create(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        fresh = ProjectFiles(project=project, name=name, created_at=now_ms, version=0)
        return self._projects.setdefault(project, fresh)

    def project(self, project: str) -> ProjectFiles | None:
        with self._lock:
            return self._projects.get(project)

    def projects(self) -> Sequence[ProjectFiles]:
        with self._lock:
            return list(self._projects.values())

    def project_version(self, project: str) -> int:
        found = self.project(project)
        return found.version if found else 0

    def entries(self, project: str, *, prefix: str, since: int) -> Sequence[FileEntry]:
        with self._lock:
            entries = [stored.head.entry for stored in self._documents.get(project, {}).values()]
        found = [each for each in entries if each.project_version > since and each.path.startswith(prefix)]
        return sorted(found, key=lambda each: each.path)

    def entries_at(self, project: str, paths: Sequence[str]) -> Sequence[FileEntry]:
        with self._lock:
            documents = self._documents.get(project, {})
            return [documents[path].head.entry for path in paths if path in documents]

    def load(self, project: str, path: str) -> StoredDocument | None:
        with self._lock:
            return self._documents.get(project, {}).get(path)

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        with self._lock:
            documents = self._documents.setdefault(project, {})
            current = documents.get(after.entry.path)
            if (current.head if current else None) != before:
                return None
            last = self._create(project, project, after.entry.last_modified)
            head = set_project_version(after, last.version + 1)
            self._projects[project] = replace(last, version=last.version + 1)
            documents[after.entry.path] = StoredDocument(
                head, (*(current.updates if current else ()), update)
            )
        self._signal.notify()
        return head

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        with self._lock:
            documents = self._documents[project]
            if documents[before.entry.path].head != before:
                return False
            documents[before.entry.path] = StoredDocument(after, (state,))
            return True

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._signal.subscribe(on_change)

    def close(self) -> None: ...
