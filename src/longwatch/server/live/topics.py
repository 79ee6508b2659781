"""The topics of the feed by name: runs, executions, projects, conversations, turns, a project's files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from longwatch.errors import InvalidCursor, InvalidInput
from longwatch.executions.model import MAX_KEY_BYTES
from longwatch.model.event import MAX_RUN_ID_BYTES

MAX_TOPICS = 100  # in one stream
MAX_CURSOR_CHARACTERS = 64 * 1024

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class TopicKind(StrEnum):
    """The part of a topic's name before the colon."""

    RUN = "run"
    RUNS = "runs"
    TURN = "turn"
    SESSION = "session"
    FILES = "files"
    PROJECTS = "projects"
    SESSIONS = "sessions"
    EXECUTION = "execution"
    EXECUTIONS = "executions"


_PARTS = {TopicKind.TURN: 3, TopicKind.SESSION: 2, TopicKind.SESSIONS: 1, TopicKind.FILES: 1}
_LISTS = (TopicKind.RUNS, TopicKind.PROJECTS, TopicKind.EXECUTIONS)
_OF_ANY_ID = {TopicKind.RUN: MAX_RUN_ID_BYTES, TopicKind.EXECUTION: MAX_KEY_BYTES}
_FORMS = (
    "run:{run_id}, runs, execution:{plan}/{execution_id}, executions, turn:{project}/{session}/{turn}, "
    "session:{project}/{session}, sessions:{project}, projects or files:{project}"
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was named, and its parts."""

    name: str
    kind: TopicKind
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str) -> Topic:
        """Parse a name. `InvalidInput` states what is wrong with it."""
        prefix, colon, rest = name.partition(":")
        if name in _LISTS:
            return cls(name, TopicKind(name))
        if prefix in _OF_ANY_ID and rest:
            try:
                size = len(rest.encode())
            except UnicodeEncodeError as error:
                raise InvalidInput(
                    f"Invalid topic {name[:60]!r}: it cannot be encoded as UTF-8 ({error})."
                ) from error
            most = _OF_ANY_ID[TopicKind(prefix)]
            if size > most:
                raise InvalidInput(f"Invalid topic {name[:60]!r}…: its id is longer than {most} bytes.")
            return cls(name, TopicKind(prefix), (rest,))
        if colon and prefix in _PARTS:
            kind, parts = TopicKind(prefix), tuple(rest.split("/"))
            if len(parts) == _PARTS[kind] and all(_ID.fullmatch(part) for part in parts):
                return cls(name, kind, parts)
        raise InvalidInput(f"Invalid topic {name[:60]!r}. Use {_FORMS}.")


def topics_of(names: Sequence[str]) -> list[Topic]:
    """The topics of one stream: at least one, each only once."""
    if not names:
        raise InvalidInput(f"No topic. Use {_FORMS}.")
    if len(names) > MAX_TOPICS:
        raise InvalidInput(f"Too many topics: {len(names)}. A stream has at most {MAX_TOPICS}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"Duplicate topic {twice[0][:60]!r}. A stream has each topic once.")
    return [Topic.of(name) for name in names]


def split_cursors(text: str, count: int) -> list[str]:
    """The cursors of so many topics, in their order. An empty text is the start of each."""
    if not text:
        return [""] * count
    cursors = text.split(";")
    if len(cursors) != count:
        raise InvalidCursor(
            f"The cursor has {len(cursors)} parts, but the stream has {count} topics. Pass the cursor of a "
            "stream with the same topics, or none to start from the beginning."
        )
    if len(text) > MAX_CURSOR_CHARACTERS or not text.isascii() or not text.isprintable():
        raise InvalidCursor("Invalid cursor of the feed. Leave it out to start from the beginning.")
    return cursors


def join_cursors(cursors: Sequence[str]) -> str:
    """The cursor of a stream of several topics."""
    return ";".join(cursors) if any(cursors) else ""
