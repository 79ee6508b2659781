"""What projects, conversations and turns are called, and which run holds the events of each."""

from __future__ import annotations

import re
import secrets

from longwatch.errors import InvalidInput
from longwatch.journal.claims import TURN_PREFIX

PROJECTS_RUN = "projects"  # holds one event for each project: the list of them
LONGEST_ID = 100  # characters

_ID = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST_ID - 1}}}")
_TURN_ID = re.compile(rf"{TURN_PREFIX}[A-Za-z0-9._-]{{1,{LONGEST_ID - len(TURN_PREFIX)}}}")


def project_run(project_id: str) -> str:
    """The run of a project."""
    return f"project:{validate_id('project', project_id)}"


def conversation_run(project_id: str, conversation_id: str) -> str:
    """The run of a conversation. Neither id can hold a colon."""
    project = validate_id("project", project_id)
    return f"conversation:{project}:{validate_id('session', conversation_id)}"


def new_id() -> str:
    """An id for a project or a conversation."""
    return secrets.token_hex(6)


def new_turn_id() -> str:
    """An id for a turn. It is the id of its run, so it is unlike those of other runs."""
    return f"{TURN_PREFIX}{secrets.token_hex(6)}"


def validate_id(what: str, text: str) -> str:
    """The id of a project or a session, or `InvalidInput`."""
    if not _ID.fullmatch(text):
        raise InvalidInput(
            f"{text[:LONGEST_ID]!r} can not be the id of a {what}: use 1 to {LONGEST_ID} letters, digits, "
            "'.', '_' and '-', and begin with a letter, a digit or '_'"
        )
    return text


def validate_turn_id(text: str) -> str:
    """The id of a turn, or `InvalidInput`."""
    if not _TURN_ID.fullmatch(text):
        raise InvalidInput(
            f"{text[:LONGEST_ID]!r} can not be the id of a turn: it begins with 'turn-' and goes on with "
            "letters, digits, '.', '_' and '-'"
        )
    return text
