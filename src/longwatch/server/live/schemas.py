"""Messages of the feed as the OpenAPI schema describes them. `messages.Frame` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.server.api.openapi import CACHE_HEADER, Responses, error_responses

MessageName = Literal[
    "event",
    "caught_up",
    "missed",
    "ended",
    "run",
    "run_deleted",
    "turn",
    "block",
    "block_delta",
    "files",
    "project",
    "session",
    "execution",
    "beat",
    "closing",
    "error",
]
EVENT_NAMES: tuple[str, ...] = get_args(MessageName)
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


@dataclass(frozen=True, kw_only=True)
class FeedMessage:
    """One message. The fields of its data depend on its name."""

    __pydantic_config__ = STRICT

    event: MessageName
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FeedPage:
    """Messages, and the cursor to resume from."""

    __pydantic_config__ = STRICT

    messages: list[FeedMessage]
    cursor: Annotated[str, JsonSchema("The cursors of the topics, joined by `;`. For `after`.")]


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
        **error_responses(),
    }
