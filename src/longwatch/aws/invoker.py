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
from longwatch.journal.base import Journal
from longwatch.recording.sessions.recorder import (
    EXECUTION_VARIABLE,
    REGION_VARIABLE,
    SESSION_VARIABLE,
    TABLE_VARIABLE,
    SessionRecorder,
    failure_text,
    open_session_journal,
)
from longwatch.recording.sessions.statuses import SessionStatus


def handler(event: Mapping[str, Any], context: object = None) -> dict[str, Any]:
    """What Lambda calls."""
    return invoke(event, open_session_journal(), lambda: agent_from(os.environ))


def invoke(event: Mapping[str, Any], journal: Journal, agent: Callable[[], Agent]) -> dict[str, Any]:
    """Invoke the agent once, and journal STARTED, then SUCCEEDED or FAILED."""
    session_id, execution = event["session_id"], event.get("execution")
    recorder = SessionRecorder(journal, session_id, execution=execution)
    recorder.tell(SessionStatus.AGENT_INVOCATION_STARTED)
    try:
        answer = agent().invoke(session_id, request(event))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to the state machine
        recorder.tell(SessionStatus.AGENT_INVOCATION_FAILED, error=error)
        return {"session_id": session_id, "status": "failed", "error": failure_text(error)}
    recorder.tell(SessionStatus.AGENT_INVOCATION_SUCCEEDED)
    return {"session_id": session_id, "status": "succeeded", "answer": answer}


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
