"""A turn as a client sees it: document 003's four statuses, and blocks in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

OVER = frozenset({"completed", "failed"})


@dataclass(frozen=True, slots=True)
class TurnBlock:
    """One block: thinking, content, a tool's use or its result."""

    id: str
    sequence: int
    type: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> TurnBlock:
        """The block in an answer."""
        return cls(wire["id"], wire["sequence"], wire["type"], wire["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a session."""

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
        """The turn in an answer."""
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
