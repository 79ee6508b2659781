"""Synchronizes a Yjs document with a file of a project on a server.

Edits are sent until the server confirms them, however long it is unreachable, and also after `stop`. A failed
pull is retried. Edits that the server rejects (413, 403, …) are reported, stay in the document and are sent
again with the next edit. Deleting the file on the server empties the document.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from longwatch.errors import LongwatchError, MissingExtra, NotWorthAnotherTry, RequestRefused
from longwatch.polling.backoff import Backoff
from longwatch.remote.client import ServerClient, document_path, project_path

if TYPE_CHECKING:
    from pycrdt import Doc, TransactionEvent

SYNC_BACKOFF = Backoff(2.0, 2.0, 30.0, jitter=0.25)  # without a limit of attempts

SyncStep = Literal["push", "pull"]


def next_step(
    *, has_edits: bool, are_refused: bool, needs_pull: bool, is_paused: bool, is_stopped: bool
) -> SyncStep | None:
    """The next step: edits first, so that a pull sees a server that has them."""
    if has_edits and not are_refused:
        return "push"
    return "pull" if needs_pull and not is_paused and not is_stopped else None


class DocumentSync:
    """Synchronizes one document, in the event loop in which it is first used.

    From `start` to `stop` it sends edits and retries by itself. `push` and `pull` work at any time, and
    raise.
    """

    def __init__(
        self,
        client: ServerClient,
        project_id: str,
        path: str,
        *,
        is_paused: Callable[[], bool] = lambda: False,  # delays pulls, not edits
        on_error: Callable[[Exception], object] = lambda error: None,  # of background requests
    ) -> None:
        try:
            from pycrdt import Doc
        except ImportError as error:
            raise MissingExtra("A Yjs document", "server") from error
        self.doc: Doc[Any] = Doc()
        self.version: int | None = None  # of the file in the document; None: no file
        self.has_pulled = False
        self._client = client
        self._project = project_path(project_id)
        self._address = document_path(project_id, path)
        self._path = path
        self._is_paused = is_paused
        self._on_error = on_error
        self._unsent: list[bytes] = []  # edits that the server has not confirmed
        self._edits = 0  # local edits so far
        self._refused = 0  # the number of edits when the server rejected them
        self._confirmed = self.doc.get_state()  # the state that the server has at least
        self._needs_pull = False
        self._is_from_server = False
        self._is_stopped = True
        self._lock = asyncio.Lock()  # one request at a time
        self._work = asyncio.Event()  # wakes the loop
        self._retry = asyncio.Event()  # ends a backoff
        self._task: asyncio.Task[None] | None = None
        self._observed = self.doc.observe(self._on_update)

    @property
    def has_unsaved_changes(self) -> bool:
        """Whether the document has edits that the server has not confirmed."""
        return bool(self._unsent)

    def start(self) -> None:
        """Send edits and retry from now on."""
        self._is_stopped = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"sync of {self._path}")

    def stop(self) -> None:
        """Stop when the server has confirmed or rejected the edits made so far."""
        self._is_stopped = True
        self.retry()

    async def aclose(self) -> None:
        """Stop now. Unsent edits stay in the document."""
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def retry(self) -> None:
        """End a backoff: the server may be reachable again."""
        self._retry.set()
        self._work.set()

    def resume(self) -> None:
        """Resume a pull that was delayed by a pause. A backoff continues."""
        self._work.set()

    async def sync(self) -> None:
        """Send edits unless they were rejected, then pull. Once started, failures are retried."""
        self._needs_pull = True
        try:
            if self._has_edits_to_send:
                await self.push()
            await self.pull()
        finally:
            self._work.set()

    async def push(self) -> None:
        """Send the edits that the server has not confirmed."""
        from pycrdt import merge_updates

        async with self._lock:
            if not self._unsent:
                return
            count, edits, state = len(self._unsent), self._edits, self.doc.get_state()
            # Rejected edits are sent from the current document, without text that was removed since.
            update = self.doc.get_update(self._confirmed) if self._refused else merge_updates(*self._unsent)
            try:
                applied = await self._client.post_bytes(self._address, update)
            except NotWorthAnotherTry:
                self._refused = edits
                raise
            self._confirmed, self._refused = state, 0
            del self._unsent[:count]
            if applied["version"] == (self.version or 0) + 1:  # otherwise there is more to pull
                self.version = applied["version"]

    async def pull(self) -> None:
        """Apply the server's changes to the document. A missing file has none."""
        async with self._lock:
            self._needs_pull = False  # a pull requested meanwhile follows this one
            try:
                await self._pull()
            except NotWorthAnotherTry:
                raise
            except BaseException:
                self._needs_pull = True
                self._work.set()
                raise
            self.has_pulled = True

    async def _pull(self) -> None:
        edits = self._edits
        vector = base64.urlsafe_b64encode(self.doc.get_state()).decode().rstrip("=")
        parameters = {"state_vector": vector}
        if self.version is not None:
            parameters["version"] = str(self.version)
        try:
            found = await self._client.get_bytes(self._address, parameters)
        except RequestRefused as error:
            if error.status != 404:
                raise
            await self._on_missing_file(edits)
            return
        if found is not None:
            update, self.version = found
            with self._from_server():
                self.doc.apply_update(update)

    async def _on_missing_file(self, edits: int) -> None:
        """Handle a missing file, requested when there were this many edits.

        Only a tombstone empties the document: a server that never had the file, or lost its store, must not
        delete the last copy. Edits newer than the request stay, and create the file again.
        """
        wire = await self._client.get_json(f"{self._project}/files", {"prefix": self._path, "since": "0"})
        entry = next((each for each in wire["files"] if each["path"] == self._path), None)
        self.version = None
        if entry is None:
            return
        if not entry["deleted"] or self._edits != edits:
            self._needs_pull = True
        elif not self._unsent:
            self._empty()

    def _empty(self) -> None:
        """Empty the document by a Yjs change, so that later edits do not restore the old text."""
        from longwatch.documents.replica import empty

        with self._from_server():
            empty(self.doc)

    async def _run(self) -> None:
        backoff = SYNC_BACKOFF
        while True:
            self._work.clear()
            step = self._next_step()
            if step is None:
                if self._is_stopped:
                    return
                await self._work.wait()
                continue
            try:
                await (self.push() if step == "push" else self.pull())
            except Exception as error:  # noqa: BLE001 - an unexpected response must not lose edits
                self._on_error(error)
                if isinstance(error, NotWorthAnotherTry):
                    continue
                if self._is_stopped and not isinstance(error, LongwatchError):
                    return  # the client is closed, most likely
                backoff = backoff.failed()
                await self._back_off(backoff.delay or 0.0)
            else:
                backoff = backoff.succeeded()

    def _next_step(self) -> SyncStep | None:
        return next_step(
            has_edits=bool(self._unsent),
            are_refused=self._refused == self._edits,
            needs_pull=self._needs_pull,
            is_paused=self._is_paused(),
            is_stopped=self._is_stopped,
        )

    @property
    def _has_edits_to_send(self) -> bool:
        return bool(self._unsent) and self._refused != self._edits

    async def _back_off(self, seconds: float) -> None:
        """Wait until the time is over or `retry` is called. Edits do not shorten it."""
        self._retry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._retry.wait()

    def _on_update(self, event: TransactionEvent) -> None:
        if self._is_from_server:
            return
        self._unsent.append(event.update)
        self._edits += 1
        self._work.set()

    @contextmanager
    def _from_server(self) -> Iterator[None]:
        self._is_from_server = True
        try:
            yield
        finally:
            self._is_from_server = False
