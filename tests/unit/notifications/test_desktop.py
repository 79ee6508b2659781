"""Desktop notifications: `notify-send` where there is a desktop, else the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longwatch.notifications.channels.base import DeliveryError
from longwatch.notifications.channels.desktop import KIND, DesktopChannel, escape_sequence
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger


def message(text: str = "failed", *, is_resolved: bool = False) -> Message:
    notice = Notice(
        run_id="wf-1",
        run_name="import",
        trigger=Trigger.FAILED,
        text=text,
        occurred_at=1,
        is_resolved=is_resolved,
    )
    return compose("d-1", "failures", [notice])


def program(tmp_path: Path, script: str) -> str:
    path = tmp_path / "notify-send"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def test_notify_send_gets_the_title_and_the_body(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = program(tmp_path, f'printf "%s|" "$@" > {out}')

    receipt = DesktopChannel({"via": "notify-send"}, find=lambda _: found).send(message("failed: no\x1b[31m"))

    assert receipt.status == "notify-send"
    assert out.read_text() == (
        "--app-name=longwatch|--urgency=critical|--|import failed|import (wf-1): failed: no [31m|"
    )


def test_a_failing_notify_send_is_a_retryable_error(tmp_path: Path) -> None:
    found = program(tmp_path, "echo no daemon >&2; exit 3")

    with pytest.raises(DeliveryError, match="notify-send exited with 3: no daemon") as raised:
        DesktopChannel({"via": "notify-send"}, find=lambda _: found).send(message())

    assert raised.value.is_retryable


def test_a_missing_notify_send_is_stated() -> None:
    with pytest.raises(DeliveryError, match="notify-send is not installed"):
        DesktopChannel({"via": "notify-send"}, find=lambda _: None).send(message())


def test_a_terminal_gets_one_escape_sequence_without_control_characters() -> None:
    owner, terminal = os.openpty()
    try:
        channel = DesktopChannel({"via": "terminal"}, terminal=Path(os.ttyname(terminal)))

        receipt = channel.send(message("failed: \x07\x1b]0;evil"))

        assert receipt.status == "terminal"
        sent = os.read(owner, 1000).decode()
        assert (sent.count("\x1b"), sent.count("\x07")) == (1, 1)
        assert sent.startswith("\x1b]9;import failed")
    finally:
        os.close(owner)
        os.close(terminal)


def test_an_escape_sequence_is_one_line() -> None:
    text = escape_sequence(message("failed:\nno space"))

    assert text == "\x1b]9;import failed · import (wf-1): failed: no space\x07"


def test_without_a_desktop_and_a_terminal_the_advice_is_to_use_another_channel(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="no desktop and no terminal"):
        DesktopChannel({"via": "terminal"}, terminal=tmp_path / "none").send(message())


def test_an_unknown_way_is_a_mistake_of_the_rule() -> None:
    with pytest.raises(ValueError, match="via must be one of auto, notify-send, terminal, not 'growl'"):
        KIND.check({"via": "growl"})
