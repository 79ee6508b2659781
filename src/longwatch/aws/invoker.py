"""The Lambda function that invokes the agent of a session and journals how that went (document 002).

The state machine calls it with `session_id`, `execution` and `payload`. It never raises because of the agent:
its answer says `succeeded` or `failed`, and the state machine finds the end of the work in the journal.

Environment: LONGWATCH_TABLE_NAME and LONGWATCH_REGION name the journal; LONGWATCH_AGENT_RUNTIME_ARN or
LONGWATCH_AGENT_URL names the agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from longwatch.aws.agents import Agent, agent_from
from longwatch.errors import InvalidInput
from longwatch.journal.base import Journal
from longwatch.recording.sessions.recorder import (
    EXECUTION_VARIABLE,
    REGION_VARIABLE,
    SESSION_VARIABLE,
    TABLE_VARIABLE,
    SessionRecorder,
    SessionStatus,
    failure_text,
    open_session_journal,
)

ERROR_CHARACTERS = 4_096  # of the answer; a state machine ends at once if it gets more than 256 KB


def handler(event: Mapping[str, Any], context: object = None) -> dict[str, Any]:
    """What Lambda calls."""
    session_of(event)  # before the journal is opened: its problem would hide this one
    return invoke(event, open_session_journal(), lambda: agent_from(os.environ))


def invoke(event: Mapping[str, Any], journal: Journal, agent: Callable[[], Agent]) -> dict[str, Any]:
    """Invoke the agent once, and journal STARTED, then SUCCEEDED or FAILED."""
    session_id, execution = session_of(event), event.get("execution")
    recorder = SessionRecorder(journal, session_id, execution=execution)
    recorder.tell(SessionStatus.AGENT_INVOCATION_STARTED)
    try:
        answer = agent().invoke(session_id, request(event))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to the state machine
        recorder.tell(SessionStatus.AGENT_INVOCATION_FAILED, error=error)
        said = failure_text(error)[:ERROR_CHARACTERS]
        return {"session_id": session_id, "status": "failed", "error": said}
    recorder.tell(SessionStatus.AGENT_INVOCATION_SUCCEEDED)
    return {"session_id": session_id, "status": "succeeded", "answer": answer}


def session_of(event: object) -> str:
    """The session of an event. Raises `InvalidInput` that says what an event looks like."""
    session_id = event.get("session_id") if isinstance(event, Mapping) else None
    if isinstance(session_id, str) and session_id:
        return session_id
    raise InvalidInput(
        f"Invalid event: session_id is {session_id!r}. Start the state machine instead, or send "
        '{"session_id": "ID", "payload": {…}} with a non-empty string as the id.'
    )


def request(event: Mapping[str, Any]) -> dict[str, Any]:
    """What the agent is sent: the caller's payload, the session, and what belongs into its environment."""
    environment = {
        SESSION_VARIABLE: event["session_id"],
        EXECUTION_VARIABLE: event.get("execution"),
        TABLE_VARIABLE: os.environ.get(TABLE_VARIABLE),
        REGION_VARIABLE: os.environ.get(REGION_VARIABLE) or os.environ.get("AWS_REGION"),
    }
    payload = event.get("payload")
    return {
        **(payload if isinstance(payload, Mapping) else {"input": payload}),
        "session_id": event["session_id"],
        "execution": event.get("execution"),
        "environment": {name: value for name, value in environment.items() if value},
    }
