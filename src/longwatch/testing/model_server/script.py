"""What a scripted model answers, and the requests that it received. Independent of any provider's format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Any


class ModelApi(StrEnum):
    """The API that a request uses."""

    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    EMBEDDINGS = "openai.embeddings"
    MESSAGES = "anthropic.messages"
    CONVERSE = "bedrock.converse"


@dataclass(frozen=True, slots=True)
class ScriptedToolCall:
    """A tool that the model calls."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    id: str | None = None  # None: numbered by the server

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the model answers. Token counts of zero are left out where the provider would leave them out."""

    text: str = ""
    _: KW_ONLY
    tool_calls: Sequence[ScriptedToolCall] = ()
    reasoning: str | None = None
    finish_reason: str | None = None  # stop, length, tool_calls or content_filter; None: by the content
    model: str | None = None  # that the response names; None: the requested one
    response_id: str | None = None  # None: numbered by the server
    input_tokens: int | None = 10  # all, cached ones included; None: the response has no usage
    output_tokens: int = 5  # reasoning included
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cut_after: int | None = None  # chunks of a stream until the connection is cut; 0: no response
    pause: Callable[[int], None] | None = None  # called with its number before each chunk; 0: the response

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")

    def pieces(self) -> list[str]:
        """The text as a stream delivers it: word by word."""
        return re.findall(r"\S+\s*|\s+", self.text)


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """An HTTP error of the provider."""

    status: int
    message: str = "scripted failure"
    retry_after: float | None = None  # seconds, as the header Retry-After


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that the server received."""

    api: ModelApi
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    stream: bool


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How one API encodes replies. `number` counts the requests of a server, for ids."""

    api: ModelApi
    path: re.Pattern[str]
    respond: Callable[[ModelRequest, ModelReply, int], Mapping[str, object]]
    stream: Callable[[ModelRequest, ModelReply, int], Iterator[bytes]] | None
    describe_failure: Callable[[ModelFailure], Mapping[str, object]]
    stream_type: str = "text/event-stream"


def server_sent_event(data: Mapping[str, object], name: str | None = None) -> bytes:
    """One server-sent event with JSON data."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def halves(text: str) -> tuple[str, str]:
    """JSON arguments as a stream delivers them: in parts that are not JSON by themselves."""
    middle = len(text) // 2
    return text[:middle], text[middle:]
