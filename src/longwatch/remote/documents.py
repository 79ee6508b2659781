"""Files of a project on a server: polled, with changes reported and Yjs documents synced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from longwatch.errors import RequestRefused, WorthAnotherTry
from longwatch.polling.manager import PollingManager
from longwatch.remote.client import ServerClient, project_path
from longwatch.remote.document_sync import DocumentSync
from longwatch.remote.server_poll import ServerPolling, call_back

if TYPE_CHECKING:
    from pycrdt import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: str
    version: int
    last_modified: datetime
    size: int
    sha256: str
    kind: str  # text or binary

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> File:
        return cls(
            path=wire["path"],
            version=wire["version"],
            last_modified=datetime.fromisoformat(wire["last_modified"]),
            size=wire["size"],
            sha256=wire["sha256"],
            kind=wire["kind"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    file_path: str
    last_modified: datetime  # of a deleted file: as last seen
    change_type: str  # created, modified or deleted
    version: int


def files_of(wire: Mapping[str, Any]) -> dict[str, File]:
    return {entry["path"]: File.of(entry) for entry in wire["files"] if not entry["deleted"]}


def changes_between(
    before: Mapping[str, File], after: Mapping[str, File], paths: Collection[str] | None = None
) -> list[DocumentChange]:
    """The differences between two lists, limited to the given paths."""
    changes: list[DocumentChange] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if paths is not None and path not in paths:
            continue
        if new is None and old is not None:
            changes.append(_change(old, "deleted"))
        elif new is not None and old is None:
            changes.append(_change(new, "created"))
        elif new is not None and old is not None and new.version != old.version:
            changes.append(_change(new, "modified"))
    return changes


def _change(file: File, change_type: str) -> DocumentChange:
    return DocumentChange(
        file_path=file.path, last_modified=file.last_modified, change_type=change_type, version=file.version
    )


log = logging.getLogger("longwatch")

DOCUMENT_INTERVAL_MS = 3_000
RESTART_SECONDS = 30.0  # after too many failures, while documents are open


class DocumentPolling(ServerPolling):
    """Polls the files of a project in the running event loop, from `start` or `async with` until stopped.

    `on_document_change` receives what was created, modified or deleted since the last poll; the first poll is
    the baseline. Failures are handled as in `SessionPolling`, but while a document is open an outage of any
    length does not end the polling.

    Documents from `document` are updated before the callback is called. Their edits are sent while polling,
    until the server confirms them; `on_error` receives the failures.
    """

    def __init__(
        self,
        client: ServerClient,
        project_id: str,
        *,
        file_paths: Collection[str] | None = None,
        enabled: bool = True,
        interval_ms: float | None = DOCUMENT_INTERVAL_MS,  # None: on the ramp from 1 s to 5 s
        on_document_change: Callable[[list[DocumentChange]], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        manager: PollingManager | None = None,
    ) -> None:
        super().__init__(client, enabled=enabled, interval_ms=interval_ms, on_error=on_error, manager=manager)
        self.files: dict[str, File] = {}
        self._project_id = project_id
        self._paths = None if file_paths is None else frozenset(file_paths)
        self._on_document_change = on_document_change
        self._has_polled = False
        self._is_failing = False
        self._documents: dict[str, DocumentSync] = {}
        self._notifier: asyncio.Task[None] | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._lists: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def is_polling(self) -> bool:
        """Whether it will poll again: not after too many failures, unless a document is open."""
        return super().is_polling or self._restart is not None

    @property
    def has_unsaved_changes(self) -> bool:
        """Whether any document has edits that the server has not confirmed, including rejected ones."""
        return any(each.has_unsaved_changes for each in self._documents.values())

    async def document(self, path: str) -> Doc[Any]:
        """The Yjs document of a file. While polling, it follows the file, and its edits are sent."""
        return (await self._open_document(path)).doc

    async def push(self, path: str) -> int:
        """Send the edits of a document now, and apply the server's changes; returns the file's version.

        If it raises, the edits stay in the document. While polling they are retried, unless rejected.
        """
        sync = await self._open_document(path)
        await sync.push()
        await sync.pull()
        return sync.version or 0

    async def flush(self) -> None:
        """Send the edits of all documents now. Raises the first error after trying every document."""
        failures = [await _failure_of(sync) for sync in list(self._documents.values())]
        for failure in filter(None, failures):
            raise failure

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send unsent edits once; those that fail are reported to `on_error` and stay in the document."""
        telling = self._notifier
        self.stop()
        for sync in list(self._documents.values()):
            await sync.aclose()
            if (failure := await _failure_of(sync)) is not None:
                self._report(failure)
        if telling is not None:
            await asyncio.wait([telling])

    def _path(self) -> str:
        return f"{project_path(self._project_id)}/files"

    def _on_start(self) -> None:
        self._notifier = asyncio.get_running_loop().create_task(self._notify())
        for sync in self._documents.values():
            sync.start()

    def _leave(self) -> None:
        super()._leave()
        self._cancel_restart()
        for sync in self._documents.values():
            sync.stop()
        if self._notifier is not None:
            self._notifier.cancel()
            self._notifier = None

    async def _open_document(self, path: str) -> DocumentSync:
        sync = self._documents.get(path)
        if sync is None:
            sync = self._documents[path] = DocumentSync(
                self._client,
                self._project_id,
                path,
                is_paused=lambda: self._polling_manager().is_paused,
                on_error=self._report,
            )
            if self._registration is not None:
                sync.start()
        if not sync.has_pulled:
            await sync.sync()
        return sync

    def _on_result(self, wire: Any) -> None:
        super()._on_result(wire)
        self._cancel_restart()
        was_failing, self._is_failing = self._is_failing, False
        for sync in self._documents.values():
            sync.retry() if was_failing else sync.resume()

    def _on_change(self, wire: Any) -> None:
        self._lists.put_nowait(wire)

    async def _notify(self) -> None:
        """Report each changed list after the documents are as new as the list."""
        while True:
            after = files_of(await self._lists.get())
            changes = changes_between(self.files, after, self._paths)
            self.files = after
            for path, sync in list(self._documents.items()):
                if sync.version == (after[path].version if path in after else None):
                    continue
                try:
                    await sync.sync()
                except Exception as error:  # noqa: BLE001 - the other documents are updated too
                    self._report(error)
            has_polled, self._has_polled = self._has_polled, True
            if changes and has_polled:
                _call_guarded(self._on_document_change, changes)

    def _on_failure(self, error: Exception) -> None:
        self._is_failing = True
        self._cancel_restart()
        if isinstance(error, RequestRefused) and not self.files:
            self._leave()
        elif isinstance(error, WorthAnotherTry) and self._documents and not super().is_polling:
            loop = asyncio.get_running_loop()
            self._restart = loop.call_later(RESTART_SECONDS, self._restart_polling)
        self._report(error)

    def _restart_polling(self) -> None:
        self._restart = None
        if self._registration is not None:
            self._polling_manager().touch(self._registration.key)

    def _cancel_restart(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None

    def _report(self, error: Exception) -> None:
        self.error = error
        if self._on_error is None:
            log.warning("could not sync the documents of project %r: %s", self._project_id, error)
        _call_guarded(self._on_error, error)


async def _failure_of(sync: DocumentSync) -> Exception | None:
    """Send the edits of a document; returns the error, if any."""
    try:
        await sync.push()
    except Exception as error:  # noqa: BLE001 - the other documents have edits too
        return error
    return None


def _call_guarded(callback: Callable[[Any], object] | None, value: object) -> None:
    """Call the callback; its exceptions must not end the sync."""
    try:
        call_back(callback, value)
    except Exception:
        log.exception("a callback of DocumentPolling raised an exception")
