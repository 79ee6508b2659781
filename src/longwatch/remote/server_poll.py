"""The base class of the polling clients: polls one path of a server while it is enabled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from longwatch.polling.manager import PollingManager, polling_manager
from longwatch.polling.shared_poll import Registration
from longwatch.remote.client import ServerClient


class ServerPolling(ABC):
    """Polls in the running event loop from `start` or `async with`, until stopped or disabled."""

    error: Exception | None  # of the last poll

    def __init__(
        self,
        client: ServerClient,
        *,
        enabled: bool,
        interval_ms: float | None,  # None: on the ramp from 1 s to 5 s
        on_error: Callable[[Exception], object] | None,
        manager: PollingManager | None,
    ) -> None:
        self.error = None
        self._client = client
        self._enabled = enabled
        self._interval = None if interval_ms is None else interval_ms / 1000
        self._on_error = on_error
        self._manager = manager
        self._registration: Registration | None = None
        self._is_started = False
        self._wire: Any = None  # of the last poll

    @property
    def is_polling(self) -> bool:
        """Whether it will poll again: not after the end, nor after too many failures."""
        return self._registration is not None and not self._registration.state.stopped

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._enabled = enabled
        self._update_registration()

    def start(self) -> None:
        """Start polling, if it is enabled and has a path."""
        self._is_started = True
        self._update_registration()

    def stop(self) -> None:
        """Stop polling. A pending response is dropped."""
        self._is_started = False
        self._leave()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _path(self) -> str | None:
        """The path to poll; None: nothing to poll now."""

    @abstractmethod
    def _on_change(self, wire: Any) -> None:
        """Handle a response that differs from the previous one."""

    @abstractmethod
    def _on_failure(self, error: Exception) -> None:
        """Handle a failed poll."""

    async def _fetch(self, path: str) -> Any:
        """The response of one poll; the same object as last time if nothing has changed."""
        return await self._client.get_json(path)

    def _on_start(self) -> None:  # noqa: B027 - optional
        """Called when polling starts."""

    def _update_registration(self) -> None:
        path = self._path() if self._is_started and self._enabled else None
        if path is None:
            self._leave()
            return
        if self._registration is not None:
            return

        async def fetch() -> Any:
            return await self._fetch(path)

        self._registration = self._polling_manager().register(
            (self._client.base_url, path),
            fetch,
            self._interval,
            on_result=self._on_result,
            on_error=self._on_failure,
        )
        self._on_start()

    def _polling_manager(self) -> PollingManager:
        return self._manager or polling_manager()

    def _leave(self) -> None:
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.dispose()

    def _on_result(self, wire: Any) -> None:
        self.error = None
        if wire is not self._wire:  # the same object: nothing has changed
            self._wire = wire
            self._on_change(wire)


def call_back(callback: Callable[[Any], object] | None, value: object) -> None:
    if callback is not None:
        callback(value)
