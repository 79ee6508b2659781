"""Projects, conversations and turns as JSON, in the words of the routes: a conversation is a session."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from longwatch.clock import iso_from_ms
from longwatch.turns.projects import Conversation, Project
from longwatch.turns.turn import Block, TurnState


def turn_view(state: TurnState, *, blocks: bool = True) -> dict[str, Any]:
    """A turn, with or without its blocks."""
    creation = state.creation
    view: dict[str, Any] = {
        "id": state.turn_id,
        "project_id": creation.project_id if creation is not None else None,
        "session_id": creation.conversation_id if creation is not None else None,
        "number": creation.number if creation is not None else None,
        "prompt": creation.prompt if creation is not None else None,
        "status": state.wire_status,
    }
    if blocks:
        view["blocks"] = [block_view(block, sequence) for sequence, block in enumerate(state.blocks)]
    if state.missing_lines:
        view["missing_lines"] = [list(gap) for gap in state.missing_lines]
    return view | {
        "block_count": state.block_count,
        "error": state.error,
        "created_at": _time(state.created_at),
        "started_at": _time(state.started_at),
        "completed_at": _time(state.completed_at),
        "last_updated": _time(state.last_updated),
    }


def status_view(state: TurnState) -> dict[str, Any]:
    """The little that a client needs to decide whether to look closer."""
    return {
        "status": state.wire_status,
        "block_count": state.block_count,
        "last_updated": _time(state.last_updated),
    }


def block_view(block: Block, sequence: int) -> dict[str, Any]:
    """A block, which is the one of this number from 0."""
    return {
        "id": block.id,
        "sequence": sequence,
        "type": block.kind,
        "created_at": _time(block.created_at),
        "content": {name: _plain(value) for name, value in block.content.items()},
    }


def project_view(project: Project) -> dict[str, Any]:
    """A project."""
    return {"id": project.id, "name": project.name, "created_at": _time(project.created_at)}


def conversation_view(conversation: Conversation, last_turn: TurnState | None) -> dict[str, Any]:
    """A conversation and how its last turn stands."""
    return {
        "id": conversation.id,
        "title": conversation.title,
        "created_at": _time(conversation.created_at),
        "turn_count": conversation.turn_count,
        "last_turn": None
        if last_turn is None
        else {"id": last_turn.turn_id, "status": last_turn.wire_status},
    }


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_from_ms(at_ms)


def _plain(value: object) -> object:
    """What JSON can say of a stored value. Blocks that were not fed as lines may hold any of them."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return [_plain(item) for item in sorted(value, key=repr)]
        case bytes():
            return f"<{len(value)} bytes>"
        case Decimal():
            return str(value)
    return value
