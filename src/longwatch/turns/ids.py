"""Ids of projects, conversations and turns, and the runs that hold their events."""

from __future__ import annotations

import re
import secrets

from longwatch.errors import InvalidInput
from longwatch.journal.claims import TURN_PREFIX

PROJECTS_RUN = "projects"  # lists the projects, with one event for each
LONGEST_ID = 100  # characters

_ID = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST_ID - 1}}}")
_TURN_ID = re.compile(rf"{TURN_PREFIX}[A-Za-z0-9._-]{{1,{LONGEST_ID - len(TURN_PREFIX)}}}")


def project_run(project_id: str) -> str:
    return f"project:{validate_id('project', project_id)}"


def conversation_run(project_id: str, conversation_id: str) -> str:
    """The run of a conversation. Ids have no colon."""
    project = validate_id("project", project_id)
    return f"conversation:{project}:{validate_id('session', conversation_id)}"


def new_id() -> str:
    return secrets.token_hex(6)


def new_turn_id() -> str:
    """A new id for a turn. It is also the id of its run, so its prefix differs from other runs."""
    return f"{TURN_PREFIX}{secrets.token_hex(6)}"


def validate_id(what: str, text: str) -> str:
    """The id of a project or a session, or `InvalidInput`."""
    if not _ID.fullmatch(text):
        raise InvalidInput(
            f"Invalid {what} id {text[:LONGEST_ID]!r}. Use 1 to {LONGEST_ID} letters, digits, '.', '_' and "
            "'-', beginning with a letter, a digit or '_'."
        )
    return text


def validate_turn_id(text: str) -> str:
    """The id of a turn, or `InvalidInput`."""
    if not _TURN_ID.fullmatch(text):
        raise InvalidInput(
            f"Invalid turn id {text[:LONGEST_ID]!r}. Use 'turn-' followed by letters, digits, '.', '_' "
            "and '-'."
        )
    return text
