"""Commands get the message on stdin, within bounded time and output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from longwatch.notifications.channels.base import Channel, ChannelContext, DeliveryError
from longwatch.notifications.channels.command import KIND
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger
from longwatch.settings import Settings


def message(runs: int = 1) -> Message:
    notices = [
        Notice(run_id=f"wf-{number}", run_name=None, trigger=Trigger.FAILED, text="x" * 300, occurred_at=1)
        for number in range(runs)
    ]  # fmt: skip
    return compose("msg_1", "failures", notices)


def channel(*command: str, timeout: str = "10s") -> Channel:
    options = {"command": list(command), "timeout": timeout}
    KIND.check(options)
    return KIND.open(options, ChannelContext(settings=Settings(journal="memory://")))


def python(code: str, **options: str) -> Channel:
    return channel(sys.executable, "-c", code, **options)


def test_the_command_reads_the_message_as_json(tmp_path: Path) -> None:
    out = tmp_path / "message.json"

    receipt = channel("tee", str(out)).send(message(30))

    assert receipt.status == "exit 0"
    assert json.loads(out.read_text())["count"] == 30


def test_arguments_are_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"

    channel("sh", "-c", f'printf %s "$0" > {out}', "$(id); `id` && *").send(message())

    assert out.read_text() == "$(id); `id` && *"


def test_a_command_that_does_not_read_does_not_block() -> None:
    assert channel("true").send(message(30)).status == "exit 0"


def test_a_failing_command_is_retried_with_its_last_line() -> None:
    with pytest.raises(DeliveryError, match=r"exited with 3: password=\[redacted\]$") as raised:
        python("import sys; print('first'); print('password=hunter2', file=sys.stderr); sys.exit(3)").send(
            message()
        )

    assert raised.value.is_retryable


def test_a_command_that_is_killed_or_missing_is_stated() -> None:
    with pytest.raises(DeliveryError, match="was killed by signal 15"):
        python("import os; os.kill(os.getpid(), 15)").send(message())
    with pytest.raises(DeliveryError, match="cannot be started: No such file"):
        channel("/does/not/exist").send(message())


def test_a_command_that_takes_too_long_is_killed_with_its_children() -> None:
    with pytest.raises(DeliveryError, match=r"did not exit within 0.2 s"):
        channel("sh", "-c", "sleep 60 & sleep 60", timeout="200ms").send(message())


def test_endless_output_is_bounded() -> None:
    with pytest.raises(DeliveryError, match="did not exit") as raised:
        channel("yes", timeout="300ms").send(message())

    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "command must be a list"),
        ({"command": "echo hi"}, "command must be a list"),
        ({"command": []}, "command must be a list"),
        ({"command": [""]}, "must begin with a program"),
        ({"command": ["x"], "timeout": "2h"}, "timeout must be a duration up to 60s"),
        ({"command": ["x"], "timeout": 5}, "timeout must be a duration"),
        ({"command": ["x"], "timeout": "soon"}, "timeout: Invalid duration"),
    ],
)
def test_a_mistake_in_the_options_names_the_key(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        KIND.check(options)
