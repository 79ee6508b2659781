"""The words of a session's journal."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidEvent
from longwatch.recording.sessions import SessionStatus, TaskState, task_status
from longwatch.recording.sessions.recorder import is_failure_status, validate_status


@pytest.mark.parametrize("status", list(SessionStatus))
def test_every_required_status_is_accepted(status: SessionStatus) -> None:
    assert validate_status(status) == status.value


@pytest.mark.parametrize(
    "status", ["TASK_indexing_STARTED", "TASK_a_COMPLETED", f"TASK_{'x' * 50}_FAILED", "TASK_step-1_b_FAILED"]
)
def test_a_phase_of_the_agent_s_own_is_accepted(status: str) -> None:
    assert validate_status(status) == status


@pytest.mark.parametrize(
    "status",
    [
        "",
        "COMPLETED",
        "agent_entrypoint_started",
        "AGENT_BACKGROUND_TASK_DONE",
        "TASK__STARTED",
        "TASK_STARTED",
        f"TASK_{'x' * 51}_FAILED",
        "TASK_two words_STARTED",
        "TASK_a_STARTED\n",
    ],
)
def test_anything_else_is_refused_with_what_to_write(status: str) -> None:
    with pytest.raises(InvalidEvent, match="SESSION_INITIATED"):
        validate_status(status)


def test_a_phase_is_described() -> None:
    assert task_status("indexing", TaskState.COMPLETED) == "TASK_indexing_COMPLETED"


def test_a_phase_with_other_characters_is_refused() -> None:
    with pytest.raises(InvalidEvent):
        task_status("über", TaskState.STARTED)


def test_failures_are_those_that_carry_a_message() -> None:
    failures = {status for status in SessionStatus if is_failure_status(status)}

    assert failures == {
        SessionStatus.AGENT_INVOCATION_FAILED,
        SessionStatus.AGENT_ENTRYPOINT_FAILED,
        SessionStatus.AGENT_BACKGROUND_TASK_FAILED,
        SessionStatus.SESSION_FAILED,
        SessionStatus.SESSION_UNCONFIRMED,
    }
