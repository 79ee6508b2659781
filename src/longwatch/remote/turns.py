"""Polls a turn on a server until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from longwatch.errors import RequestRefused, TurnFailed
from longwatch.polling.manager import PollingManager
from longwatch.remote.client import ServerClient, turn_path
from longwatch.remote.server_poll import ServerPolling, call_back

OVER = frozenset({"completed", "failed"})


@dataclass(frozen=True, slots=True)
class TurnBlock:
    """One block: thinking, content, the use of a tool or its result."""

    id: str
    sequence: int
    type: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> TurnBlock:
        return cls(wire["id"], wire["sequence"], wire["type"], wire["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    id: str
    status: str  # pending, running, completed or failed
    prompt: str | None
    blocks: tuple[TurnBlock, ...]
    error: str | None
    created_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    last_updated: datetime | None

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> Turn:
        return cls(
            id=wire["id"],
            status=wire["status"],
            prompt=wire["prompt"],
            blocks=tuple(TurnBlock.of(block) for block in wire["blocks"]),
            error=wire["error"],
            created_at=_moment(wire["created_at"]),
            started_at=_moment(wire["started_at"]),
            completed_at=_moment(wire["completed_at"]),
            last_updated=_moment(wire["last_updated"]),
        )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


SESSION_INTERVAL_MS = 2_000


class SessionPolling(ServerPolling):
    """Polls one turn in the running event loop, from `start` or `async with` until it is over or stopped.

    `on_update` receives the turn with each change, including the last one; `on_complete` once, when it is
    completed. `on_error` receives `TurnFailed` when the turn has failed, and the error of each failed poll.
    A failed poll is retried after 2, 4, 8, 16 and 16 seconds, and the sixth failure stops the polling. A
    request that the server rejects stops it at once.
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
        super().__init__(client, enabled=enabled, interval_ms=interval_ms, on_error=on_error, manager=manager)
        self.turn: Turn | None = None
        self._project_id = project_id
        self._session_id = session_id
        self._turn_id = turn_id
        self._on_update = on_update
        self._on_complete = on_complete
        self._over = asyncio.Event()

    @property
    def turn_id(self) -> str | None:
        return self._turn_id

    @turn_id.setter
    def turn_id(self, turn_id: str | None) -> None:
        """Poll another turn. Nothing more of the previous one is delivered."""
        if turn_id == self._turn_id:
            return
        self._leave()
        self._turn_id, self.turn, self.error, self._wire = turn_id, None, None, None
        self._over.clear()
        self._update_registration()

    async def wait(self) -> Turn:
        """Wait until the turn is completed. Raises `TurnFailed`, or the error that stopped the polling."""
        await self._over.wait()
        if self.error is not None:
            raise self.error
        assert self.turn is not None
        return self.turn

    def _path(self) -> str | None:
        if self._turn_id is None or self._over.is_set():
            return None
        return turn_path(self._project_id, self._session_id, self._turn_id)

    async def _fetch(self, path: str) -> Any:
        return await self._client.get_turn(path)

    def _on_change(self, wire: Any) -> None:
        turn = self.turn = Turn.of(wire)
        if turn.is_over:
            self._leave()
            self._over.set()
        if turn.status == "failed":
            self.error = TurnFailed(turn.id, turn.error or "no reason given")
        call_back(self._on_update, turn)
        if turn.status == "completed":
            call_back(self._on_complete, turn)
        if self.error is not None:
            call_back(self._on_error, self.error)

    def _on_failure(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, RequestRefused) or not self.is_polling:
            self._leave()
            self._over.set()
        call_back(self._on_error, error)
