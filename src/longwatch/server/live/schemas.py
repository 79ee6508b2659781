"""The shapes of the feed, for the schema. Messages are written by hand; tests hold them to this."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longwatch.server.api.openapi import CACHE_HEADER, Responses, errors

EVENT_NAMES = (
    "event",
    "caught_up",
    "missed",
    "ended",
    "run",
    "turn",
    "block",
    "files",
    "project",
    "session",
    "execution",
    "beat",
    "closing",
    "error",
)
MESSAGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {
            "type": "string",
            "description": "The cursors of the topics, joined by `;`. For `Last-Event-ID`.",
        },
        "event": {"type": "string", "enum": list(EVENT_NAMES)},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"type": "object"},
        },
        "retry": {"type": "integer"},
    },
}


class MessageShape(BaseModel):
    """One message. What its data holds, its name says."""

    model_config = ConfigDict(extra="forbid")

    event: Literal[
        "event",
        "caught_up",
        "missed",
        "ended",
        "run",
        "turn",
        "block",
        "files",
        "project",
        "session",
        "execution",
        "beat",
        "closing",
        "error",
    ]
    data: dict[str, Any]


class FeedShape(BaseModel):
    """Some messages, and where to go on from."""

    model_config = ConfigDict(extra="forbid")

    messages: list[MessageShape]
    cursor: str = Field(description="The cursors of the topics, joined by `;`. For `after`.")


def stream_responses() -> Responses:
    """What the stream answers."""
    return {
        200: {
            "description": "History, then what happens, until one side leaves.",
            "content": {"text/event-stream": {"itemSchema": MESSAGE_SCHEMA}},
            "headers": {
                "Cache-Control": CACHE_HEADER,
                "X-Accel-Buffering": {
                    "description": "`no`: a proxy must not hold it back.",
                    "schema": {"type": "string"},
                },
            },
        },
        **errors(),
    }
