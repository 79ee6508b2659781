"""What can be followed, by name: runs, executions, projects, conversations, turns, a project's files."""

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
    """The word before the colon."""

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
        """The topic of this name; `InvalidInput` says why it is none."""
        word, colon, rest = name.partition(":")
        if name in _LISTS:
            return cls(name, TopicKind(name))
        if word in _OF_ANY_ID and rest:
            try:
                size = len(rest.encode())
            except UnicodeEncodeError as error:
                raise InvalidInput(f"topic {name[:60]!r} holds what UTF-8 cannot: {error}") from error
            most = _OF_ANY_ID[TopicKind(word)]
            if size > most:
                raise InvalidInput(f"topic {name[:60]!r}… names an id longer than {most} bytes")
            return cls(name, TopicKind(word), (rest,))
        if colon and word in _PARTS:
            kind, parts = TopicKind(word), tuple(rest.split("/"))
            if len(parts) == _PARTS[kind] and all(_ID.fullmatch(part) for part in parts):
                return cls(name, kind, parts)
        raise InvalidInput(f"{name[:60]!r} is no topic; follow {_FORMS}")


def topics_of(names: Sequence[str]) -> list[Topic]:
    """The topics of one stream: at least one, each only once."""
    if not names:
        raise InvalidInput(f"no topic was given; follow {_FORMS}")
    if len(names) > MAX_TOPICS:
        raise InvalidInput(f"{len(names)} topics are more than the {MAX_TOPICS} that one stream carries")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"topic {twice[0][:60]!r} was given twice; a stream carries each topic once")
    return [Topic.of(name) for name in names]


def split_cursors(text: str, count: int) -> list[str]:
    """The cursors of so many topics, in their order. No text at all is the start of each."""
    if not text:
        return [""] * count
    cursors = text.split(";")
    if len(cursors) != count:
        raise InvalidCursor(
            f"the cursor has {len(cursors)} parts, and the stream {count} topics; "
            "give the cursor of a stream with the same topics, or none to begin at the start"
        )
    if len(text) > MAX_CURSOR_CHARACTERS or not text.isascii() or not text.isprintable():
        raise InvalidCursor("this is no cursor of the feed; leave it out to begin at the start")
    return cursors


def join_cursors(cursors: Sequence[str]) -> str:
    """Where a stream of several topics stands."""
    return ";".join(cursors) if any(cursors) else ""
