"""Notifications of this desktop: `notify-send`, or OSC 9, which many terminals display."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message

WAYS = ("auto", "notify-send", "terminal")
TERMINAL = Path("/dev/tty")
TIMEOUT_SECONDS = 5.0
MAX_LINES = 5  # of a body


def check(options: Options) -> None:
    """Raises ValueError for options that can never work."""
    if options.get("via", WAYS[0]) not in WAYS:
        raise ValueError(f"via must be one of {', '.join(WAYS)}, not {options['via']!r}")


def printable(text: str) -> str:
    """The text without control characters, which could end an escape sequence and begin another."""
    return "".join(each if each.isprintable() else " " for each in text)


def escape_sequence(message: Message) -> str:
    """OSC 9 with the title and the first line of the body."""
    first = message.body.partition("\n")[0]
    return f"\x1b]9;{printable(f'{message.title} · {first}')}\x07"


class DesktopChannel:
    """Shows messages to the user who runs the notifier."""

    def __init__(
        self,
        options: Options,
        *,
        find: Callable[[str], str | None] = shutil.which,
        terminal: Path = TERMINAL,
    ) -> None:
        self._via = str(options.get("via", WAYS[0]))
        self._find = find
        self._terminal = terminal

    def send(self, message: Message) -> DeliveryReceipt:
        program = None if self._via == "terminal" else self._find("notify-send")
        has_desktop = bool(os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.environ.get("DISPLAY"))
        if program is not None and (has_desktop or self._via == "notify-send"):
            return self._notify(program, message)
        if self._via == "notify-send":
            raise DeliveryError("notify-send is not installed", is_retryable=True)
        return self._write(message)

    def _notify(self, program: str, message: Message) -> DeliveryReceipt:
        urgency = "normal" if message.is_resolved else "critical"
        lines = [printable(each) for each in message.body.splitlines()[:MAX_LINES]]
        command = [program, "--app-name=longwatch", f"--urgency={urgency}", "--"]
        try:
            done = subprocess.run(
                [*command, printable(message.title), "\n".join(lines)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeliveryError(f"notify-send failed: {error}", is_retryable=True) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            problem = f"notify-send exited with {done.returncode}{f': {said[-1][:200]}' if said else ''}"
            raise DeliveryError(problem, is_retryable=True)
        return DeliveryReceipt("notify-send")

    def _write(self, message: Message) -> DeliveryReceipt:
        try:
            descriptor = os.open(self._terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise DeliveryError(
                "There is no desktop and no terminal to notify. Run the notifier in a terminal, or use "
                "another channel",
                is_retryable=True,
            ) from error
        try:
            os.write(descriptor, escape_sequence(message).encode())
        except OSError as error:
            problem = f"the terminal cannot be written to: {error.strerror}"
            raise DeliveryError(problem, is_retryable=True) from error
        finally:
            os.close(descriptor)
        return DeliveryReceipt("terminal")


def _open(options: Options, context: ChannelContext) -> Channel:
    return DesktopChannel(options)


KIND = ChannelKind(name="desktop", options=frozenset({"via"}), check=check, open=_open)
