"""How a process ended, and what is written for one that did not report it itself."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from longwatch.recording.process.exit_status import Exit, describe_start_failure, signal_name, terminal_event


@pytest.mark.parametrize(
    ("returncode", "code", "description"),
    [
        (0, 0, "exit code 0"),
        (3, 3, "exit code 3"),
        (-9, 137, "ended by SIGKILL"),
        (-15, 143, "ended by SIGTERM"),
    ],
)
def test_an_exit_has_the_code_that_a_shell_would_give(returncode: int, code: int, description: str) -> None:
    exit_ = Exit.of(returncode)

    assert (exit_.shell_code, exit_.description) == (code, description)


@pytest.mark.parametrize(
    ("returncode", "interrupted_by", "stderr", "type", "payload"),
    [
        (0, None, ["a warning"], "workflow_complete", {"status": "completed", "exit_code": 0}),
        (
            3,
            None,
            ["Traceback", "ValueError: boom", ""],
            "workflow_error",
            {
                "status": "failed",
                "exit_code": 3,
                "error_message": "exit code 3: ValueError: boom",
                "stderr": ["Traceback", "ValueError: boom", ""],
            },
        ),
        (
            -9,
            None,
            [],
            "workflow_error",
            {
                "status": "failed",
                "signal": "SIGKILL",
                "forwarded": False,
                "error_message": "ended by SIGKILL",
            },
        ),
        (
            -15,
            signal.SIGTERM,
            [],
            "workflow_error",
            {
                "status": "interrupted",
                "signal": "SIGTERM",
                "forwarded": True,
                "error_message": "interrupted by SIGTERM, ended by SIGTERM",
            },
        ),
        (
            0,
            signal.SIGINT,
            [],
            "workflow_error",
            {"status": "interrupted", "exit_code": 0, "error_message": "interrupted by SIGINT, exit code 0"},
        ),
    ],
)
def test_the_terminal_event_states_the_details_of_the_exit(
    returncode: int, interrupted_by: int | None, stderr: list[str], type: str, payload: dict[str, object]
) -> None:
    event = terminal_event(
        Exit.of(returncode),
        interrupted_by=interrupted_by,
        sent={interrupted_by},
        execution_time_ms=12.5,
        stderr=stderr,
    )

    assert event == (type, {"written_for": True, "execution_time_ms": 12.5, **payload})


@pytest.mark.parametrize(
    ("number", "code", "hint"),
    [
        (errno.ENOENT, 127, "not found"),
        (errno.EACCES, 126, "chmod"),
        (errno.ENOEXEC, 126, "interpreter"),
        (errno.E2BIG, 126, "Argument list too long"),
    ],
)
def test_a_command_that_cannot_be_started_has_a_reason(number: int, code: int, hint: str) -> None:
    result = describe_start_failure("./flow", OSError(number, os.strerror(number)))

    assert result[0] == code
    assert "'./flow'" in result[1]
    assert hint in result[1]


def test_a_signal_without_a_name_is_named_by_its_number() -> None:
    assert signal_name(40) == "signal 40"
