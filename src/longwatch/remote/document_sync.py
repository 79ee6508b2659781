"""Keeps a Yjs document and a file of a server's project the same.

Edits are sent until the server confirms them, however long it is away and also after `stop`. A failed pull is
retried. Edits that the server refuses (413, 403, …) are reported, stay in the document and are sent again
with the next edit. A file that is deleted on the server empties the document.
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

SYNC_BACKOFF = Backoff(2.0, 2.0, 30.0, jitter=0.25)  # without end

SyncStep = Literal["push", "pull"]


def next_step(
    *, has_edits: bool, are_refused: bool, needs_pull: bool, is_paused: bool, is_stopped: bool
) -> SyncStep | None:
    """What to do next: edits first, so that a pull is compared with a server that has them."""
    if has_edits and not are_refused:
        return "push"
    return "pull" if needs_pull and not is_paused and not is_stopped else None


class DocumentSync:
    """One document. Belongs to the event loop in which it is first used.

    From `start` to `stop` it sends edits and retries by itself. `push` and `pull` work any time, and raise.
    """

    def __init__(
        self,
        client: ServerClient,
        project_id: str,
        path: str,
        *,
        is_paused: Callable[[], bool] = lambda: False,  # pulls wait; edits are sent all the same
        on_error: Callable[[Exception], object] = lambda error: None,  # of requests that nobody awaits
    ) -> None:
        try:
            from pycrdt import Doc
        except ImportError as error:
            raise MissingExtra("A Yjs document", "server") from error
        self.doc: Doc[Any] = Doc()
        self.version: int | None = None  # of the file that the document includes; None: there is no file
        self.has_pulled = False
        self._client = client
        self._project = project_path(project_id)
        self._address = document_path(project_id, path)
        self._path = path
        self._is_paused = is_paused
        self._on_error = on_error
        self._unsent: list[bytes] = []  # edits that the server has not confirmed
        self._edits = 0  # made here so far
        self._refused = 0  # how many of them there were when the server refused them
        self._confirmed = self.doc.get_state()  # what the server has of this document at least
        self._needs_pull = False
        self._is_from_server = False
        self._is_stopped = True
        self._lock = asyncio.Lock()  # one request at a time
        self._work = asyncio.Event()  # there may be something to do
        self._retry = asyncio.Event()  # what waits for its backoff may be done now
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
        """End, once the server has the edits made so far or refuses them."""
        self._is_stopped = True
        self.retry()

    async def aclose(self) -> None:
        """End now. Edits that are unsent stay in the document."""
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def retry(self) -> None:
        """Do now what waits for its backoff: the server may be back."""
        self._retry.set()
        self._work.set()

    def resume(self) -> None:
        """Continue with a pull that a pause held back. A backoff runs its time."""
        self._work.set()

    async def sync(self) -> None:
        """Send edits unless they were refused, then pull. Once started, what fails is retried."""
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
            # Refused edits are sent as the document is now: without text that was written and removed since.
            update = self.doc.get_update(self._confirmed) if self._refused else merge_updates(*self._unsent)
            try:
                applied = await self._client.post_bytes(self._address, update)
            except NotWorthAnotherTry:
                self._refused = edits
                raise
            self._confirmed, self._refused = state, 0
            del self._unsent[:count]
            if applied["version"] == (self.version or 0) + 1:  # else there is more to pull
                self.version = applied["version"]

    async def pull(self) -> None:
        """Take in what the server has and this document lacks. A file that does not exist has nothing."""
        async with self._lock:
            self._needs_pull = False  # one that is asked for meanwhile comes after this one
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
            await self._when_missing(edits)
            return
        if found is not None:
            update, self.version = found
            with self._from_server():
                self.doc.apply_update(update)

    async def _when_missing(self, edits: int) -> None:
        """The file is not there, as of the time when there were so many edits.

        Only a tombstone empties the document: a server that never had the file, or lost its store, must not
        take the last copy. Edits that are newer than the request stay: they make the file anew.
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
        """A change of Yjs: what is written next makes the file anew, and the old text does not come back."""
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
            except Exception as error:  # noqa: BLE001 - edits must not be lost to a response that nobody foresaw
                self._on_error(error)
                if isinstance(error, NotWorthAnotherTry):
                    continue
                if self._is_stopped and not isinstance(error, LongwatchError):
                    return  # the client is closed, most likely
                backoff = backoff.failed()
                await self._rest(backoff.delay or 0.0)
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

    async def _rest(self, seconds: float) -> None:
        """Wait, but not past a `retry`. Further edits do not shorten it."""
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
