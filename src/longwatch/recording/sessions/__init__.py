"""The session journal (document 002): its statuses, who writes them, and the agent's side of it."""

from longwatch.recording.sessions.recorder import SessionRecorder, open_session_journal
from longwatch.recording.sessions.statuses import SessionStatus, TaskState, task_status
from longwatch.recording.sessions.wrapping import (
    agent_entrypoint,
    background_task,
    record_phase,
    start_background,
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
