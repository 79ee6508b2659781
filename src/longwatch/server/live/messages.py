"""The messages of the feed. Each is rendered once, and all viewers get the same text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from longwatch.documents.views import FileView
from longwatch.errors import LongwatchError
from longwatch.journal.codec import to_line
from longwatch.model.event import Event
from longwatch.server.errors import code_of


class Frame:
    """One message of one topic, and the cursor of a viewer that has received it.

    A frame without a cursor does not advance the topic: a viewer that resumes gets it again.
    """

    __slots__ = ("_body", "_sse", "_values", "_wire", "cursor", "data", "name")

    def __init__(self, name: str, data: str, cursor: str | None = None) -> None:
        self.name = name
        self.data = data  # JSON, without a line break
        self.cursor = cursor
        self._body: bytes | None = None
        self._sse: bytes | None = None
        self._wire: str | None = None
        self._values: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Frame({self.name!r}, {self.data!r}, {self.cursor!r})"

    def at(self, cursor: str) -> Frame:
        """The same message under another cursor, without rendering it again."""
        moved = Frame(self.name, self.data, cursor)
        moved._body = self.body
        return moved

    @property
    def body(self) -> bytes:
        """A server-sent event without its id."""
        if self._body is None:
            self._body = f"event: {self.name}\ndata: {self.data}\n\n".encode()
        return self._body

    @property
    def sse(self) -> bytes:
        """A server-sent event of a stream that has this topic alone: its id is the bare cursor."""
        if self._sse is None:
            # Not from `body`, which would be cached as well: few frames are sent in both ways.
            head = "" if self.cursor is None else f"id: {self.cursor}\n"
            self._sse = f"{head}event: {self.name}\ndata: {self.data}\n\n".encode()
        return self._sse

    @property
    def wire(self) -> str:
        """A message of the WebSocket."""
        if self._wire is None:
            cursor = "null" if self.cursor is None else json.dumps(self.cursor)
            self._wire = f'{{"event":"{self.name}","cursor":{cursor},"data":{self.data}}}'
        return self._wire

    def values(self) -> dict[str, Any]:
        """The data, parsed once for all who select fields of it."""
        if self._values is None:
            self._values = json.loads(self.data)
        return self._values


def message(name: str, topic: str | None, cursor: str | None = None, **values: Any) -> Frame:
    """A message from values that JSON can say."""
    data = values if topic is None else {"topic": topic, **values}
    return Frame(name, json.dumps(data, separators=(",", ":"), ensure_ascii=False, default=vars), cursor)


def event_message(topic: str, event: Event, *, late: bool, cursor: str) -> Frame:
    """One event of a run."""
    quoted, is_late = json.dumps(topic, ensure_ascii=False), "true" if late else "false"
    return Frame("event", f'{{"topic":{quoted},"event":{to_line(event)},"late":{is_late}}}', cursor)


def caught_up(topic: str, cursor: str | None) -> Frame:
    """Everything that was there has been sent; what comes now is live."""
    return message("caught_up", topic, cursor)


def missed(topic: str, count: int) -> Frame:
    """The viewer was too slow, and messages were dropped. Their content is read again and comes next."""
    return message("missed", topic, count=count)


def failure(topic: str, error: LongwatchError) -> Frame:
    """The topic cannot be followed, and trying again would not help."""
    return message("error", topic, code=code_of(type(error)), message=str(error))


def failure_of(topic: str, code: str, text: str) -> Frame:
    """The same, where there is no error of longwatch."""
    return message("error", topic, code=code, message=text)


def files_message(topic: str, version: int, changes: Sequence[FileView], cursor: str | None) -> Frame:
    """Files that were made, changed or deleted."""
    return message("files", topic, cursor, version=version, changes=list(changes))


def beat(now_ms: int, *, is_away: bool = False) -> Frame:
    """The connection is alive; a real event, so that a client recognises a stalled proxy.

    It also reports that the journal cannot be read: then nothing new can come.
    """
    return message("beat", None, now=now_ms, **({"journal": "away"} if is_away else {}))


CLOSING = message("closing", None)
"""The server is going down: come back soon."""
