"""Looks at the files of a project, tells what changed, and keeps Yjs documents up to date (document 003)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection
from types import TracebackType
from typing import TYPE_CHECKING, Any

from longwatch.clients.api import ServerClient, document_path, project_path
from longwatch.clients.files import DocumentChange, File, changes_between, files_of
from longwatch.clients.polling import ServerPolling, call
from longwatch.errors import MissingExtra, RequestRefused
from longwatch.polling.manager import PollingManager

if TYPE_CHECKING:
    from pycrdt import Doc

DOCUMENT_INTERVAL_MS = 3_000


class DocumentPolling(ServerPolling):
    """Polls the files of a project in the running event loop, from `start` or `async with` until stopped.

    `on_document_change` gets what was created, modified or deleted since the last look; the first look is
    what later ones are compared with. Failures are met as in `SessionPolling`. Documents that `document`
    handed out are brought up to date before the change is told.
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
        self._has_looked = False
        self._documents: dict[str, SyncedDocument] = {}
        self._syncing: asyncio.Task[None] | None = None
        self._told: asyncio.Queue[Any] = asyncio.Queue()

    async def document(self, path: str) -> Doc[Any]:
        """The Yjs document of a file, as it is now; it is kept up to date while polling.

        What is written to it here reaches the server with `push`.
        """
        synced = self._documents.get(path)
        if synced is None:
            synced = self._documents[path] = SyncedDocument(self._client, self._project_id, path)
            await synced.pull()
        return synced.doc

    async def push(self, path: str) -> int:
        """Send what was written to a document here, and take in what others wrote; returns its version."""
        await self.document(path)
        synced = self._documents[path]
        await synced.push()
        await synced.pull()
        return synced.version or 0

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        syncing = self._syncing
        self.stop()
        if syncing is not None:
            await asyncio.wait([syncing])

    def _path(self) -> str:
        return f"{project_path(self._project_id)}/files"

    def _entered(self) -> None:
        self._syncing = asyncio.get_running_loop().create_task(self._tell())

    def _leave(self) -> None:
        super()._leave()
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None

    def _news(self, wire: Any) -> None:
        self._told.put_nowait(wire)

    async def _tell(self) -> None:
        """Tell of each list that differs, once the documents are as new as the list."""
        while True:
            after = files_of(await self._told.get())
            changes = changes_between(self.files, after, self._paths)
            self.files = after
            for path in {change.file_path for change in changes} & self._documents.keys():
                try:
                    await self._documents[path].pull()
                except Exception as error:  # noqa: BLE001 - whatever it is, the others are told of theirs
                    self._failed(error)
            has_looked, self._has_looked = self._has_looked, True
            if changes and has_looked:
                call(self._on_document_change, changes)

    def _failed(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, RequestRefused) and not self.files:
            self._leave()
        call(self._on_error, error)


class SyncedDocument:
    """A document here, and what of it the server has."""

    def __init__(self, client: ServerClient, project_id: str, path: str) -> None:
        try:
            from pycrdt import Doc
        except ImportError as error:
            raise MissingExtra("A Yjs document", "server") from error
        self.doc: Doc[Any] = Doc()
        self.version: int | None = None
        self._client = client
        self._address = document_path(project_id, path)
        self._shared = self.doc.get_state()  # what both sides have

    async def pull(self) -> None:
        """Take in what the server has and this side lacks. A file that is not there has nothing."""
        vector = base64.urlsafe_b64encode(self.doc.get_state()).decode().rstrip("=")
        parameters = {"state_vector": vector}
        if self.version is not None:
            parameters["version"] = str(self.version)
        try:
            found = await self._client.get_bytes(self._address, parameters)
        except RequestRefused as error:
            if error.status != 404:
                raise
            return
        if found is not None:
            update, self.version = found
            self.doc.apply_update(update)

    async def push(self) -> None:
        """Send what was written here since the last time."""
        state = self.doc.get_state()
        await self._client.post_bytes(self._address, self.doc.get_update(self._shared))
        self._shared = state
