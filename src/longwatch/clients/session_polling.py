"""Looks at a turn until it is over (document 003's session polling)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from longwatch.clients.api import ServerClient, turn_path
from longwatch.clients.turns import Turn
from longwatch.errors import RequestRefused, TurnFailed
from longwatch.polling.current import polling_manager
from longwatch.polling.manager import PollingManager
from longwatch.polling.registration import Registration

SESSION_INTERVAL_MS = 2_000


class SessionPolling:
    """Polls one turn in the running event loop, from `start` or `async with` until it is over or stopped.

    `on_update` gets the turn with each change, the last one included; `on_complete` once, when it is
    completed. `on_error` gets a `TurnFailed` when the turn has failed, and whatever went wrong when a look
    did not succeed: after 2, 4, 8, 16 and 16 seconds it is tried again, and the sixth failure stops the
    polling. A request that the server refuses stops it at once.
    """

    def __init__(
        self,
        client: ServerClient,
        project_id: str,
        session_id: str,
        turn_id: str | None = None,
        *,
        enabled: bool = True,
        interval_ms: float | None = SESSION_INTERVAL_MS,  # None: on the ramp from 1 s to 5 s
        on_update: Callable[[Turn], object] | None = None,
        on_complete: Callable[[Turn], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        manager: PollingManager | None = None,
    ) -> None:
        self.turn: Turn | None = None
        self.error: Exception | None = None  # of the last look, or why the turn failed
        self._client = client
        self._project_id = project_id
        self._session_id = session_id
        self._turn_id = turn_id
        self._enabled = enabled
        self._interval = None if interval_ms is None else interval_ms / 1000
        self._on_update = on_update
        self._on_complete = on_complete
        self._on_error = on_error
        self._manager = manager
        self._registration: Registration | None = None
        self._is_started = False
        self._wire: Any = None
        self._over = asyncio.Event()

    @property
    def is_polling(self) -> bool:
        """Whether it will look again: not after the end, nor after too many failures."""
        return self._registration is not None and not self._registration.state.stopped

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._enabled = enabled
        self._reconsider()

    @property
    def turn_id(self) -> str | None:
        return self._turn_id

    @turn_id.setter
    def turn_id(self, turn_id: str | None) -> None:
        """Look at another turn. Nothing of the one before is delivered any more."""
        if turn_id == self._turn_id:
            return
        self._leave()
        self._turn_id, self.turn, self.error, self._wire = turn_id, None, None, None
        self._over.clear()
        self._reconsider()

    def start(self) -> None:
        """Begin to look, if there is a turn and it is enabled."""
        self._is_started = True
        self._reconsider()

    def stop(self) -> None:
        """Look no more. An answer under way is dropped."""
        self._is_started = False
        self._leave()

    async def wait(self) -> Turn:
        """The turn, once it is completed. `TurnFailed` if it failed, or why nobody looks any more."""
        await self._over.wait()
        if self.error is not None:
            raise self.error
        assert self.turn is not None
        return self.turn

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _reconsider(self) -> None:
        wanted = self._is_started and self._enabled and self._turn_id is not None and not self._over.is_set()
        if not wanted:
            self._leave()
        elif self._registration is None and self._turn_id is not None:
            path = turn_path(self._project_id, self._session_id, self._turn_id)

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

    def _leave(self) -> None:
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.dispose()

    def _took(self, wire: Any) -> None:
        self.error = None
        if wire is self._wire:
            return  # the very same: nothing has changed
        self._wire = wire
        turn = self.turn = Turn.of(wire)
        if turn.is_over:
            self._leave()
            self._over.set()
        if turn.status == "failed":
            self.error = TurnFailed(turn.id, turn.error or "it did not say why")
        _call(self._on_update, turn)
        if turn.status == "completed":
            _call(self._on_complete, turn)
        if self.error is not None:
            _call(self._on_error, self.error)

    def _failed(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, RequestRefused) or not self.is_polling:
            self._leave()
            self._over.set()
        _call(self._on_error, error)


def _call(callback: Callable[[Any], object] | None, value: object) -> None:
    if callback is not None:
        callback(value)
