"""The session journal: its statuses, its recorder, and the decorators for agents."""

from longwatch.recording.sessions.agent import (
    agent_entrypoint,
    background_task,
    record_phase,
    start_background,
)
from longwatch.recording.sessions.recorder import (
    SessionRecorder,
    SessionStatus,
    TaskState,
    open_session_journal,
    task_status,
)

__all__ = [
    "SessionRecorder",
    "SessionStatus",
    "TaskState",
    "agent_entrypoint",
    "background_task",
    "open_session_journal",
    "record_phase",
    "start_background",
    "task_status",
]
