"""The words of a session's journal (document 002), and which of them tell of a failure."""

from __future__ import annotations

import re
from enum import StrEnum

from longwatch.errors import InvalidEvent

_TASK = re.compile(r"TASK_[A-Za-z0-9_-]{1,50}_(?:STARTED|COMPLETED|FAILED)")


class SessionStatus(StrEnum):
    """What can happen to a session. A phase of the agent's own work is a `task_status`."""

    SESSION_INITIATED = "SESSION_INITIATED"
    AGENT_INVOCATION_STARTED = "AGENT_INVOCATION_STARTED"
    AGENT_INVOCATION_SUCCEEDED = "AGENT_INVOCATION_SUCCEEDED"
    AGENT_INVOCATION_FAILED = "AGENT_INVOCATION_FAILED"
    AGENT_ENTRYPOINT_STARTED = "AGENT_ENTRYPOINT_STARTED"
    AGENT_ENTRYPOINT_FAILED = "AGENT_ENTRYPOINT_FAILED"
    AGENT_BACKGROUND_TASK_STARTED = "AGENT_BACKGROUND_TASK_STARTED"
    AGENT_BACKGROUND_TASK_COMPLETED = "AGENT_BACKGROUND_TASK_COMPLETED"
    AGENT_BACKGROUND_TASK_FAILED = "AGENT_BACKGROUND_TASK_FAILED"
    SESSION_SUCCEEDED = "SESSION_SUCCEEDED"  # these three are the state machine's own ends
    SESSION_FAILED = "SESSION_FAILED"
    SESSION_UNCONFIRMED = "SESSION_UNCONFIRMED"


class TaskState(StrEnum):
    """How a phase of the agent's work stands."""

    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


def task_status(phase: str, state: TaskState) -> str:
    """The status of one phase, as `TASK_indexing_STARTED`."""
    return checked_status(f"TASK_{phase}_{TaskState(state)}")


def checked_status(status: str) -> str:
    """The status, if it is one. Raises `InvalidEvent` before anything is written."""
    if status in SessionStatus.__members__ or _TASK.fullmatch(status):
        return str(status)
    raise InvalidEvent(
        f"{status!r} is no status of a session; use one of {', '.join(SessionStatus)}, or "
        "TASK_{phase}_STARTED, _COMPLETED or _FAILED with a phase of 1 to 50 letters, digits, '_' and '-'"
    )


def tells_of_failure(status: str) -> bool:
    """Whether the record of this status carries an ErrorMessage."""
    return status.endswith("_FAILED") or status == SessionStatus.SESSION_UNCONFIRMED
