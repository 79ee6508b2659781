"""A command line as a run shows it."""

from __future__ import annotations

import pytest

from longwatch.recording.process.command import command_name, redact_command
from longwatch.recording.secret_names import SecretNames


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/make", "all"], "make"),
        (["python", "src/flow.py", "--all"], "flow.py"),
        (["python3.12", "-u", "flow.py"], "flow.py"),
        (["python3", "-m", "pkg.flow", "x"], "pkg.flow"),
        (["python3", "-m"], "python3"),
        (["python", "-c", "print(1)"], "python"),
        (["sh", "-c", "echo"], "sh"),
        (["node", "agent.mjs"], "agent.mjs"),
        (["bash"], "bash"),
        (["nodemon", "x.js"], "nodemon"),
        (["/"], "/"),
    ],
)
def test_a_run_is_named_after_what_it_runs(command: list[str], name: str) -> None:
    assert command_name(command) == name


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["deploy", "--all"], ["deploy", "--all"]),
        (["x", "--password", "hunter2", "--all"], ["x", "--password", "[redacted]", "--all"]),
        (["x", "--password", "--all"], ["x", "--password", "--all"]),
        (["x", "--api-key=abc", "--n=3"], ["x", "--api-key=[redacted]", "--n=3"]),
        (["env", "GH_TOKEN=abc", "A=b", "x"], ["env", "GH_TOKEN=[redacted]", "A=b", "x"]),
        (["curl", "-H", "Authorization: Basic abc"], ["curl", "-H", "Authorization: Basic [redacted]"]),
        (["curl", "https://u:p@host/x"], ["curl", "https://[redacted]@host/x"]),
        (["sh", "-c", "export TOKEN=abc; run"], ["sh", "-c", "export TOKEN=[redacted]; run"]),
        (["x", "AKIAABCDEFGHIJKLMNOP"], ["x", "[redacted]"]),
    ],
)
def test_secrets_in_arguments_are_not_shown(command: list[str], shown: list[str]) -> None:
    assert redact_command(command, SecretNames()) == shown
