"""Looks at the files of a project, tells what changed, and keeps Yjs documents up to date (document 003)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from longwatch.clients.api import ServerClient, document_path, project_path
from longwatch.clients.files import DocumentChange, File, changes_between, files_of
from longwatch.errors import MissingExtra, RequestRefused
from longwatch.polling.current import polling_manager
from longwatch.polling.manager import PollingManager
from longwatch.polling.registration import Registration

if TYPE_CHECKING:
    from pycrdt import Doc

DOCUMENT_INTERVAL_MS = 3_000


class DocumentPolling:
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
        self.files: dict[str, File] = {}
        self.error: Exception | None = None  # of the last look
        self._client = client
        self._project_id = project_id
        self._paths = None if file_paths is None else frozenset(file_paths)
        self._enabled = enabled
        self._interval = None if interval_ms is None else interval_ms / 1000
        self._on_document_change = on_document_change
        self._on_error = on_error
        self._manager = manager
        self._registration: Registration | None = None
        self._is_started = False
        self._wire: Any = None  # of the last look
        self._has_looked = False
        self._documents: dict[str, SyncedDocument] = {}
        self._syncing: asyncio.Task[None] | None = None
        self._told: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def is_polling(self) -> bool:
        """Whether it will look again: not after too many failures."""
        return self._registration is not None and not self._registration.state.stopped

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._enabled = enabled
        self._reconsider()

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

    def start(self) -> None:
        """Begin to look, if it is enabled."""
        self._is_started = True
        self._reconsider()

    def stop(self) -> None:
        """Look no more. An answer under way is dropped."""
        self._is_started = False
        self._leave()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        syncing = self._syncing
        self.stop()
        if syncing is not None:
            await asyncio.wait([syncing])

    def _reconsider(self) -> None:
        if not (self._is_started and self._enabled):
            self._leave()
        elif self._registration is None:
            path = f"{project_path(self._project_id)}/files"

            async def look() -> Any:
                return await self._client.get_json(path)

            manager = self._manager or polling_manager()
            self._registration = manager.register(
                (self._client.base_url, path),
                look,
                self._interval,
                on_result=self._took,
                on_error=self._failed,
            )
            self._syncing = asyncio.get_running_loop().create_task(self._tell())

    def _leave(self) -> None:
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.dispose()
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None

    def _took(self, wire: Any) -> None:
        self.error = None
        if wire is not self._wire:  # else the very same: nothing has changed
            self._told.put_nowait(wire)
            self._wire = wire

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
            if changes and has_looked and self._on_document_change is not None:
                self._on_document_change(changes)

    def _failed(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, RequestRefused) and not self.files:
            self._leave()
        if self._on_error is not None:
            self._on_error(error)


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
